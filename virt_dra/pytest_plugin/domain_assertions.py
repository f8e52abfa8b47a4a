"""Assertions about the host devices of a domain and their place in the guest, which name the nearest device where one
fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypedDict, Unpack

from launcher.comparison.facts import DomainFacts, HostdevFacts, facts, ranges
from launcher.elements.hostdev import ALIAS_PREFIX
from launcher.errors import AddressSyntaxError
from launcher.host_addresses.mdev import MdevUuid
from launcher.host_addresses.pci import PciAddress
from launcher.host_addresses.usb import UsbAddress
from virt_dra.cli.shared.console import visible_lines
from virt_dra.pytest_plugin import UnusableInput
from virt_dra.pytest_plugin.golden_domains import parsed_xml


class HostdevProperties(TypedDict, total=False):
    """What a host device may be asked for; what isn't given doesn't count, None is that it hasn't any."""

    pci: str
    mdev: str
    usb: str
    """Its address on the host; of USB bus and device: ``1:3``."""
    alias: str
    """With or without ``ua-``."""
    numa_cell: int | None
    """The NUMA cell of the guest that it is on."""
    pcie_root: int | None
    """Index of the PCI controller at the root above it; None where libvirt chooses."""
    display: bool
    driver: str | None
    properties: Mapping[str, str | None]
    """Anything else, by its path in the element: ``{"rom/@bar": "off"}``."""


_READ: Final[Mapping[str, Callable[[HostdevFacts], object]]] = {
    "pci": lambda device: device.source if device.type == "pci" else None,
    "mdev": lambda device: device.source if device.type == "mdev" else None,
    "usb": lambda device: device.source if device.type == "usb" else None,
    "alias": lambda device: device.alias or None,
    "numa_cell": lambda device: device.place.cell if device.place is not None else None,
    "pcie_root": lambda device: device.place.root if device.place is not None else None,
    "display": lambda device: device.properties.get("@display") == "on",
    "driver": lambda device: device.properties.get("driver/@name", "vfio" if device.type == "pci" else None),
}
"""By the name of a property, what a device has."""
_ADDRESSES: Final[Mapping[str, Callable[[str], PciAddress | MdevUuid | UsbAddress]]] = {
    "pci": PciAddress.parse,
    "mdev": MdevUuid.parse,
    "usb": UsbAddress.parse,
}
_IDENTITY: Final = frozenset((*_ADDRESSES, "alias"))
"""Properties that say which device is meant; others say how it should be."""


