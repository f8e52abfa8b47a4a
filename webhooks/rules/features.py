"""Rules around DRA: gates of other features, ramfb displays and reserved labels (K-2.22 to K-2.24, K-2.26, K-2.47,
K-9.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from virt_dra.api.kubevirt_v1 import RamFB, VirtualMachineInstanceSpec
from virt_dra.api.kubevirt_versions import HOST_DEVICES, MULTI_ARCHITECTURE, RESERVED_OVERHEAD_MEMLOCK, SIDECAR, Gates
from webhooks.rules.reviewed_spec import ReviewedSpec
from webhooks.verdict import INVALID, NOT_SUPPORTED, REQUIRED, AdmissionCause

HOOK_SIDECARS = "hooks.kubevirt.io/hookSidecars"
RESERVED_LABELS: Final = (
    "kubevirt.io/created-by",
    "kubevirt.io/install-strategy",
    "kubevirt.io/migrationJobUID",
    "kubevirt.io/migrationTargetNodeName",
    "kubevirt.io/nodeName",
    "kubevirt.io/schedulable",
)
"""Labels that only KubeVirt's own accounts may set (K-9.4)."""


def architecture(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Another architecture than the control plane's with its feature gate off, up to 1.7 (K-2.47)."""
    if MULTI_ARCHITECTURE not in subject.gates and another_architecture(subject.spec, subject.gates):
        text = f"{MULTI_ARCHITECTURE} feature gate is not enabled in kubevirt-config, invalid entry"
        yield subject.cause(REQUIRED, "architecture", f"{text} {subject.path('architecture')}")


def another_architecture(spec: VirtualMachineInstanceSpec, gates: Gates) -> bool:
    """True if the VM asks for an architecture that isn't the control plane's, as far as that is known."""
    return bool(spec.architecture and gates.architecture) and spec.architecture != gates.architecture


def reserved_overhead(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """``reservedOverhead`` with its feature gate off (K-2.26)."""
    memory = subject.spec.domain.memory
    if memory is not None and memory.reserved_overhead is not None and RESERVED_OVERHEAD_MEMLOCK not in subject.gates:
        text = "Reserved overhead memlock feature gate is not enabled in kubevirt-config"
        yield subject.cause(INVALID, "domain.memory.reservedOverhead", text)


def one_ramfb(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Several displays with a ramfb, up to 1.9 (K-2.23): a ``ramFB`` without ``enabled`` is disabled; only VMs still
    have one (K-2.37)."""
    return _one_ramfb(subject, lambda ram_fb: ram_fb.enabled is True)


def one_ramfb_of_main(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Several displays with a ramfb, in main (K-2.23): a ``ramFB`` is enabled by default."""
    return _one_ramfb(subject, lambda ram_fb: ram_fb.enabled is not False)


def _one_ramfb(subject: ReviewedSpec, enabled: Callable[[RamFB], bool]) -> Iterator[AdmissionCause]:
    """The refusal of a second display with a ramfb. The trailing blank of the message is KubeVirt's."""
    displays = (gpu.virtual_gpu_options.display for gpu in subject.spec.domain.devices.gpus if gpu.virtual_gpu_options)
    shown = [display for display in displays if display is not None and display.enabled is not False]
    if sum(display.ram_fb is None or enabled(display.ram_fb) for display in shown) > 1:
        yield subject.cause(INVALID, "GPUs", "configuring multiple displays with ramfb is not valid ")


def host_devices_gate(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Host devices with their feature gate off, which those from claims need as well (K-2.22)."""
    if subject.spec.domain.devices.host_devices and HOST_DEVICES not in subject.gates:
        yield subject.cause(INVALID, "HostDevices", "Host Devices feature gate is not enabled in kubevirt-config")


def sidecars(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Hook sidecars with their feature gate off (K-2.24). An empty annotation passes."""
    if subject.annotations.get(HOOK_SIDECARS) and SIDECAR not in subject.gates:
        field = f"{subject.metadata}.annotations"
        text = f"sidecar feature gate is not enabled in kubevirt-config, invalid entry {field}.{HOOK_SIDECARS}"
        yield AdmissionCause(INVALID, text, field)


def reserved_labels(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Reserved labels, which only KubeVirt's own accounts may set (K-9.4)."""
    if subject.outsider and any(label in subject.labels for label in RESERVED_LABELS):
        text = "creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited"
        yield AdmissionCause(NOT_SUPPORTED, text, f"{subject.metadata}.labels")
