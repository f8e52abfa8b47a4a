"""KubeVirt's domain as a tree: read with limits, since it holds what users wrote, and written back."""

from __future__ import annotations

from lxml import etree

from launcher.elements.page import root as document_root
from launcher.errors import UNREADABLE_DOMAIN, LauncherError


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