@dataclass(frozen=True)
class DomainAssertions:
    """Assertions about one domain. Each returns the same object, so that several make one chain."""

    facts: DomainFacts

    @classmethod
    def from_xml(cls, xml: str | bytes) -> DomainAssertions:
        """Assertions about this ``<domain>``. Raises :class:`UnusableInput` for a text that isn't XML."""
        return cls(facts(parsed_xml(xml, "the domain")))

    def has_hostdev(self, **properties: Unpack[HostdevProperties]) -> DomainAssertions:
        """A host device has all of these properties. Raises AssertionError, which says in what the nearest device
        differs, and :class:`UnusableInput` for an address that is none."""
        __tracebackhide__ = True
        wanted = _wanted(properties)
        if not any(_matches(device, wanted) for device in self.facts.hostdevs):
            raise _differs(_failure(self.facts.hostdevs, wanted))
        return self

    def has_no_hostdev(self, **properties: Unpack[HostdevProperties]) -> DomainAssertions:
        """No host device has all of these properties; without any, there is none at all."""
        __tracebackhide__ = True
        wanted = _wanted(properties)
        if matching := [device for device in self.facts.hostdevs if _matches(device, wanted)]:
            title = f"a hostdev has {_described(wanted)}:" if wanted else "there are hostdevs:"
            raise _differs((title, *map(_line, matching)))
        return self

    def has_one_pcie_root(self, *aliases: str) -> DomainAssertions:
        """The devices with these aliases are below one PCIe root of the guest, other than its default one: what
        peer-to-peer transfers between them need."""
        __tracebackhide__ = True
        for alias in aliases:
            self.has_hostdev(alias=alias)
        by_alias = {device.alias: device for device in self.facts.hostdevs}
        chosen = [by_alias[_alias(alias)] for alias in aliases]
        roots = {_READ["pcie_root"](device) for device in chosen}
        if len(roots) != 1 or not any(roots):
            raise _differs(("the devices aren't on one PCIe root of their own:", *map(_line, chosen)))
        return self

    def has_numa_cell(self, cell: int, *, cpus: str | None = None, nodes: str | None = None) -> DomainAssertions:
        """The guest has this NUMA cell, with these vCPUs (``0-3``) and memory of these nodes of the host."""
        __tracebackhide__ = True
        placement = self.facts.placement
        vcpus, memory = f"cpu/numa/cell[{cell}]/@cpus", f"numatune/memnode[{cell}]/@nodeset"
        if vcpus not in placement:
            cells = [path for path in placement if path.startswith("cpu/numa/") and path.endswith("/@cpus")]
            raise _differs([f"the guest has no NUMA cell {cell}; it has: {', '.join(cells) or 'none'}"])
        wrong = [
            f"{path}: wanted {wanted}, is {placement.get(path)}"
            for path, wanted in ((vcpus, cpus), (memory, nodes))
            if wanted is not None and placement.get(path) != ranges(wanted)
        ]
        if wrong:
            raise _differs(wrong)
        return self


def _wanted(given: HostdevProperties) -> Mapping[str, object]:
    """The properties by name or path, addresses in their normal form."""
    others = given.get("properties", {})
    wanted: dict[str, object] = {name: value for name, value in given.items() if name != "properties"}
    for name in _ADDRESSES.keys() & wanted:
        try:
            wanted[name] = _ADDRESSES[name](str(wanted[name])).identity
        except AddressSyntaxError as error:
            raise UnusableInput(f"{name}: {error}") from None
    if "alias" in wanted:
        wanted["alias"] = _alias(str(wanted["alias"]))
    return {**wanted, **others}


def _differs(lines: Iterable[str]) -> AssertionError:
    return AssertionError(visible_lines("\n".join(lines)))


def _alias(alias: str) -> str:
    return alias if alias.startswith(ALIAS_PREFIX) else f"{ALIAS_PREFIX}{alias}"


def _value(device: HostdevFacts, name: str) -> object:
    read = _READ.get(name)
    return read(device) if read is not None else device.properties.get(name)


def _matches(device: HostdevFacts, wanted: Mapping[str, object]) -> bool:
    return all(_value(device, name) == value for name, value in wanted.items())


def _failure(devices: tuple[HostdevFacts, ...], wanted: Mapping[str, object]) -> list[str]:
    if not devices:
        return [f"no hostdev has {_described(wanted)}: the domain has none"]
    nearest = min(devices, key=lambda device: _distance(device, wanted))
    differing = [
        f"  {name}: wanted {value}, is {_value(nearest, name)}"
        for name, value in wanted.items()
        if _value(nearest, name) != value
    ]
    head = (f"no hostdev has {_described(wanted)}", f"the nearest one is {nearest.label}:")
    return [*head, *differing, "all hostdevs:", *map(_line, devices)]


def _distance(device: HostdevFacts, wanted: Mapping[str, object]) -> tuple[int, int]:
    """In how much a device differs: first in what says which one is meant."""
    differing = [name for name, value in wanted.items() if _value(device, name) != value]
    return sum(name in _IDENTITY for name in differing), len(differing)


def _described(wanted: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in wanted.items()) or "any address"


def _line(device: HostdevFacts) -> str:
    place = f", {device.place}" if device.place is not None else ""
    return f"  {device.type} {device.source}{f', {device.alias}' if device.alias else ''}{place}"
