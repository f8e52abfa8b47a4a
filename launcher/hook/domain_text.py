"""KubeVirt's domain as a tree: read with limits, since it holds what users wrote, and written back."""

from __future__ import annotations

import re
from typing import Final

from lxml import etree

from launcher.elements.page import root as document_root
from launcher.errors import UNREADABLE_DOMAIN, AddressSyntaxError, LauncherError
from launcher.host_addresses.pci import PciAddress

_PCIE_MACHINE: Final = re.compile(r"(pc-)?q35\b.*|virt\b.*")


def parsed_domain(text: bytes) -> etree._Element:
    """The ``<domain>``. Raises :class:`LauncherError`."""
    try:
        root = document_root(text)
    except LauncherError as error:
        raise _unreadable(error.message.removeprefix("/: ")) from None
    if root.tag != "domain":
        raise _unreadable(f"is a <{root.tag}>")
    if len(root.findall("devices")) != 1:
        raise _unreadable(f"has {len(root.findall('devices'))} elements <devices> in place of one")
    return root


def domain_text(root: etree._Element) -> bytes:
    return etree.tostring(root.getroottree(), encoding="utf-8", xml_declaration=False)


def number(text: str | None) -> int | None:
    """The number that libvirt reads in an attribute, hexadecimal with 0x; None for a text that isn't one."""
    try:
        return None if text is None else int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        return None


def machine_type(root: etree._Element) -> str:
    return next((type_.get("machine", "") for type_ in root.iterfind("os/type")), "")


def has_pcie(root: etree._Element) -> bool:
    """True if the domain's machine has PCI Express."""
    return _PCIE_MACHINE.fullmatch(machine_type(root)) is not None


def pci_source(hostdev: etree._Element) -> PciAddress | None:
    """The PCI function of a ``<hostdev>``; None for another host device."""
    address = hostdev.find("source/address")
    if hostdev.get("type") != "pci" or address is None:
        return None
    domain, bus, slot, function = (number(address.get(name, "0")) for name in ("domain", "bus", "slot", "function"))
    if domain is None or bus is None or slot is None or function is None:
        return None
    try:
        return PciAddress.parse(f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}")
    except AddressSyntaxError:
        return None


def insert_after(parent: etree._Element, sibling: etree._Element | None, new: etree._Element) -> etree._Element:
    """The new element, behind a sibling (None: before all of them) and indented as that one is."""
    if sibling is None:
        new.tail = parent.text
        parent.insert(0, new)
        return new
    before = sibling.getprevious()
    new.tail, sibling.tail = sibling.tail, parent.text if before is None else before.tail
    sibling.addnext(new)
    return new


def _unreadable(fault: str) -> LauncherError:
    return LauncherError(UNREADABLE_DOMAIN, "domain", f"the domain {fault}")
