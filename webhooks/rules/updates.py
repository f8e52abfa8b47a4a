"""The immutable fields of a VMI (K-9.3): claims, and the devices that use them.

The objects are compared as KubeVirt would store them: absent, ``null`` and empty are equal where Go's types don't
distinguish them, the design's spelling of a claim reference equals KubeVirt's, and the order of lists counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from virt_dra.api.kubevirt_v1 import DeviceEntry, VirtualMachineInstance, VirtualMachineInstanceSpec
from webhooks.verdict import NOT_SUPPORTED, AdmissionCause

MESSAGE = "update of VMI object is restricted"


def changed_devices(new: VirtualMachineInstance, old: VirtualMachineInstance) -> Iterator[AdmissionCause]:
    """A cause for each field of the VMI that differs."""
    before = _immutable(old.spec)
    for field, value in _immutable(new.spec).items():
        if value != before[field]:
            yield AdmissionCause(NOT_SUPPORTED, MESSAGE, f"spec.{field}")


def _immutable(spec: VirtualMachineInstanceSpec) -> Mapping[str, object]:
    devices = spec.domain.devices
    return {
        "resourceClaims": [_without_empty(entry.to_wire()) for entry in spec.resource_claims],
        "domain.devices.gpus": [_device(gpu) for gpu in devices.gpus],
        "domain.devices.hostDevices": [_device(device) for device in devices.host_devices],
        # Networks can be plugged and unplugged, but a pod's claims are fixed (K-3.1): only those from claims are
        # immutable.
        "networks": {
            network.name: _without_empty(network.to_wire())
            for network in spec.networks
            if network.resource_claim is not None
        },
    }


def _device(device: DeviceEntry) -> object:
    # A claim reference without content still makes a device a DRA device (K-1.3), so it is not the same as none.
    return device.is_dra, _without_empty(device.to_wire())


def _without_empty(value: object) -> object:
    if isinstance(value, dict):
        members = {key: _without_empty(member) for key, member in value.items()}
        return {key: member for key, member in members.items() if member not in (None, "", [])}
    if isinstance(value, list):
        return [_without_empty(member) for member in value]
    return value
