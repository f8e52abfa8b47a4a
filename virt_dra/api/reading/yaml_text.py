"""YAML text -> JSON values, exactly as Kubernetes reads it (sigs.k8s.io/yaml over go-yaml v2), one document at a time.

Built from libyaml's events with an explicit stack, so that depth, aliases and places are under control: no text makes
it recurse, and no text grows: aliases share what they stand for, and are counted as if written out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, cast

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from virt_dra.api.reading.document_error import MAX_DEPTH, DocumentError, Parsed, too_deep
from virt_dra.api.reading.yaml_scalars import MERGE, ScalarError, key_text, plain_key, plain_scalar, tagged_scalar

MAX_ALIAS_NODES = 400_000
"""The most nodes (scalars, lists, mappings) that aliases may expand to, besides ten times the nodes written."""
_NODE_LENGTH = 64
"""Characters of a scalar that count as a further node, since aliases repeat long texts, too."""

MAX_TAG_DIRECTIVES = 100
"""The most %TAG directives: libyaml compares each with all before it, and no manifest has any."""
_TAG_DIRECTIVE = re.compile("(?:^|[\r\n\x85\u2028\u2029])\ufeff?%TAG")


class _Mark(Protocol):
    index: int
    line: int
    column: int


class _Event(Protocol):
    """libyaml's events as far as they are read here; which attributes an event really has follows from its class."""

    start_mark: _Mark
    anchor: str
    tag: str | None
    value: str
    implicit: tuple[bool, bool]


_Events = Callable[[], _Event]


@dataclass(slots=True)
class _Open:
    """A list or mapping that is being read. ``size`` counts nodes with aliases written out."""

    value: dict[str, object] | list[object]
    anchor: str | None
    expects_key: bool
    """True in a mapping whose next node is a key."""
    size: int = 1
    key: str | None = None
    merging: bool = False
    """The value that comes next belongs to the merge key ``<<``."""
    merged: set[str] = field(default_factory=set)


def parse(text: str, name: str, base: int = 1, first: int = 1) -> Iterator[Parsed]:
    """Every document of a stream. ``base`` is the line at which the text stands in its file, ``first`` the number of
    its first document.

    Raises :class:`DocumentError`.
    """
    document = first - 1
    directive = next(islice(_TAG_DIRECTIVE.finditer(text), MAX_TAG_DIRECTIVES, None), None)
    if directive is not None:
        line = base + text.count("\n", 0, directive.end())
        message = f"more than {MAX_TAG_DIRECTIVES} %TAG directives; Kubernetes objects need none"
        raise DocumentError(name, line, 1, message, max(document, 1), final=True)
    try:
        next_event = cast("_Events", yaml.CSafeLoader(text).get_event)
        while True:
            kind: type = type(event := next_event())
            if kind is DocumentStartEvent:
                document += 1
                yield _DocumentReader(name, base, document).read(next_event)
            elif kind is StreamEndEvent:
                return
            elif kind is not StreamStartEvent:
                raise _DocumentReader(name, base, document).error(event, _NO_DOCUMENT)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line or 0, mark.column or 0) if mark else (0, 0)
        context = f" ({error.context})" if error.context else ""
        message = f"not YAML: {error.problem or 'unknown problem'}{context}{_hint(error.problem or '')}"
        raise DocumentError(name, base + line, column + 1, message, max(document, 1)) from None
    except yaml.reader.ReaderError as error:
        position = error.position if isinstance(error.position, int) else 0
        head = text.encode(errors="replace")[:position]
        line, column = head.count(b"\n"), position - head.rfind(b"\n")
        message = f"not YAML: {error.reason} (character U+{_codepoint(error.character):04X}); is this a text file?"
        raise DocumentError(name, base + line, column, message, max(document, 1)) from None


_NO_DOCUMENT = "not a YAML document"


