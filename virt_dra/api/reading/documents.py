"""Manifests: bytes of YAML or JSON -> JSON objects with their place -> typed objects. No I/O; files are read in
``cluster.files``.

YAML may hold many documents, JSON one value, concatenated values or JSON lines. ``List`` and ``XList`` objects are
taken apart, empty documents are skipped. Every text that can't be read is a :class:`DocumentError` with its place;
nothing else is raised, whatever the bytes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic

from pydantic_core import to_json

from virt_dra.api.counting import cut_after
from virt_dra.api.meta import ObjectT_co, TypedObject
from virt_dra.api.reading import json_text, yaml_text
from virt_dra.api.reading.collector import collector_paused
from virt_dra.api.reading.document_error import DocumentError, Parsed
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.wire import WireError

try:
    from virt_dra.api.reading import yaml_fast

    _parse_yaml: Callable[[str, str], Iterator[Parsed]] = yaml_fast.parse
except (
    ModuleNotFoundError
) as error:  # no yaml-rs for this Python: everything is read exactly, large texts three times as slow (0015)
    if error.name != "yaml_rs":
        raise
    _parse_yaml = yaml_text.parse

__all__ = [
    "Document",
    "DocumentError",
    "DocumentSource",
    "Loaded",
    "ReadProblem",
    "Sourced",
    "read_document",
    "read_documents",
    "read_objects",
]

MAX_OBJECT_BYTES = 3 * 1024 * 1024
"""The largest object (as compact JSON) that kube-apiserver takes."""
TOO_LARGE = f"Request entity too large: limit is {MAX_OBJECT_BYTES}"
MAX_DOCUMENTS = 100_000
"""The most documents of one YAML text, empty ones included. Objects of a List don't count."""
_LONGEST_NAME = 253
_SMALL_TEXT = MAX_OBJECT_BYTES // 8
"""A shorter text without aliases can't grow to the limit as JSON: no construct of YAML gets eight times as long."""


@dataclass(frozen=True, order=True)
class DocumentSource:
    """The place of an object. ``line`` and ``document`` count from 1; ``item`` (from 0) is set for objects in a List.
    Line 0 is the file or folder as a whole."""

    name: str
    line: int = 1
    document: int = 1
    item: int | None = None

    def __str__(self) -> str:
        within = f"document {self.document}" if self.document > 1 else ""
        if self.item is not None:
            within = f"{within}, items[{self.item}]" if within else f"items[{self.item}]"
        place = f"{self.name}:{self.line}" if self.line else self.name
        return f"{place} ({within})" if within else place


@dataclass(frozen=True)
class Document:
    """One JSON value that should be a Kubernetes object."""

    raw: object
    source: DocumentSource


@dataclass(frozen=True)
class Sourced(Generic[ObjectT_co]):
    """A typed object and where it was read."""

    object: ObjectT_co
    source: DocumentSource


@dataclass(frozen=True)
class ReadProblem:
    """An object that could not be read. ``str()`` is the whole sentence with its place. ``unrendered``: because it is
    a template that was not rendered."""

    source: DocumentSource
    message: str
    unrendered: bool = False

    def __str__(self) -> str:
        return f"{self.source}: {self.message}"


@dataclass(frozen=True)
class Loaded:
    """The objects of a text, and the problems of those that don't have the shape of their kind."""

    objects: tuple[Sourced[TypedObject], ...]
    problems: tuple[ReadProblem, ...]


def read_documents(text: bytes, name: str) -> tuple[Document, ...]:
    """All JSON values in a YAML or JSON text (UTF-8, or UTF-16 with a byte order mark), Lists taken apart, in order.

    ``name`` says where the text comes from. Raises :class:`DocumentError` for anything that can't be read, or is too
    large or too deep.
    """
    documents: list[Document] = []
    _take_all(text, name, documents.append, documents.clear)
    return tuple(documents)


