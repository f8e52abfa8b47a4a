"""Declarative XML: each element is a :class:`Page`, whose fields are written in the order in which they are declared,
and read by the same declaration.

A page is an immutable value; the annotation of each field has its place in the element: ``Annotated[str | None,
"source/address/@bus"]`` is an attribute of a child, ``Annotated[str, "name"]`` a child's text. Nothing else builds
elements, so the declarations are the whole format, and a test checks that every one is written by some case. What a
document has beyond the declarations is :class:`Kept`, and is written again where it was. A tag with a prefix
(``qemu:device``) is of the namespace that :data:`NAMESPACES` has for it, whatever a document's own prefix is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Self, get_args, get_origin, get_type_hints

from lxml import etree

from launcher.errors import MALFORMED_XML, UNWRITABLE_TEXT, LauncherError

Value = str | int | bool | None | tuple["Page", ...]
"""The value of a page's field. ``None``, ``False`` and ``()`` are not written."""

MAX_BYTES: Final = 2 << 20
"""Limit of a document that is read. A domain with 1,000 host devices takes some 300 KiB."""
NAMESPACES: Final = {"qemu": "http://libvirt.org/schemas/domain/qemu/1.0"}
"""Of libvirt's, by prefix."""
MAX_NODES: Final = 20_000
MAX_ATTRIBUTES: Final = 100
"""Limits of a document's elements and comments, and of one element's attributes, which libxml2 searches one by one."""

# What isn't in production [2], Char, of XML 1.0: not allowed, not even as character references.
_UNWRITABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NUMBER = re.compile(r"[ \t\r\n]*([0-9]{1,20})[ \t\r\n]*")


class XmlTextError(ValueError):
    """A text with characters that XML doesn't allow (most control characters, lone surrogates)."""


@dataclass(frozen=True)
class Property:
    """A field's place, a child element (``source/address``; "": the page's own element) and an attribute, and its type.

    Without an attribute, a text becomes the element's content, ``True`` an empty element, and pages become children.
    """

    field: str
    element: str
    attribute: str
    type: type
    optional: bool

    @classmethod
    def annotated(cls, name: str, hint: Any) -> Property:
        """The property of a field with the annotation ``Annotated[hint, "element/@attribute"]``, where the hint is
        ``T``, ``T | None`` or ``tuple[T, ...]``."""
        kind, place = get_args(hint)
        element, _, attribute = place.partition("@")
        arguments = get_args(kind)
        return cls(name, element.rstrip("/"), attribute, arguments[0] if arguments else kind, bool(arguments))

    @property
    def path(self) -> Sequence[str]:
        """The tags that lead to the element, as they are declared."""
        return self.element.split("/") if self.element else ()

    @property
    def at(self) -> str:
        """The attribute as the last step of a path, ``@order``."""
        return self.attribute and f"@{self.attribute}"

    @property
    def tag(self) -> str:
        """The tag of the child pages of a field of pages, else ""."""
        return self.type.TAG if issubclass(self.type, Page) else ""

    @property
    def absent(self) -> Value:
        """The value of a field of which the element has nothing."""
        return () if self.tag else False if self.type is bool else None


@dataclass(frozen=True)
class Kept:
    """What a document has beyond the declared properties. Two are equal if ``undeclared`` is."""

    undeclared: str = ""
    """The element without its declared properties, in canonical form; "" if nothing else is in it."""
    document: str = field(default="", compare=False, repr=False)
    """The element as it was read, with its order, white space and comments. Child pages are empty elements in it."""