class _DocumentReader:
    """Reads one document. ``base``: the line of the stream in its file, ``document``: the document's number in it."""

    def __init__(self, name: str, base: int, document: int) -> None:
        self._name = name
        self._base = base
        self._document = document
        self._anchors: dict[str, tuple[object, int]] = {}
        """By name: the node and its size; a collection that is not complete is its _Open."""
        self._stack: list[_Open] = []
        self._root: object = None
        self._items: object = None
        """The list under the top-level key ``items``, whose entries' lines are noted."""
        self._item_lines: list[int] = []
        self._nodes = self._alias_nodes = 0

    def read(self, next_event: _Events) -> Parsed:
        """The document's value, from the events that follow its start. Raises :class:`DocumentError`."""
        event = next_event()
        started, first_line = event.start_mark.index, event.start_mark.line
        read_scalar = self._read_scalar
        while True:
            kind: type = type(event)
            if kind is ScalarEvent:
                read_scalar(event)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                self._open(event, {} if kind is MappingStartEvent else [])
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                self._close(event)
            elif kind is AliasEvent:
                self._read_alias(event)
            elif kind is DocumentEndEvent:
                length, lines = event.start_mark.index - started, tuple(self._item_lines)
                return Parsed(self._root, self._base + first_line, self._document, length, self._alias_nodes > 0, lines)
            else:
                raise self.error(event, _NO_DOCUMENT)
            event = next_event()

    def error(self, event: _Event, message: str) -> DocumentError:
        """An error at the place of an event, which reading the text as JSON would not cure."""
        mark = event.start_mark
        return DocumentError(
            self._name, self._base + mark.line, mark.column + 1, message, max(self._document, 1), final=True
        )

    def _read_scalar(self, event: _Event) -> None:
        self._nodes += 1
        stack = self._stack
        if stack and stack[-1].expects_key:
            self._key(stack[-1], event)
            return
        value, size = self._scalar(event), 1 + len(event.value) // _NODE_LENGTH
        if event.anchor:
            self._anchors[event.anchor] = (value, size)
        self._place(value, size, event, False)

    def _open(self, event: _Event, value: dict[str, object] | list[object]) -> None:
        self._nodes += 1
        stack, mark = self._stack, event.start_mark
        if stack and stack[-1].expects_key:
            raise self.error(event, _COLLECTION_AS_KEY)
        if len(stack) >= MAX_DEPTH:
            raise too_deep(self._name, self._base + mark.line, mark.column + 1, self._document)
        opened = _Open(value, event.anchor, type(value) is dict)
        if event.anchor:
            self._anchors[event.anchor] = (opened, 0)
        if len(stack) == 1 and stack[0].key == "items" and not stack[0].expects_key and type(value) is list:
            self._items = value
        elif len(stack) == 2 and stack[1].value is self._items:
            self._item_lines.append(self._base + mark.line)
        stack.append(opened)

    def _close(self, event: _Event) -> None:
        done = self._stack.pop()
        if (
            done.anchor and self._anchors[done.anchor][0] is done
        ):  # otherwise its content has given the name to another node
            self._anchors[done.anchor] = (done.value, done.size)
        self._place(done.value, done.size, event, False)

    def _read_alias(self, event: _Event) -> None:
        if event.anchor not in self._anchors:
            raise self.error(event, f"unknown anchor '{event.anchor}' referenced")
        value, size = self._anchors[event.anchor]
        if isinstance(value, _Open):
            raise self.error(event, f"anchor '{event.anchor}' value contains itself")
        self._alias_nodes += size
        if self._alias_nodes > MAX_ALIAS_NODES + 10 * self._nodes:
            message = (
                f"document contains excessive aliasing: written out, its aliases have more than {MAX_ALIAS_NODES} nodes"
            )
            raise self.error(event, message)
        if not self._stack or not self._stack[-1].expects_key:
            self._place(value, size, event, True)
        elif isinstance(value, dict | list):
            raise self.error(event, _COLLECTION_AS_KEY)
        else:
            self._set_key(self._stack[-1], self._key_text(event, value), event)

    def _place(self, value: object, size: int, event: _Event, aliased: bool) -> None:
        """Put a complete node where it belongs: into the innermost list or mapping, or at the root."""
        if not self._stack:
            self._root = value
            return
        parent = self._stack[-1]
        parent.size += size
        if type(parent.value) is list:
            parent.value.append(value)
            if len(self._stack) == 2 and parent.value is self._items and len(self._item_lines) < len(parent.value):
                self._item_lines.append(self._base + event.start_mark.line)
        elif parent.merging:
            self._merge(parent, value, event, aliased)
        else:
            assert type(parent.value) is dict
            assert parent.key is not None
            parent.value[parent.key] = value
            parent.expects_key = True

    def _scalar(self, event: _Event) -> object:
        try:
            if event.tag:
                return tagged_scalar(event.tag, event.value)
            return plain_scalar(event.value) if event.implicit[0] else event.value
        except ScalarError as error:
            raise self.error(event, str(error)) from None

    def _key(self, parent: _Open, event: _Event) -> None:
        if event.value == "<<" and (event.implicit[0] or event.tag == MERGE):
            parent.merging, parent.expects_key = True, False
            return
        if not event.tag and event.implicit[0]:
            try:
                key = plain_key(event.value)
            except ScalarError as error:
                raise self.error(event, str(error)) from None
        else:
            key = self._key_text(event, self._scalar(event))
        if event.anchor:
            self._anchors[event.anchor] = (self._scalar(event), 1 + len(event.value) // _NODE_LENGTH)
        self._set_key(parent, key, event)

    def _key_text(self, event: _Event, value: object) -> str:
        assert not isinstance(value, dict | list)
        try:
            return key_text(value)  # type: ignore[arg-type]  # a node that is not a collection is a scalar
        except ScalarError as error:
            raise self.error(event, str(error)) from None

    def _set_key(self, parent: _Open, key: str, event: _Event) -> None:
        assert type(parent.value) is dict
        if key in parent.value:
            if key not in parent.merged:
                raise self.error(event, f'key "{key}" is given twice in the same mapping; remove one of them')
            parent.merged.remove(key)
        parent.key = key
        parent.expects_key = False
        parent.size += 1 + len(key) // _NODE_LENGTH

    def _merge(self, parent: _Open, value: object, event: _Event, aliased: bool) -> None:
        """Merge what stands under ``<<`` as go-yaml v2 does, in the order of the text: the later entry wins, merged or
        written.

        Of several mappings in a list, the earlier ones win.
        """
        mappings = [value] if aliased or not isinstance(value, list) else reversed(value)
        for mapping in mappings:
            if type(mapping) is not dict:
                raise self.error(event, "map merge requires map or sequence of maps as the value")
            assert type(parent.value) is dict
            parent.value.update(mapping)
            parent.merged.update(mapping)
        parent.merging, parent.expects_key = False, True


_COLLECTION_AS_KEY = "a key must be a string, not a list or mapping"


def _codepoint(character: object) -> int:
    if isinstance(character, int):
        return character
    return ord(character) if isinstance(character, str | bytes) and len(character) == 1 else 0


def _hint(problem: str) -> str:
    if "tab" in problem or "\\t" in problem or "cannot start any token" in problem:
        return "; indent with spaces, not tabs, and quote text that begins with a special character"
    if "mapping values are not allowed" in problem:
        return '; check the indentation, and quote text that contains ": "'
    if problem.startswith("did not find expected"):
        return "; check brackets, quotes and indentation here and above"
    if "unexpected end of stream" in problem:
        return "; a quote is never closed"
    if "could not find expected ':'" in problem:
        return "; check the indentation, and that each key ends with a colon"
    return ""
