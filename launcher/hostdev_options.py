"""Options of host devices that the VMI's annotation asks for, and functions of one card as one slot of the guest
(K-7.27)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from launcher.conversion import ConvertedDevice
from launcher.elements.domain import Controller
from launcher.elements.hostdev import Hostdev, at_guest_address, behind_port, placed_as
from launcher.errors import INVALID_OPTIONS, LauncherError
from launcher.guest_shape import MACHINES, machine_of
from launcher.host_addresses.pci import PciAddress
from launcher.layout import GuestLayout
from virt_dra.api.integration.hostdev_options import (
    HOSTDEV_OPTIONS_ANNOTATION,
    OPTIONS,
    ROM_FOLDER,
    HostdevOptions,
    read_hostdev_options,
)
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.reading.json_annotations import AnnotationError

FIELD = f"metadata.annotations[{HOSTDEV_OPTIONS_ANNOTATION}]"


def with_options(vmi: VirtualMachineInstance, devices: tuple[ConvertedDevice, ...]) -> tuple[ConvertedDevice, ...]:
    """The devices with their options. Raises :class:`LauncherError`."""
    wanted = device_options(vmi)
    return tuple(replace(d, element=_with(d, wanted[d.device])) if d.device in wanted else d for d in devices)


def device_options(vmi: VirtualMachineInstance) -> Mapping[str, HostdevOptions]:
    """The options of a VMI's annotation by device. Raises :class:`LauncherError`."""
    try:
        return read_hostdev_options(vmi.metadata.annotations, vmi.spec.domain.devices)
    except AnnotationError as error:
        raise LauncherError(INVALID_OPTIONS, FIELD, str(error)) from None


def _with(device: ConvertedDevice, options: HostdevOptions) -> Hostdev:
    element = device.element
    for name, option in OPTIONS.items():
        if getattr(options, option.field) is not None and element.type not in option.types:
            raise _refused(device, f".{name}", f"is for {' and '.join(sorted(option.types))}, not for {element.type}")
    vendor, _, product = (options.usb_product or "").partition(":")
    changes: dict[str, str | int | None] = {
        "rom_bar": options.rom_bar,
        "rom_file": options.rom_file and f"{ROM_FOLDER}/{options.rom_file}",
        "boot_order": options.boot_order,
        "iommufd": _yes_or_no(options.iommufd),
        "managed": _yes_or_no(options.managed),
        "model": options.mdev_model,
        "source_vendor": vendor and f"0x{vendor}",
        "source_product": product and f"0x{product}",
    }
    element = element.with_(**{field: value for field, value in changes.items() if value})
    if options.usb_product is not None:
        element = element.with_(source_bus=None, source_device=None)
    if options.guest_address is not None:
        element = at_guest_address(element, PciAddress.parse(options.guest_address))
    return element


def display_alias(vmi: VirtualMachineInstance, aliases: Mapping[str, str | None], *, has_adapter: bool) -> str | None:
    """The alias of the device that is the guest's display (``xVga``, K-7.28), None without one. ``aliases``: in the
    domain, by device; ``has_adapter``: whether that has an emulated adapter. Raises :class:`LauncherError`."""
    wanted = [device for device, options in device_options(vmi).items() if options.x_vga]
    if not wanted:
        return None
    first, *others = wanted
    if others:
        raise display_refused(others[0], f"is also that of {first}; a guest has one such display")
    if first.startswith("interfaces/"):
        raise display_refused(first, "is for gpus and hostDevices, not for network interfaces")
    if machine_of(vmi) is not MACHINES["amd64"]:
        raise display_refused(first, f"needs a guest of amd64, which has VGA, not of {vmi.spec.architecture}")
    if has_adapter:
        reason = "needs a guest without emulated graphics adapter (autoattachGraphicsDevice: false)"
        raise display_refused(first, reason)
    alias = aliases[first]
    if alias is None:
        reason = "needs an alias in the domain; let the device's name have letters, digits and '-' only"
        raise display_refused(first, reason)
    return alias


def display_refused(device: str, reason: str) -> LauncherError:
    """The error of a device that can't be the guest's display."""
    return LauncherError(INVALID_OPTIONS, device, f"{FIELD}[{device}].xVga: {reason}")


def _yes_or_no(flag: bool | None) -> str | None:
    return None if flag is None else "yes" if flag else "no"


def slots(vmi: VirtualMachineInstance, devices: tuple[ConvertedDevice, ...]) -> tuple[tuple[ConvertedDevice, ...], ...]:
    """The devices of each guest slot that is shared, in the order of their functions on the host. Raises
    :class:`LauncherError`."""
    wanted = device_options(vmi)
    by_slot: dict[str, list[ConvertedDevice]] = defaultdict(list)
    for device in devices:
        slot = wanted[device.device].guest_slot if device.device in wanted else None
        if slot is not None:
            by_slot[slot].append(device)
    ordered = [tuple(sorted(sharing, key=lambda device: device.address.identity)) for sharing in by_slot.values()]
    for first, *others in ordered:
        for device in others:
            if _card(device) != _card(first) or device.address.identity == first.address.identity:
                reason = f"{device.address} and {first.address} ({first.device}) aren't two functions of one card"
                raise _refused(device, ".guestSlot", reason)
            if device.element.guest_type is not None:
                raise _refused(device, ".guestAddress", f"follows from that of {first.device}, whose slot it shares")
    return tuple(sharing for sharing in ordered if len(sharing) > 1)


def _card(device: ConvertedDevice) -> str:
    return device.address.identity.rpartition(".")[0]


def without_followers(
    devices: tuple[ConvertedDevice, ...], shared: tuple[tuple[ConvertedDevice, ...], ...]
) -> tuple[ConvertedDevice, ...]:
    """The devices that get a slot: of a shared one its first function only."""
    followers = {device.device for sharing in shared for device in sharing[1:]}
    return tuple(device for device in devices if device.device not in followers)


def with_followers(
    layout: GuestLayout, devices: tuple[ConvertedDevice, ...], shared: tuple[tuple[ConvertedDevice, ...], ...]
) -> GuestLayout:
    """The layout with all ``devices``: those that share a slot follow their first function, which gets a root port if
    it has no address."""
    placed = {device.device: device for device in layout.devices}
    controllers = list(layout.controllers)
    for first, *others in shared:
        element = placed[first.device].element
        if element.guest_type is None:
            if not controllers:
                raise _refused(first, ".guestSlot", "needs a machine with PCI Express")
            index = 1 + max(controller.index or 0 for controller in controllers)
            controllers.append(Controller(index, "pcie-root-port"))
            element = behind_port(element, index)
        placed[first.device] = replace(first, element=element.with_(guest_multifunction="on"))
        for function, device in enumerate(others, start=1):
            place = placed_as(device.element, element).with_(guest_function=f"0x{function}")
            placed[device.device] = replace(device, element=place)
    return replace(layout, devices=tuple(placed[device.device] for device in devices), controllers=tuple(controllers))


def _refused(device: ConvertedDevice, member: str, reason: str) -> LauncherError:
    path = f"{FIELD}[{device.device}]{member}"
    return LauncherError(INVALID_OPTIONS, device.device, f"{path}: {reason}")