@dataclass(frozen=True)
class Page:
    """An element. Subclasses are frozen dataclasses that declare their tag and fields."""

    TAG: ClassVar[str]

    kept: Kept = field(default=Kept(), kw_only=True)

    @classmethod
    @cache
    def properties(cls) -> tuple[Property, ...]:
        """The fields that have a place in the element, in the order in which they are written."""
        hints = get_type_hints(cls, include_extras=True)
        return tuple(Property.annotated(*hint) for hint in hints.items() if get_origin(hint[1]) is Annotated)

    def with_(self, **changes: Value) -> Self:
        """A copy with other values of some fields. ``dataclasses.replace`` would run through all of them, which takes
        ten times as long for a host device."""
        if unknown := changes.keys() - self.__dict__.keys():
            raise TypeError(f"<{self.TAG}> has no field {', '.join(sorted(unknown))}")
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__ | changes)
        return copy

    @classmethod
    def parse(cls, source: etree._Element, path: str = "") -> Self:
        """The page of an element: ``parse(element(page)) == page``. ``path``: of the element in its document.

        Raises :class:`LauncherError`, whose subject is the path of the first value that the page can't have.
        """
        path = path or f"/{source.tag}"
        if source.tag != qualified(cls.TAG):
            raise _malformed(path, f"must be <{cls.TAG}>")
        place = cls._place()
        values = {declared.field: declared.absent for declared in cls.properties()}
        _read(source, place, path, values)
        for declared in cls.properties():
            if values[declared.field] is None and not declared.optional:
                raise _malformed("/".join(filter(None, (path, declared.element, declared.at))), "is missing")
        rest = deepcopy(source)
        rest.tail = None
        _empty_child_pages(rest, place)
        document = etree.tostring(rest, encoding="unicode")
        _strip(rest, place)
        undeclared = "" if _is_empty(rest) else etree.tostring(rest, method="c14n", exclusive=True).decode()
        return cls(**values, kept=Kept(undeclared, document))

    @classmethod
    def from_text(cls, text: str | bytes) -> Self:
        """The page of a document. Raises :class:`LauncherError`."""
        return cls.parse(root(text))

    @classmethod
    @cache
    def _place(cls) -> _Place:
        """The fields, arranged for reading."""
        top = _Place()
        for declared in cls.properties():
            place = top
            for tag in declared.path:
                place = place.children.setdefault(tag, _Place())
            if declared.attribute:
                place.attributes[declared.attribute] = declared
            else:
                place.content.append(declared)
        return top


def root(text: str | bytes) -> etree._Element:
    """The root of a document from outside: UTF-8, at most :data:`MAX_BYTES`, without a document type (hence without
    entities). Raises :class:`LauncherError`."""
    try:
        content = text.encode() if isinstance(text, str) else text
        if len(content) > MAX_BYTES:
            raise _malformed("/", f"has {len(content)} bytes, more than {MAX_BYTES}")
        if "<!DOCTYPE" in content.decode():
            raise _malformed("/", "has a document type, which no domain needs")
        # The parser limits the depth, to 256 or 2,048 by its version.
        parser = etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True)
        document = etree.fromstring(content, parser)
    except UnicodeError:
        raise _malformed("/", "isn't UTF-8") from None
    except etree.XMLSyntaxError as error:
        raise _malformed("/", f"isn't well-formed XML: {error.msg}") from None
    for count, node in enumerate(document.iter(), start=1):
        if count > MAX_NODES or len(node.attrib) > MAX_ATTRIBUTES:
            many = f"has more than {MAX_NODES} elements, or one with more than {MAX_ATTRIBUTES} attributes"
            raise _malformed("/", many)
    return document


def element(page: Page) -> etree._Element:
    """Build the element. Raises :class:`XmlTextError` for a text that XML doesn't allow."""
    return _rewritten(page) if page.kept.document else _new(page)


def _new(page: Page) -> etree._Element:
    """The element of a page that wasn't read: nothing in it has to be found or kept."""
    targets = {"": etree.Element(qualified(page.TAG), nsmap=_prefixes(page.TAG))}
    values = page.__dict__
    for declared in page.properties():
        value: Value = values[declared.field]
        if value is None or value is False or value == ():
            continue
        target = targets.get(declared.element)
        if target is None:
            target = _new_target(targets, declared.element)
        if declared.attribute:
            target.set(declared.attribute, checked_text(str(value)))
        elif isinstance(value, tuple):
            target.extend([element(child) for child in value])
        elif value is not True:
            target.text = checked_text(str(value))
    return targets[""]


