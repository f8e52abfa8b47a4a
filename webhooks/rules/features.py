"""Rules around DRA that every device meets: gates of other features, and ramfb displays (K-2.22 to K-2.24, K-2.26)."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.api.kubevirt_v1 import GPU
from virt_dra.api.kubevirt_versions import HOST_DEVICES, RESERVED_OVERHEAD_MEMLOCK, SIDECAR
from webhooks.rules.subject import Subject
from webhooks.verdict import INVALID, Cause

HOOK_SIDECARS = "hooks.kubevirt.io/hookSidecars"


def reserved_overhead(subject: Subject) -> Iterator[Cause]:
    """K-2.26."""
    memory = subject.spec.domain.memory
    if memory is not None and memory.reserved_overhead is not None and RESERVED_OVERHEAD_MEMLOCK not in subject.gates:
        text = "Reserved overhead memlock feature gate is not enabled in kubevirt-config"
        yield Cause(INVALID, text, subject.path("domain.memory.reservedOverhead"))


def one_ramfb(subject: Subject) -> Iterator[Cause]:
    """K-2.23. The trailing blank of the message is KubeVirt's."""
    if sum(_has_ramfb(gpu) for gpu in subject.spec.domain.devices.gpus) > 1:
        yield Cause(INVALID, "configuring multiple displays with ramfb is not valid ", subject.path("GPUs"))


def _has_ramfb(gpu: GPU) -> bool:
    display = gpu.virtual_gpu_options.display if gpu.virtual_gpu_options else None
    if display is None or display.enabled is False:
        return False
    return display.ram_fb is None or display.ram_fb.enabled is not False


def host_devices_gate(subject: Subject) -> Iterator[Cause]:
    """K-2.22: this gate is needed for DRA host devices as well."""
    if subject.spec.domain.devices.host_devices and HOST_DEVICES not in subject.gates:
        yield Cause(INVALID, "Host Devices feature gate is not enabled in kubevirt-config", subject.path("HostDevices"))


def sidecars(subject: Subject) -> Iterator[Cause]:
    """K-2.24. An empty annotation passes."""
    if subject.annotations.get(HOOK_SIDECARS) and SIDECAR not in subject.gates:
        field = f"{subject.metadata}.annotations"
        text = f"sidecar feature gate is not enabled in kubevirt-config, invalid entry {field}.{HOOK_SIDECARS}"
        yield Cause(INVALID, text, field)