def read_objects(text: bytes, name: str, stored: Callable[[Document], Document] = lambda document: document) -> Loaded:
    """The typed objects of a text, each as ``stored`` has it. Raises :class:`DocumentError` if the text as a whole
    can't be read."""
    read: list[Sourced[TypedObject] | tuple[ReadProblem, ...]] = []
    _take_all(text, name, lambda document: read.append(read_document(stored(document))), read.clear)
    return Loaded(
        tuple([sourced for sourced in read if isinstance(sourced, Sourced)]),
        tuple([problem for problems in read if not isinstance(problems, Sourced) for problem in problems]),
    )


def _take_all(text: bytes, name: str, take: Callable[[Document], object], forget: Callable[[], object]) -> None:
    """Has the documents of a text taken, each before the next one is read. ``forget``: those taken so far; the text is
    read anew."""
    with collector_paused():
        decoded = _decoded(text, name)
        if not _take_list(decoded, name, take):
            forget()
            for document in _documents(decoded, name):
                take(document)


def read_document(document: Document) -> Sourced[TypedObject] | tuple[ReadProblem, ...]:
    """The typed object, or every problem of reading it."""
    try:
        return Sourced(read_object(document.raw), document.source)
    except WireError as error:
        title = _title(document.raw)
        return tuple(
            ReadProblem(document.source, f"{title}{path}: {text}" if path else f"{title}{text}")
            for path, text in error.problems
        )


def _title(raw: object) -> str:
    """``ResourceSlice "a": ``, with the parts that the object has."""
    if not isinstance(raw, dict) or not isinstance(raw.get("kind"), str):
        return ""
    metadata = raw.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    kind = _short(raw["kind"])
    return f'{kind} "{_short(name)}": ' if isinstance(name, str) else f"{kind}: "


def _short(text: str) -> str:
    """The beginning of a text, as long as a name may be: it is repeated in each problem of its object."""
    return cut_after(text, _LONGEST_NAME)


def _take_list(text: str, name: str, take: Callable[[Document], object]) -> bool:
    """Whether the text is a large List in JSON whose documents were all taken, each before the next one was read. If
    not, those that were taken must be forgotten."""
    line = text.count("\n", 0, len(text) - len(text.lstrip())) + 1

    def take_item(item: object, index: int, length: int) -> None:
        if item is None:
            return
        if _items(item) is not None:
            raise ValueError("a List in a List")
        document = Document(item, DocumentSource(name, line, 1, index))
        if length > _SMALL_TEXT:
            _limit_size(document)
        take(document)

    return json_text.take_list(text, take_item)


def _documents(text: str, name: str) -> Iterator[Document]:
    for parsed in _rendered(text, name):
        if parsed.value is None:
            continue
        source = DocumentSource(name, parsed.line, parsed.document)
        documents = list(_flattened(parsed, source))
        if parsed.expanded or parsed.length > _SMALL_TEXT:
            for document in documents:
                _limit_size(document)
        if not parsed.expanded and isinstance(parsed.value, dict) and _items(parsed.value) is not None:
            parsed.value.pop(
                "items"
            )  # frees each item once its document is used: a caller who keeps none doesn't hold the whole List
        documents.reverse()
        while documents:
            yield documents.pop()


def _rendered(text: str, name: str) -> Iterator[Parsed]:
    """The parsed values of a text. If it can't be parsed because it is an unrendered template, the error says that."""
    try:
        yield from _parsed(text, name)
    except DocumentError as error:
        action = _unrendered(text, error.line)
        if action is None:
            raise
        line, instruction = action
        message = f"`{instruction}` is an instruction of a template, not YAML. {RENDER_FIRST}"
        raise DocumentError(name, line, 1, message, error.document, final=True, unrendered=True) from None


RENDER_FIRST = "Render the template first, e.g. helm template CHART | virt-dra lint -f -"
"""The advice for text that a template engine should have replaced."""
_ACTION = re.compile(r"\{\{.{0,200}?\}\}|\{%.{0,200}?%\}")
_ACTION_LENGTH = 60


