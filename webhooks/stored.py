"""A VM or VMI as KubeVirt's validators get it: without the fields that its API server drops, and mutated by its webhook
(K-2.35 to K-2.37).

Only changes on which the rules depend are made. They are idempotent, so that a webhook that runs after all mutators may
make them, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from virt_dra.api.kubevirt_v1 import GPU, DeviceEntry, RamFB, VirtualMachine, VirtualMachineInstanceSpec
from virt_dra.api.kubevirt_versions import V1_6_0, V1_8_0, V1_9_0, KubeVirtVersion
from webhooks.rules.reviewed_spec import VmObject

D = TypeVar("D", bound=DeviceEntry)
T = TypeVar("T")


def as_validated(subject: VmObject, version: KubeVirtVersion) -> VmObject:
    """The object that this release's validating webhooks get; the same instance if nothing changes."""
    if isinstance(subject, VirtualMachine):
        template = subject.spec.template
        spec = _spec(template.spec, version)
        if spec is template.spec:
            return subject
        return subject.with_(spec=subject.spec.with_(template=template.with_(spec=spec)))
    spec = _with_displays(_spec(subject.spec, version))
    return subject if spec is subject.spec else subject.with_(spec=spec)


@dataclass(frozen=True)
class _Release:
    """The fields that a release knows: claims of devices, claims of networks, reserved overhead; and whether it drops
    empty names."""

    claims: bool
    networks: bool
    overhead: bool
    drops_empty: bool

    @classmethod
    @lru_cache(maxsize=64)
    def for_version(cls, version: KubeVirtVersion) -> _Release:
        return cls(version >= V1_6_0, version >= V1_9_0, version >= V1_8_0, version >= V1_9_0)


def _spec(spec: VirtualMachineInstanceSpec, version: KubeVirtVersion) -> VirtualMachineInstanceSpec:
    """The spec after the changes that a VMI and the template of a VM have in common."""
    release = _Release.for_version(version)
    if not release.claims:
        spec = spec.without("resource_claims")
    if not release.networks:
        networks = _changed_items(spec.networks, lambda network: network.without("resource_claim"))
        spec = spec if networks is spec.networks else spec.with_(networks=networks)
    domain = spec.domain
    if not release.overhead and domain.memory is not None and domain.memory.reserved_overhead is not None:
        domain = domain.with_(memory=domain.memory.without("reserved_overhead"))
    devices = domain.devices
    gpus = _changed_items(devices.gpus, lambda gpu: _device(gpu, release))
    hosts = _changed_items(devices.host_devices, lambda device: _device(device, release))
    if gpus is not devices.gpus or hosts is not devices.host_devices:
        domain = domain.with_(devices=devices.with_(gpus=gpus, host_devices=hosts))
    return spec if domain is spec.domain else spec.with_(domain=domain)


def _device(device: D, release: _Release) -> D:
    """The device, before 1.6 without its claim reference; since 1.9 without empty names, which the mutator drops."""
    if not release.claims:
        return device.without("claim_name", "request_name")
    if not release.drops_empty or (device.claim_name and device.request_name) or not device.names_claim:
        return device
    return device.without(*(name for name in ("claim_name", "request_name") if not getattr(device, name)))


def _with_displays(spec: VirtualMachineInstanceSpec) -> VirtualMachineInstanceSpec:
    """A VMI's spec with each ``ramFB: {}`` enabled; a VM's isn't changed (K-2.37)."""
    devices = spec.domain.devices
    gpus = _changed_items(devices.gpus, _with_display)
    return spec if gpus is devices.gpus else spec.with_(domain=spec.domain.with_(devices=devices.with_(gpus=gpus)))


def _with_display(gpu: GPU) -> GPU:
    options = gpu.virtual_gpu_options
    display = options.display if options is not None else None
    if options is None or display is None or display.ram_fb is None or display.ram_fb.enabled is not None:
        return gpu
    changed = display.with_(ram_fb=RamFB(enabled=True))
    return gpu.with_(virtual_gpu_options=options.with_(display=changed))


def _changed_items(items: tuple[T, ...], change: Callable[[T], T]) -> tuple[T, ...]:
    """The changed items; the same tuple if none is changed."""
    if not items:
        return items
    changed = tuple(map(change, items))
    return items if all(item is other for item, other in zip(items, changed, strict=True)) else changed
