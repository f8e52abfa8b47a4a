"""Devices of device plugins: addresses from pools, PCI first, then mdev, then USB (K-7.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from launcher.addresses.pools import MDEV_PREFIX, PCI_PREFIX, AddressPool, variable_name
from launcher.addresses.sources import ENVIRONMENT
from launcher.conversion import ConversionInputs, ConvertedDevice
from launcher.display import mdev_with_display, plugin_pci_with_display, with_default_display
from launcher.elements.hostdev import HostAddress, Hostdev, mdev, pci, usb
from launcher.entry_kinds import GPUS, USB_ALIAS, EntryKind
from launcher.errors import COUNT_MISMATCH, MALFORMED_ADDRESS, AddressSyntaxError, LauncherError
from launcher.host_addresses.mdev import MdevUuid
from launcher.host_addresses.pci import PciAddress
from launcher.host_addresses.usb import UsbAddress
from virt_dra.api.kubevirt_v1 import GPU, DeviceEntry
from virt_dra.api.kubevirt_versions import KubeVirtVersion

IndexedEntries = Sequence[tuple[int, DeviceEntry]]


def plugin_devices(request: ConversionInputs, kind: EntryKind) -> tuple[ConvertedDevice, ...]:
    """The devices of all entries without a claim. Raises :class:`LauncherError` for a malformed address, or too few or
    many (K-7.3)."""
    entries = [(index, entry) for index, entry in enumerate(kind.entries(request.vmi)) if not entry.is_dra]
    resources = tuple(dict.fromkeys(entry.device_name for _, entry in entries if entry.device_name))
    built: list[ConvertedDevice] = []
    for prefix in kind.prefixes:
        pool = AddressPool(prefix, resources, request.sources.env)
        for index, entry in entries:
            text = pool.pop(entry.device_name or "")
            if text:
                built.append(_device(kind, prefix, index, entry, text, request.version))
    if len(built) != len(entries):
        raise _count_mismatch(kind, entries, built)
    if kind is GPUS:
        shown = with_default_display([device.element for device in built], request.vmi.spec.domain.devices.gpus)
        built = [replace(device, element=element) for device, element in zip(built, shown, strict=True)]
    return tuple(built)


def _device(
    kind: EntryKind, prefix: str, index: int, entry: DeviceEntry, text: str, version: KubeVirtVersion
) -> ConvertedDevice:
    device = f"{kind.path}/{entry.name}"
    try:
        address, element = _element(kind, prefix, entry, text, version)
    except AddressSyntaxError as error:
        raise LauncherError(MALFORMED_ADDRESS, device, _failure(kind, prefix, entry.name, str(error))) from None
    return ConvertedDevice(device, ENVIRONMENT, address, element, kind.field(index), is_dra=False)


def _element(
    kind: EntryKind, prefix: str, entry: DeviceEntry, text: str, version: KubeVirtVersion
) -> tuple[HostAddress, Hostdev]:
    alias, gpu = kind.plugin_alias + entry.name, entry if isinstance(entry, GPU) else None
    if prefix == PCI_PREFIX:
        address = PciAddress.parse(text)
        return address, plugin_pci_with_display(gpu, pci(address, alias), version)
    if prefix == MDEV_PREFIX:
        uuid = MdevUuid.parse(text)
        return uuid, mdev_with_display(gpu, mdev(uuid, alias))
    place = UsbAddress.parse(text)
    return place, usb(place, USB_ALIAS + entry.name)


_STEP: Mapping[str, str] = {
    PCI_PREFIX: "failed to create PCI device for {}: ",
    MDEV_PREFIX: "failed to create mdev device for {}: ",
}


def _failure(kind: EntryKind, prefix: str, name: str, reason: str) -> str:
    """KubeVirt's message for an address error. It has a prefix that names the list, except for USB."""
    if prefix not in _STEP:
        return f"failed to create hostdevice for {name}: {reason}"
    return f"{kind.plugin_failure}failed to create hostdevice for {name}: {_STEP[prefix].format(name)}{reason}"


def _count_mismatch(kind: EntryKind, entries: IndexedEntries, built: Sequence[ConvertedDevice]) -> LauncherError:
    """KubeVirt's text, and the entries that got no address or several, with the variables that were read."""
    served = [device.field for device in built]
    wrong = [(index, entry) for index, entry in entries if served.count(kind.field(index)) != 1]
    causes = "".join(f"\n{_cause(kind, entry, served.count(kind.field(index)))}" for index, entry in wrong)
    wanted = ", ".join(f"{entry.name} ({entry.device_name or 'no deviceName'})" for _, entry in entries)
    addresses = ", ".join(f"{device.device.partition('/')[2]} {device.address}" for device in built)
    text = f"the number of device plugin {kind.word}/s do not match the number of devices"
    lists = f"{kind.word}: [{wanted}]\nDevice: [{addresses}]"
    subject = f"{kind.path}/{wrong[0][1].name}"
    return LauncherError(COUNT_MISMATCH, subject, f"{kind.plugin_failure}{text}:\n{lists}{causes}")


def _cause(kind: EntryKind, entry: DeviceEntry, times: int) -> str:
    if not entry.device_name:
        return f"{kind.path}/{entry.name}: neither a deviceName nor a claim"
    variables = ", ".join(variable_name(prefix, entry.device_name) for prefix in kind.prefixes)
    cause = f"an address under {times} variables" if times else "no address left"
    return f"{kind.path}/{entry.name}: {cause} ({variables})"