def _new_target(targets: dict[str, etree._Element], path: str) -> etree._Element:
    """The element at this path of a new one, and of those above it what is missing in ``targets``."""
    above, _, tag = path.rpartition("/")
    parent = targets.get(above)
    targets[path] = _appended(_new_target(targets, above) if parent is None else parent, tag)
    return targets[path]


def _appended(parent: etree._Element, tag: str) -> etree._Element:
    return etree.SubElement(parent, qualified(tag), nsmap=_prefixes(tag))


def qualified(tag: str) -> str:
    """The name of an element that is declared with this tag, ``{namespace}device``."""
    prefix, _, local = tag.rpartition(":")
    return f"{{{NAMESPACES[prefix]}}}{local}" if prefix else tag


def _prefixes(tag: str) -> dict[str, str] | None:
    """The namespace that an element with this tag needs."""
    prefix = tag.rpartition(":")[0]
    return {prefix: NAMESPACES[prefix]} if prefix else None


def _child(parent: etree._Element, tag: str) -> etree._Element | None:
    return parent.find(qualified(tag))


def _children(parent: etree._Element, tag: str) -> list[etree._Element]:
    return parent.findall(qualified(tag))


def _rewritten(page: Page) -> etree._Element:
    """The element as it was read, with the page's properties."""
    built = etree.fromstring(page.kept.document)
    for declared in page.properties():
        value: Value = getattr(page, declared.field)
        if isinstance(value, tuple):
            _write_pages(built, declared, value)
        elif value is not None and value is not False:
            _write(_descend(built, declared.path), declared, value)
        else:
            _remove(built, declared, is_flag=value is False)
    return built


@dataclass(frozen=True)
class _Place:
    """What is declared of an element, arranged for reading: attributes, content (text, presence, pages), children."""

    attributes: dict[str, Property] = field(default_factory=dict)
    content: list[Property] = field(default_factory=list)
    children: dict[str, _Place] = field(default_factory=dict)


def _read(source: etree._Element, place: _Place, path: str, values: dict[str, Value]) -> None:
    for attribute, declared in place.attributes.items():
        values[declared.field] = _scalar(source.get(attribute), declared, f"{path}/@{attribute}")
    for declared in place.content:
        kind = declared.type
        if issubclass(kind, Page):
            children = enumerate(_children(source, kind.TAG), start=1)
            values[declared.field] = tuple(kind.parse(child, f"{path}/{kind.TAG}[{n}]") for n, child in children)
        else:
            values[declared.field] = kind is bool or _scalar(_content(source), declared, path)
    for tag, inner in place.children.items():
        child = _child(source, tag)
        if child is not None:
            _read(child, inner, f"{path}/{tag}", values)


def _scalar(text: str | None, declared: Property, path: str) -> str | int | None:
    if text is None or declared.type is not int:
        return text
    number = _number(text)
    if number is None:
        raise _malformed(path, f"{text[:40]!r} isn't a number")
    return number


def _number(text: str) -> int | None:
    match = _NUMBER.fullmatch(text)
    return int(match[1]) if match is not None else None


def _content(source: etree._Element) -> str | None:
    """The text as libvirt reads it, which includes that of child elements. An empty element has none."""
    return str(source.xpath("string()")) or None


def _empty_child_pages(source: etree._Element, place: _Place) -> None:
    for tag in filter(None, (declared.tag for declared in place.content)):
        for child in _children(source, tag):
            _clear(child)
    for tag, inner in place.children.items():
        for element_ in _children(source, tag)[:1]:
            _empty_child_pages(element_, inner)


