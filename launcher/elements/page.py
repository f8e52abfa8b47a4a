"""Declarative XML: each element is a :class:`Page`, whose properties are written in the order in which they are
declared.

A page is an immutable value; its ``PROPERTIES`` map each of its fields to a place in the element. Nothing else builds
elements, so the declarations are the whole format, and a test checks that every declared property is written by some
case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lxml import etree

Value = str | int | bool | None | tuple["Page", ...]
"""The value of a page's field. ``None``, ``False`` and ``()`` are not written."""

# XML 1.0, production [2] Char; other characters aren't allowed, not even as character references.
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class XmlTextError(ValueError):
    """A text with characters that XML doesn't allow (most control characters, lone surrogates)."""


@dataclass(frozen=True)
class Property:
    """The place of a field: its child element (``source/address``; "": the page's own element) and attribute.

    Without an attribute, a text becomes the element's content, ``True`` an empty element, and pages become children.
    """

    field: str
    element: str = ""
    attribute: str = ""


class Page:
    """An element. Subclasses are frozen dataclasses that declare their tag and properties."""

    TAG: ClassVar[str]
    PROPERTIES: ClassVar[tuple[Property, ...]]


def element(page: Page) -> etree._Element:
    """Build the element. Raises :class:`XmlTextError` for a text that XML doesn't allow."""
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
        target.set(declared.attribute, checked_text(str(value)))
    elif value is not True:
        target.text = checked_text(str(value))


def _descend(start: etree._Element, path: Iterable[str]) -> etree._Element:
    """The element at this path, created if it is missing."""
    for tag in path:
        child = start.find(tag)
        start = etree.SubElement(start, tag) if child is None else child
    return start


def checked_text(text: str) -> str:
    """The text itself. Raises :class:`XmlTextError` for the first character that XML doesn't allow."""
    match = _UNWRITABLE.search(text)
    if match is not None:
        raise XmlTextError(
            f"{text!r} contains {match.group()!r} (U+{ord(match.group()):04X}), which XML can't contain; remove it"
        )
    return text


def compact(page: Page) -> str:
    """The element on one line, without white space."""
    return etree.tostring(element(page), encoding="unicode")


def pretty(page: Page) -> str:
    """The element, indented, with a final newline."""
    return etree.tostring(element(page), encoding="unicode", pretty_print=True)
