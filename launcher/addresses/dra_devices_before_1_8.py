"""Devices of ResourceClaims as KubeVirt 1.6 and 1.7 convert them: in the order of the status, not of the spec (K-7.22,
K-7.23)."""

from __future__ import annotations

from dataclasses import replace

from launcher.addresses.dra_devices import dra_element
from launcher.addresses.sources import STATUS, SourcedAddress
from launcher.conversion import ConversionInputs, ConvertedDevice
from launcher.display import with_default_display
from launcher.entry_kinds import GPUS, EntryKind
from launcher.errors import COUNT_MISMATCH, NO_ADDRESS, LauncherError
from virt_dra.api.kubevirt_v1 import GPU, DeviceAttributes, DeviceEntry, DeviceStatusInfo


def dra_devices_before_1_8(request: ConversionInputs, kind: EntryKind) -> tuple[ConvertedDevice, ...]:
    """PCI entries of the status in its order, then mdev entries; a PCI address that is set takes precedence, even if
    empty.

    Status entries without an entry in the spec are converted too; then their numbers must be equal. Raises
    :class:`LauncherError`.
    """
    wanted = [entry for entry in kind.entries(request.vmi) if entry.is_dra]
    if not wanted:
        return ()
    if request.vmi.status.device_status is None:
        raise LauncherError(NO_ADDRESS, f"{kind.path}/{wanted[0].name}", kind.dra_failure + kind.no_status)
    stated = [(s.name, a) for s in kind.statuses(request.vmi.status.device_status) if (a := _attributes(s))]
    pci = tuple(_device(request, kind, name, a) for name, a in stated if a.pci_address is not None)
    of_mdevs = ((name, a) for name, a in stated if a.pci_address is None and a.mdev_uuid is not None)
    mdevs = tuple(_device(request, kind, name, a) for name, a in of_mdevs)
    if kind is GPUS:
        shown = with_default_display([device.element for device in mdevs], request.vmi.spec.domain.devices.gpus)
        mdevs = tuple(replace(device, element=element) for device, element in zip(mdevs, shown, strict=True))
    if len(pci) + len(mdevs) != len(wanted):
        raise _count_mismatch(kind, wanted, (*pci, *mdevs))
    return (*pci, *mdevs)


def _attributes(status: DeviceStatusInfo) -> DeviceAttributes | None:
    return status.device_resource_claim_status.attributes if status.device_resource_claim_status else None


def _device(request: ConversionInputs, kind: EntryKind, name: str, attributes: DeviceAttributes) -> ConvertedDevice:
    answer = SourcedAddress(STATUS, "status.deviceStatus", pci=attributes.pci_address or "")
    if attributes.pci_address is None:
        answer = SourcedAddress(STATUS, "status.deviceStatus", mdev=attributes.mdev_uuid or "")
    entries = enumerate(kind.entries(request.vmi))
    index, entry = next(((index, entry) for index, entry in entries if entry.name == name), (None, None))
    address, element = dra_element(kind, name, answer, "vfio-pci", entry if isinstance(entry, GPU) else None)
    field = kind.field(index) if index is not None else f"status.deviceStatus entry {name}"
    return ConvertedDevice(f"{kind.path}/{name}", STATUS, address, element, field, is_dra=True)


def _count_mismatch(kind: EntryKind, wanted: list[DeviceEntry], built: tuple[ConvertedDevice, ...]) -> LauncherError:
    names = [device.device.partition("/")[2] for device in built]
    subject = next((entry.name for entry in wanted if entry.name not in names), wanted[0].name)
    spec = ", ".join(entry.name for entry in wanted)
    addresses = ", ".join(f"{name} {device.address}" for name, device in zip(names, built, strict=True))
    text = f"the number of DRA {kind.word}/s do not match the number of devices"
    lists = f"{kind.word}: [{spec}]\nDevice: [{addresses}]"
    return LauncherError(COUNT_MISMATCH, f"{kind.path}/{subject}", f"{kind.dra_failure}{text}:\n{lists}")
