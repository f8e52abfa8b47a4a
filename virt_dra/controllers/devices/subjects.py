"""The entries of a VMI's spec that get a device from a claim: gpus and hostDevices (networks: ``networks``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from virt_dra.api.integration.attribute_keys import Need
from virt_dra.api.integration.device_claims import DeviceListName
from virt_dra.api.kubevirt_v1 import DeviceEntry, VirtualMachineInstance

SubjectKind = Literal["gpus", "hostDevices", "networks"]


@dataclass(frozen=True)
class DeviceSubject:
    """A DRA device entry, or a network, of a VMI; ``position`` counts them: gpus, hostDevices, networks."""

    position: int
    kind: SubjectKind
    name: str
    claim_name: str
    request_name: str
    needs: Need = "any"

    def __str__(self) -> str:
        """``gpus/NAME``, ``hostDevices/NAME`` or ``networks/NAME``."""
        return f"{self.kind}/{self.name}"


def device_entries(vmi: VirtualMachineInstance) -> tuple[tuple[DeviceListName, DeviceEntry], ...]:
    """The entries of gpus, then of hostDevices, in spec order, each with the name of its list."""
    devices = vmi.spec.domain.devices
    return (*(("gpus", entry) for entry in devices.gpus), *(("hostDevices", entry) for entry in devices.host_devices))


def dra_devices(vmi: VirtualMachineInstance) -> tuple[DeviceSubject, ...]:
    """The DRA devices of a VMI (K-1.3), gpus before hostDevices, in spec order. (Its networks: ``network_devices``.)"""
    entries = [(kind, entry) for kind, entry in device_entries(vmi) if entry.is_dra]
    return tuple(
        DeviceSubject(position, kind, entry.name, entry.claim_name or "", entry.request_name or "")
        for position, (kind, entry) in enumerate(entries)
    )
