"""The options of a VMI's host devices (K-7.27) in KubeVirt's domain: each element gets what the annotation says of its
device, and functions of one card get one slot of the guest (K-11.19)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from lxml import etree

from launcher.conversion import ConvertedDevice
from launcher.elements.domain import Controller
from launcher.elements.hostdev import ALIAS_PREFIX, HostAddress, Hostdev, placed_as
from launcher.elements.overrides import X_VGA, OverriddenDevice, as_display
from launcher.elements.page import NAMESPACES, element, qualified
from launcher.entry_kinds import GPUS, HOST_DEVICES, SRIOV_ALIAS, USB_ALIAS
from launcher.errors import INVALID_OPTIONS, NO_ADDRESS, AddressSyntaxError, LauncherError
from launcher.hook.domain_text import has_pcie, insert_after, number, pci_source
from launcher.host_addresses.mdev import MdevUuid
from launcher.host_addresses.usb import UsbAddress
from launcher.hostdev_options import (
    FIELD,
    device_options,
    display_alias,
    display_refused,
    slots,
    with_followers,
    with_options,
)
from launcher.layout import GuestLayout
from virt_dra.api.integration.hostdev_options import OPTIONS, HostdevOptions
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance

_UNPLACED: Final = Hostdev("")


@dataclass(frozen=True)
class SharedSlots:
    """The devices of each guest slot that is shared, function 0 first, and the elements of all of them."""

    slots: tuple[tuple[ConvertedDevice, ...], ...]
    elements: dict[str, etree._Element]

    @property
    def followers(self) -> frozenset[etree._Element]:
        """The elements that go where function 0 goes."""
        return frozenset(self.elements[device.device] for sharing in self.slots for device in sharing[1:])


def apply_device_options(root: etree._Element, vmi: VirtualMachineInstance) -> tuple[list[str], SharedSlots]:
    """Changes ``<hostdev>`` elements, and returns a sentence for each, and the slots to share, which
    :func:`join_functions` does after function 0 is placed. Raises :class:`LauncherError`."""
    options = device_options(vmi)
    elements = _elements(root, vmi, options)
    pages = {device: Hostdev.parse(hostdev) for device, hostdev in elements.items()}
    sharing = {device for device, wanted in options.items() if wanted.guest_slot is not None}
    unplaced = {device: placed_as(page, _UNPLACED) if device in sharing else page for device, page in pages.items()}
    converted = tuple(_converted(device, page, elements[device]) for device, page in unplaced.items())
    devices = with_options(vmi, converted)
    shared = SharedSlots(slots(vmi, devices), elements)
    changes = []
    display = _make_display(root, vmi, pages)
    for device in devices:
        page = device.element
        if device.device in sharing and page.guest_type is None:
            page = placed_as(page, pages[device.device])
        if page != pages[device.device]:
            _replace(elements, device.device, page)
        if page != pages[device.device] or (display is not None and page.alias == display):
            changes.append(f"{device.device}: {', '.join(_given(options[device.device]))}")
    _check_boot_orders(root, elements)
    return changes, shared


def join_functions(root: etree._Element, shared: SharedSlots) -> list[str]:
    """Puts the functions of shared slots where function 0 is: by itself, if it has no place yet, behind a root port of
    its own. Returns a sentence for each change. Raises :class:`LauncherError`."""
    all_sharing = (device for sharing in shared.slots for device in sharing)
    devices = tuple(replace(device, element=Hostdev.parse(shared.elements[device.device])) for device in all_sharing)
    now = {device.device: device for device in devices}
    joined = tuple(tuple(now[device.device] for device in sharing) for sharing in shared.slots)
    present = _pci_controllers(root) if has_pcie(root) else ()
    layout = with_followers(GuestLayout(devices, present), devices, joined)
    _add_controllers(root, layout.controllers[len(present) :])
    changes = []
    for device in layout.devices:
        if device.element != now[device.device].element:
            _replace(shared.elements, device.device, device.element)
            function = (device.element.guest_function or "").removeprefix("0x")
            changes.append(f"{device.device}: function {function} of its guest slot")
    return changes


def _make_display(root: etree._Element, vmi: VirtualMachineInstance, pages: Mapping[str, Hostdev]) -> str | None:
    """Makes the device that is asked for the guest's display, and returns its alias; None if there is nothing to do.
    Raises :class:`LauncherError`."""
    adapters = [model for model in root.iterfind("devices/video/model") if model.get("type") != "none"]
    aliases = {device: page.alias for device, page in pages.items()}
    names = {alias: device for device, alias in aliases.items()}
    alias = display_alias(vmi, aliases, has_adapter=bool(adapters))
    if alias is None:
        return None
    override = root.find(qualified("qemu:override"))
    if override is None:
        override = etree.SubElement(root, qualified("qemu:override"), nsmap={"qemu": NAMESPACES["qemu"]})
    made = as_display(alias)
    for present in override.findall(qualified("qemu:device")):
        device = OverriddenDevice.parse(present)
        if device.alias == alias:
            if device.is_display:
                return None
            override.remove(present)
            others = (item for item in device.frontend if item.name != X_VGA)
            made = device.with_(frontend=(*others, *made.frontend))
        elif device.is_display:
            raise display_refused(names[alias], f"is also that of {device.alias}; a guest has one such display")
    override.append(element(made))
    return alias


def _given(options: HostdevOptions) -> Iterable[str]:
    """The options that have a value, except ``guestSlot``, which is for several devices."""
    return (
        name for name, option in OPTIONS.items() if name != "guestSlot" and getattr(options, option.field) is not None
    )


def _elements(root: etree._Element, vmi: VirtualMachineInstance, devices: Iterable[str]) -> dict[str, etree._Element]:
    hostdevs = {alias.get("name", ""): alias.getparent() for alias in root.iterfind("devices/hostdev/alias")}
    entries = ((kind, entry) for kind in (GPUS, HOST_DEVICES) for entry in kind.entries(vmi))
    claimed = {f"{kind.path}/{entry.name}" for kind, entry in entries if entry.is_dra}
    elements = {}
    for device in devices:
        aliases = _aliases(device, is_claimed=device in claimed)
        hostdev = next((hostdevs[alias] for alias in aliases if alias in hostdevs), None)
        if hostdev is None:
            message = f"{FIELD}[{device}]: KubeVirt's domain has no host device with alias {' or '.join(aliases)}"
            raise LauncherError(NO_ADDRESS, device, message)
        elements[device] = hostdev
    return elements


def _aliases(device: str, *, is_claimed: bool) -> tuple[str, ...]:
    """The aliases that KubeVirt may give it (K-7.17)."""
    path, _, name = device.partition("/")
    kind = GPUS if path == GPUS.path else HOST_DEVICES
    if path not in (GPUS.path, HOST_DEVICES.path):
        prefixes: tuple[str, ...] = (SRIOV_ALIAS,)
    elif is_claimed:
        prefixes = (kind.dra_alias,)
    else:
        prefixes = (kind.plugin_alias, USB_ALIAS) if kind is HOST_DEVICES else (kind.plugin_alias,)
    return tuple(f"{ALIAS_PREFIX}{prefix}{name}" for prefix in prefixes)


def _converted(device: str, page: Hostdev, hostdev: etree._Element) -> ConvertedDevice:
    try:
        return ConvertedDevice(device, "domain", _address(page, hostdev), page, device, is_dra=False)
    except AddressSyntaxError as error:
        raise LauncherError(INVALID_OPTIONS, device, f"{device}: {error}") from None


def _address(page: Hostdev, hostdev: etree._Element) -> HostAddress:
    if page.type == "mdev":
        return MdevUuid.parse(page.source_uuid or "")
    if page.type == "usb":
        bus, place = (number(text) for text in (page.source_bus, page.source_device))
        return UsbAddress.parse("0:0" if page.source_product else f"{bus}:{place}")
    function = pci_source(hostdev)
    if function is None:
        raise AddressSyntaxError(f"a host device of type {page.type} without the address of a PCI function")
    return function


def _replace(elements: dict[str, etree._Element], device: str, page: Hostdev) -> None:
    old, new = elements[device], element(page)
    parent = old.getparent()
    assert parent is not None
    new.tail = old.tail
    parent.replace(old, new)
    elements[device] = new


def _pci_controllers(root: etree._Element) -> tuple[Controller, ...]:
    """The root, which libvirt adds where it is missing, and those that the domain has."""
    controllers = root.findall("devices/controller[@type='pci']")
    return (Controller(0, "pcie-root"), *(Controller(number(item.get("index")) or 0) for item in controllers))


def _add_controllers(root: etree._Element, controllers: tuple[Controller, ...]) -> None:
    (devices,) = root.iterfind("devices")
    last = next(devices.iterchildren("controller", reversed=True), None)
    for controller in controllers:
        last = insert_after(devices, last, element(controller))


def _check_boot_orders(root: etree._Element, elements: Mapping[str, etree._Element]) -> None:
    """Refuses orders that libvirt would refuse: one twice, or beside a list of kinds. Raises :class:`LauncherError`."""
    users: dict[str | None, list[etree._Element]] = defaultdict(list)
    for user in root.iterfind("devices/*/boot"):
        users[user.get("order")].append(user)
    for device, hostdev in elements.items():
        boot = hostdev.find("boot")
        if boot is None:
            continue
        path, order = f"{FIELD}[{device}].bootOrder", boot.get("order")
        if root.find("os/boot") is not None:
            raise LauncherError(INVALID_OPTIONS, device, f"{path}: the domain has <boot> in <os>, which excludes it")
        if len(users[order]) > 1:
            others = (other.getparent() for other in users[order] if other is not boot)
            names = [alias.get("name") for other in others if other is not None for alias in other.iterfind("alias")]
            message = f"{path}: {order} is also that of {names[0] if names else 'another device'}"
            raise LauncherError(INVALID_OPTIONS, device, message)
