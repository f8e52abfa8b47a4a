"""Why host devices can't be attached to a domain that runs. Pure: it reads the live XML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lxml import etree

from launcher.elements.hostdev import ALIAS_PREFIX, Hostdev
from launcher.elements.page import element
from launcher.errors import DUPLICATE_ADDRESS, DUPLICATE_ALIAS

NO_ALIAS: Final = "NoAlias"
"""A device that libvirt couldn't name, and so not detach again."""
NOT_HOTPLUGGABLE: Final = "NotHotpluggable"
"""A device with ramfb, which QEMU has from the start or not at all."""
NO_GRAPHICS: Final = "NoGraphics"
"""A device with a display, for a domain without graphics (K-14.1)."""
NOT_FUNCTION_0: Final = "NotFunction0"
"""A function of a multifunction device: libvirt attaches function 0 only, which takes the whole slot."""
ADDRESS_TAKEN: Final = "AddressTaken"
"""Another device of the guest has the address."""
NO_FREE_PORT: Final = "NoFreePort"
"""The domain has too few root ports without a device."""

_PORTS: Final = ("pcie-root-port", "pcie-switch-downstream-port")


class Slot(NamedTuple):
    """The slot of a guest address."""

    domain: int
    bus: int
    slot: int

    def __str__(self) -> str:
        return f"{self.domain:04x}:{self.bus:02x}:{self.slot:02x}"


@dataclass(frozen=True)
class Obstacle:
    """Why a device can't be attached. ``subject``: its alias, "" for a device without one."""

    reason: str
    subject: str
    message: str


def obstacles(live: etree._Element, devices: Sequence[Hostdev]) -> Iterator[Obstacle]:
    """Everything that keeps the devices from being attached together to the domain ``live``, by device, then ports."""
    aliases = {alias.get("name") for alias in live.findall("devices/*/alias")}
    sources = {_source(hostdev) for hostdev in live.findall("devices/hostdev")}
    slots = {slot for address in live.findall("devices/*/address") if (slot := _slot(address)) is not None}
    for device in devices:
        alias = device.alias or ""
        built = element(device)
        if not alias.startswith(ALIAS_PREFIX):
            yield Obstacle(NO_ALIAS, alias, f"a device needs an alias that begins with {ALIAS_PREFIX!r}, not {alias!r}")
        elif alias in aliases:
            yield Obstacle(DUPLICATE_ALIAS, alias, f"{alias}: the domain has a device of this alias")
        source = _source(built)
        if source in sources:
            yield Obstacle(DUPLICATE_ADDRESS, alias, f"{alias}: the domain has this host device")
        if device.ramfb == "on":
            message = f"{alias}: a device with ramfb can't be attached to a running guest; attach it without"
            yield Obstacle(NOT_HOTPLUGGABLE, alias, message)
        if device.display == "on" and live.find("devices/graphics") is None:
            yield Obstacle(NO_GRAPHICS, alias, f"{alias}: a device with a display needs a domain with graphics")
        address = built.find("address")
        slot = _slot(address) if address is not None else None
        if slot is not None and address is not None:
            if _number(address, "function"):
                message = f"{alias}: libvirt attaches only function 0 of a guest slot to a running guest"
                yield Obstacle(NOT_FUNCTION_0, alias, message)
            elif slot in slots:
                message = f"{alias}: guest address {slot}.0 is taken"
                yield Obstacle(ADDRESS_TAKEN, alias, message)
            slots.add(slot)
        aliases.add(alias)
        sources.add(source)
    yield from _missing_ports(live, devices, slots)


def _missing_ports(live: etree._Element, devices: Sequence[Hostdev], taken: set[Slot]) -> Iterator[Obstacle]:
    """An obstacle if a PCI Express domain has too few free ports for the devices that libvirt places."""
    wanted = [device for device in devices if device.takes_a_pcie_port]
    controllers = live.findall("devices/controller[@type='pci']")
    if not wanted or not any(controller.get("model") == "pcie-root" for controller in controllers):
        return
    buses = {slot.bus for slot in taken}
    ports = [_number(controller, "index") for controller in controllers if controller.get("model") in _PORTS]
    free = sum(index not in buses for index in ports)
    if free < len(wanted):
        message = (
            f"{len(wanted)} root ports are needed, {free} of the domain's {len(ports)} are free; "
            "define the domain with spare root ports"
        )
        yield Obstacle(NO_FREE_PORT, wanted[free].alias or "", message)


def _source(hostdev: etree._Element) -> tuple[object, ...]:
    """The host device of a ``<hostdev>``, equal for two spellings of it."""
    address = hostdev.find("source/address")
    if address is None:
        return ("", etree.tostring(hostdev))
    if uuid := address.get("uuid"):
        return ("mdev", uuid.lower())
    parts = ("domain", "bus", "slot", "function", "device")
    return (hostdev.get("type"), *(_number(address, part) for part in parts))


def _slot(address: etree._Element) -> Slot | None:
    """The slot of a PCI address with a bus; None for another address."""
    if address.get("type") != "pci" or address.get("bus") is None:
        return None
    return Slot(_number(address, "domain"), _number(address, "bus"), _number(address, "slot"))


def _number(place: etree._Element, attribute: str) -> int:
    """The number in an attribute, decimal or hexadecimal; 0 where there is none."""
    text = place.get(attribute, "0")
    try:
        return int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        return 0
