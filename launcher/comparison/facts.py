"""The facts of a ``<domain>`` about host devices and placement, in one spelling: whoever wrote it, and in which order.

Numbers in hexadecimal and decimal are the same, so are ``0-1`` and ``0,1``, ``1 MiB`` and ``1024 KiB``. What libvirt
assumes where an attribute is missing (``managed='no'``) isn't a fact, and neither is an alias that libvirt made up.
What isn't understood is kept as it is written: libvirt's schema judges, this compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from lxml import etree

from launcher.elements.hostdev import ALIAS_PREFIX
from launcher.placement.cpu_lists import parse_cpu_list

_ASSUMED: Final = frozenset(
    (("@mode", "subsystem"), ("@managed", "no"), ("@display", "off"), ("@ramfb", "off"), ("driver/@name", "vfio"))
)
"""What libvirt assumes of a ``<hostdev>``, and adds when it writes one."""
_APART: Final = frozenset(("source", "address", "alias"))
"""Elements of a ``<hostdev>`` that have fields of their own in :class:`HostdevFacts`."""
_BYTES: Final = {
    "b": 1, "bytes": 1, "KB": 10**3, "k": 2**10, "KiB": 2**10, "MB": 10**6, "M": 2**20, "MiB": 2**20,
    "GB": 10**9, "G": 2**30, "GiB": 2**30, "TB": 10**12, "T": 2**40, "TiB": 2**40,
}  # fmt: skip
EXPANDER: Final = "pcie-expander-bus"
_DEPTH: Final = 32
"""Controllers above a device that are followed: more than any guest has, and an end for those that are in a circle."""
_MODEL: Final = 40
"""Characters of a controller's model that are kept."""


@dataclass(frozen=True)
class GuestPlace:
    """The place of a device in the guest. ``chain``: models of the PCI controllers above it, from the root down."""

    address: str
    """A PCI address as ``0000:01:00.0``; of another bus, its attributes."""
    chain: tuple[str, ...] = ()
    root: int | None = None
    """Index of the controller at the root: 0, or that of an expander; None for another bus than PCI."""
    cell: int | None = None
    """NUMA cell of the expander; None without one."""

    def __str__(self) -> str:
        where = f" on {' of '.join(reversed(self.chain))}" if self.chain else ""
        return f"{self.address}{where}" + ("" if self.cell is None else f" of NUMA cell {self.cell}")


@dataclass(frozen=True)
class HostdevFacts:
    """A ``<hostdev>``. ``alias``: the user's, "" for none."""

    type: str
    source: str
    """PCI address, UUID in lower case, USB bus and device (``1:3``), USB product (``vendor:product``)."""
    alias: str
    place: GuestPlace | None
    """None where libvirt chooses."""
    properties: Mapping[str, str]
    """All other attributes and texts by their path, as ``@display`` and ``rom/@bar``."""

    @property
    def label(self) -> str:
        return self.alias or f"{self.type} {self.source}"


@dataclass(frozen=True)
class DomainFacts:
    """The facts of a domain. ``placement``: by path, what decides on which node of the host memory, vCPUs and devices
    are."""

    hostdevs: tuple[HostdevFacts, ...]
    placement: Mapping[str, str]


def facts(domain: etree._Element) -> DomainFacts:
    """The facts of a ``<domain>``."""
    controllers = {
        _number(controller.get("index", "")): controller
        for controller in domain.iterfind("devices/controller[@type='pci']")
    }
    hostdevs = tuple(_hostdev(element, controllers) for element in domain.iterfind("devices/hostdev"))
    return DomainFacts(hostdevs, dict(_placement(domain, controllers)))


def _hostdev(element: etree._Element, controllers: Mapping[int, etree._Element]) -> HostdevFacts:
    kind, alias, address = element.get("type", ""), element.find("alias"), element.find("address")
    name = alias.get("name", "") if alias is not None else ""
    return HostdevFacts(
        type=kind,
        source=_source(kind, element.find("source")),
        alias=name if name.startswith(ALIAS_PREFIX) else "",
        place=_place(address, controllers) if address is not None else None,
        properties={
            path: text
            for path, text in _properties(element)
            if path.split("/")[0].split("[")[0] not in _APART and path != "@type" and (path, text) not in _ASSUMED
        },
    )


def _source(kind: str, source: etree._Element | None) -> str:
    address = source.find("address") if source is not None else None
    if source is None:
        return ""
    if kind == "pci" and address is not None:
        return _pci(address)
    if kind == "mdev" and address is not None:
        return address.get("uuid", "").lower()
    if kind == "usb" and address is not None:
        return ":".join(str(_number(address.get(name, ""))) for name in ("bus", "device"))
    if kind == "usb":
        ids = [source.find(name) for name in ("vendor", "product")]
        return ":".join(f"{_number(part.get('id', '')):04x}" for part in ids if part is not None)
    return " ".join(f"{path}={text}" for path, text in _properties(source))


def _pci(address: etree._Element) -> str:
    domain, bus, slot, function = (_number(address.get(name, "0")) for name in ("domain", "bus", "slot", "function"))
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