def template_action(text: str) -> str | None:
    """The first ``{{ … }}`` or ``{% … %}`` on a line of a text, in short; None without one."""
    match = _ACTION.search(text)
    return None if match is None else cut_after(match[0], _ACTION_LENGTH)


def _unrendered(text: str, at: int) -> tuple[int, str] | None:
    """The template's action at a line (from 1), else the first before it."""
    lines = text.split("\n")[:at]
    for number, line in [*enumerate(lines[-1:], len(lines)), *enumerate(lines, 1)]:
        if not line.lstrip().startswith("#") and (action := template_action(line)) is not None:
            return number, action
    return None


def _parsed(text: str, name: str) -> Iterator[Parsed]:
    begin = text.lstrip()[:1]
    if not begin:
        return iter(())
    if begin not in ("{", "["):
        return _limited(_parse_yaml(text, name), name)
    try:
        return iter(json_text.parse(text, name))
    except DocumentError as json_error:
        # What begins like JSON may be YAML in flow style, or JSON documents between "---". If it isn't YAML either, it
        # was meant as JSON.
        if json_error.final:
            raise
        try:
            return iter(tuple(_limited(yaml_text.parse(text, name), name)))
        except DocumentError as yaml_error:
            raise (yaml_error if yaml_error.final else json_error) from None


def _limited(documents: Iterator[Parsed], name: str) -> Iterator[Parsed]:
    for parsed in documents:
        if parsed.document > MAX_DOCUMENTS:
            message = f"more than {MAX_DOCUMENTS:,} documents in one text; split it, or write the objects as a List"
            raise DocumentError(name, parsed.line, 1, message, parsed.document, final=True)
        yield parsed


def _decoded(text: bytes, name: str) -> str:
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding, title = "utf-16", "UTF-16"
    else:
        encoding, title = "utf-8-sig", "UTF-8"
    try:
        return text.decode(encoding)
    except UnicodeDecodeError as error:
        read = error.object  # without the byte order mark of UTF-8
        line = read.count(b"\n", 0, error.start) + 1
        column = error.start - read.rfind(b"\n", 0, error.start)
        byte = f"byte 0x{read[error.start]:02x}" if error.start < len(read) else "the end of the text"
        raise DocumentError(name, line, column, f"not {title} text ({byte}); save it as UTF-8") from None


def _flattened(parsed: Parsed, source: DocumentSource) -> Iterator[Document]:
    items = _items(parsed.value)
    if items is None:
        yield Document(parsed.value, source)
        return
    for index, item in enumerate(items):
        line = parsed.item_lines[index] if len(parsed.item_lines) == len(items) else source.line
        place = DocumentSource(source.name, line, source.document, index)
        if item is None:
            continue
        if _items(item) is None:
            yield Document(item, place)
        else:  # a List in a List; the depth is limited
            yield from _flattened(replace(parsed, value=item, item_lines=()), place)


def _items(raw: object) -> list[Any] | None:
    """The objects of a List kind, each with kind and version (which API servers leave out in typed lists), or None."""
    if not isinstance(raw, dict) or "items" not in raw:
        return None
    kind, items = raw.get("kind"), raw["items"]
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list | None):
        return None
    if not items:
        return []
    head = {"apiVersion": raw.get("apiVersion"), "kind": kind.removesuffix("List")}
    if not head["kind"]:
        return items
    return [{**head, **item} if isinstance(item, dict) else item for item in items]


def _limit_size(document: Document) -> None:
    size = len(to_json(document.raw))
    if size > MAX_OBJECT_BYTES:
        advice = (
            f"the object has {size} bytes as JSON; split it (a ResourceSlice into several, other data into ConfigMaps)"
        )
        source = document.source
        raise DocumentError(source.name, source.line, 1, f"{TOO_LARGE}; {advice}", source.document)
