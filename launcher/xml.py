"""Declared XML: a page of properties per element, written in the order in which they are declared.

A :class:`Page` is an immutable value; its ``PROPERTIES`` say where each of its fields goes. Nothing else builds elements, so the
declaration is the whole format, and a test can ask whether every declared property is ever written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lxml import etree

Value = str | int | bool | None | tuple["Page", ...]
"""What a field of a page may hold. ``None``, ``False`` and ``()`` are not written."""

# XML 1.0, production [2] Char; everything else can't be carried, not even as a character reference.
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class XmlTextError(ValueError):
    """Text with characters that no XML document can carry (most control characters, lone surrogates)."""


@dataclass(frozen=True)
class Property:
    """One line of a page: the field, the child element it belongs to (``source/address``, empty: the page's own), the attribute.

    Without an attribute a text becomes the element's content, ``True`` an empty element, and pages become children.
    """

    field: str
    element: str = ""
    attribute: str = ""

    def xpath(self, page: type[Page]) -> str:
        """An XPath that finds this property in a document."""
        path = "/".join(part for part in (f"//{page.TAG}", self.element) if part)
        return f"{path}/@{self.attribute}" if self.attribute else path


class Page:
    """An element. Subclasses are frozen dataclasses that declare their tag and properties."""

    TAG: ClassVar[str]
    PROPERTIES: ClassVar[tuple[Property, ...]]


def element(page: Page) -> etree._Element:
    """Build the element. Raises :class:`XmlTextError` for text that XML can't carry."""
    root = etree.Element(page.TAG)
    for declared in page.PROPERTIES:
        value: Value = getattr(page, declared.field)
        if value is None or value is False or value == ():
            continue
        _write(_descend(root, declared.element.split("/") if declared.element else ()), declared, value)
    return root


def _write(target: etree._Element, declared: Property, value: Value) -> None:
    if isinstance(value, tuple):
        target.extend([element(page) for page in value])
    elif declared.attribute:
        target.set(declared.attribute, carried(str(value)))
    elif value is not True:
        target.text = carried(str(value))


def _descend(start: etree._Element, path: Iterable[str]) -> etree._Element:
    """The element under this path, made where it is missing."""
    for tag in path:
        found = start.find(tag)
        start = etree.SubElement(start, tag) if found is None else found
    return start


def carried(text: str) -> str:
    """The same text. Raises :class:`XmlTextError` naming the first character that XML can't carry."""
    match = _UNWRITABLE.search(text)
    if match is not None:
        raise XmlTextError(f"{text!r} contains {match.group()!r} (U+{ord(match.group()):04X}), which XML can't carry; remove it")
    return text


def compact(page: Page) -> str:
    """One line, no white space between elements."""
    return etree.tostring(element(page), encoding="unicode")


def pretty(page: Page) -> str:
    """Indented, with a final newline."""
    return etree.tostring(element(page), encoding="unicode", pretty_print=True)