def _strip(source: etree._Element, place: _Place) -> None:
    """Remove what is declared, with comments and white space around it."""
    for attribute in set(place.attributes).intersection(source.keys()):
        del source.attrib[attribute]
    if place.content or not (source.text or "").strip():
        source.text = None
    pages = {qualified(declared.tag) for declared in place.content}
    for child in list(source):
        child.tail = None
        if child.tag in pages or isinstance(child, etree._Comment):
            source.remove(child)
    for tag, inner in place.children.items():
        declared = _child(source, tag)
        if declared is not None:
            _strip(declared, inner)
            if _is_empty(declared):
                source.remove(declared)


def _clear(source: etree._Element) -> None:
    source.attrib.clear()
    del source[:]
    source.text = None


def _is_empty(source: etree._Element) -> bool:
    return not source.attrib and not len(source) and not (source.text or "").strip()


def _present(target: etree._Element, declared: Property) -> str | None:
    return target.get(declared.attribute) if declared.attribute else _content(target)


def _write(target: etree._Element, declared: Property, value: Value) -> None:
    if value is True:
        return
    text = checked_text(str(value))
    present = _present(target, declared)
    if text == present or (isinstance(value, int) and present is not None and _number(present) == value):
        return  # as the document spells it
    if declared.attribute:
        target.set(declared.attribute, text)
    else:
        del target[:]
        target.text = text


def _write_pages(built: etree._Element, declared: Property, pages: tuple[Page, ...]) -> None:
    """Put each page into the place of one that was read. Further ones follow the last of these, or come last."""
    parent = built.find(declared.element, NAMESPACES) if declared.element else built
    places = _children(parent, declared.tag) if parent is not None else []
    if not pages and not places:
        return
    parent = _descend(built, declared.path)
    following = parent.index(places[-1]) + 1 if places else len(parent)
    elements = [element(page) for page in pages]
    parent[following:following] = elements[len(places) :]
    for place, child in zip(places, elements, strict=False):
        child.tail = place.tail
        parent.replace(place, child)
    for place in places[len(pages) :]:
        parent.remove(place)


def _remove(built: etree._Element, declared: Property, *, is_flag: bool) -> None:
    """Remove a property from an element that was read, and the elements that are empty without it."""
    target = built.find(declared.element, NAMESPACES) if declared.element else built
    if target is None or not (is_flag or _present(target, declared)):
        return
    if is_flag:
        _clear(target)
    elif declared.attribute:
        del target.attrib[declared.attribute]
    else:
        del target[:]
        target.text = None
    while target is not built and _is_empty(target):
        parent = target.getparent()
        assert parent is not None
        parent.remove(target)
        target = parent


def _descend(start: etree._Element, path: Iterable[str]) -> etree._Element:
    """The element at this path, created if it is missing."""
    for tag in path:
        child = _child(start, tag)
        start = _appended(start, tag) if child is None else child
    return start


def checked_text(text: str) -> str:
    """The text itself. Raises :class:`XmlTextError` for the first character that XML doesn't allow."""
    match = None if text.isprintable() else _UNWRITABLE.search(text)  # what is printable is writable, and soon seen
    if match is not None:
        character = f"{match.group()!r} (U+{ord(match.group()):04X})"
        raise XmlTextError(f"{text!r} contains {character}, which XML can't contain; remove it")
    return text


def text_of_field(text: str, field: str) -> str:
    """The text of a VMI's field. Raises :class:`LauncherError` where XML can't contain it."""
    try:
        return checked_text(text)
    except XmlTextError as error:
        raise LauncherError(UNWRITABLE_TEXT, field, f"{field}: {error}") from None


def compact(page: Page) -> str:
    """The element on one line, without white space."""
    return etree.tostring(element(page), encoding="unicode")


def pretty(page: Page) -> str:
    """The element, indented, with a final newline."""
    return etree.tostring(element(page), encoding="unicode", pretty_print=True)


def _malformed(path: str, reason: str) -> LauncherError:
    return LauncherError(MALFORMED_XML, path, f"{path}: {reason}")