def _place(address: etree._Element, controllers: Mapping[int, etree._Element]) -> GuestPlace:
    if address.get("type", "pci") != "pci":
        return GuestPlace(" ".join(f"{name}={value}" for name, value in sorted(_attributes(address))))
    chain: list[str] = []
    index, cell = _number(address.get("bus", "0")), None
    while (controller := controllers.get(index)) is not None and len(chain) < _DEPTH:
        chain.append(controller.get("model", "")[:_MODEL])
        above = controller.find("address")
        if index == 0 or controller.get("model") == EXPANDER:
            cell = controller.findtext("target/node")
            break
        index = _number(above.get("bus", "0")) if above is not None else 0
    return GuestPlace(
        _pci(address) + (" multifunction" if address.get("multifunction") == "on" else ""),
        tuple(reversed(chain)),
        index,
        _number(cell) if cell is not None else None,
    )


def _placement(domain: etree._Element, controllers: Mapping[int, etree._Element]) -> Iterator[tuple[str, str]]:
    for cell in domain.iterfind("cpu/numa/cell"):
        path = f"cpu/numa/cell[{cell.get('id', '')}]"
        yield f"{path}/@cpus", ranges(cell.get("cpus", ""))
        yield f"{path}/@memory", _size(cell.get("memory", ""), cell.get("unit", "KiB"))
    lists: tuple[tuple[str, str, str], ...] = (
        ("numatune/memory", "", "nodeset"),
        ("numatune/memnode", "cellid", "nodeset"),
        ("cputune/vcpupin", "vcpu", "cpuset"),
        ("cputune/iothreadpin", "iothread", "cpuset"),
        ("cputune/emulatorpin", "", "cpuset"),
    )
    for place, key, numbers in lists:
        for element in domain.iterfind(place):
            path = f"{place}[{element.get(key, '')}]" if key else place
            for name, value in _attributes(element):
                if name != key:
                    yield f"{path}/@{name}", ranges(value) if name == numbers else value
    for page in domain.iterfind("memoryBacking/hugepages/page"):
        nodes = ranges(page.get("nodeset", ""))
        path = f"memoryBacking/hugepages/page{f'[{nodes}]' if nodes else ''}/@size"
        yield path, _size(page.get("size", ""), page.get("unit", "KiB"))
    for place in ("memoryBacking/hugepages", "memoryBacking/locked", "iommufd"):
        for element in domain.iterfind(place):
            yield place, "present"
            yield from ((f"{place}/@{name}", value) for name, value in _attributes(element))
    for number, element in enumerate(domain.iterfind("devices/iommu")):
        yield from ((f"devices/iommu[{number}]/{path}", text) for path, text in _properties(element))
    for cell_name, buses in _expanders(controllers).items():
        yield f"devices/controller[{EXPANDER}]/target/{cell_name}", buses


def _expanders(controllers: Mapping[int, etree._Element]) -> Mapping[str, str]:
    """The bus numbers of the expanders of each NUMA cell."""
    buses: dict[str, list[str]] = {}
    for controller in controllers.values():
        if controller.get("model") == EXPANDER:
            target = controller.find("target")
            node = controller.findtext("target/node")
            name = "no node" if node is None else f"node {node.strip()}"
            buses.setdefault(name, []).append("" if target is None else target.get("busNr", ""))
    return {name: "busNr " + ", ".join(sorted(numbers)) for name, numbers in sorted(buses.items())}


def _properties(element: etree._Element) -> Iterator[tuple[str, str]]:
    """Every attribute and text below an element, by its path; the order of elements of different names doesn't
    matter. Without recursion, since the depth is the writer's."""
    pending = [("", element)]
    while pending:
        path, current = pending.pop()
        yield from ((f"{path}@{name}", value) for name, value in _attributes(current))
        text = (current.text or "").strip()
        if text:
            yield f"{path}text()", text
        if path and not (text or len(current) or current.attrib):
            yield path.rstrip("/"), "present"
        children = [child for child in current if isinstance(child.tag, str)]
        repeated: dict[str, int] = {}
        for child in children:
            tag = str(child.tag)
            repeated[tag] = repeated.get(tag, 0) + 1
            pending.append((f"{path}{tag}[{repeated[tag]}]/" if repeated[tag] > 1 else f"{path}{tag}/", child))


def _attributes(element: etree._Element) -> Iterator[tuple[str, str]]:
    """The attributes of an element, whose names and values lxml's types allow to be bytes, which they never are."""
    return ((str(name), str(value)) for name, value in element.items())


def _number(text: str) -> int:
    """A number as libvirt reads it, in decimal or hexadecimal; -1 for another text, which no device has."""
    try:
        return int(text, 16) if text[:2].lower() == "0x" else int(text)
    except ValueError:
        return -1


def ranges(text: str) -> str:
    """A list of CPUs or nodes in its shortest form: ``0,1,2,8`` is ``0-2,8``."""
    try:
        numbers = sorted(parse_cpu_list(text))
    except ValueError:
        return text
    starts = [new for old, new in pairwise([-2, *numbers]) if new != old + 1]
    ends = [old for old, new in pairwise([*numbers, 10**9]) if new != old + 1]
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _size(text: str, unit: str) -> str:
    number, factor = _number(text), _BYTES.get(unit)
    return f"{text} {unit}" if number < 0 or factor is None else f"{number * factor} bytes"
