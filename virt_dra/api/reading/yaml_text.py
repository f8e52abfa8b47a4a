"""YAML text -> JSON values, exactly as Kubernetes reads it (sigs.k8s.io/yaml over go-yaml v2), one document at a time.

Built from libyaml's events with an explicit stack, so that depth, aliases and places are under control: no text makes it recurse,
and no text grows: aliases share what they stand for, and are counted as if written out.
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
"""So many nodes (scalars, lists, mappings) may aliases stand for in a document, plus ten times what is written."""
_NODE_LENGTH = 64
"""A scalar counts as a further node for every so many characters: an alias of a long text is written out as one."""

MAX_TAG_DIRECTIVES = 100
"""libyaml compares each with all before it. No manifest has any."""
_TAG_DIRECTIVE = re.compile("(?:^|[\r\n\x85\u2028\u2029])\ufeff?%TAG")


class _Mark(Protocol):
    index: int
    line: int
    column: int


class _Event(Protocol):
    """libyaml's events as far as this module reads them; which attributes an event really has follows from its class."""

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
    line: int
    size: int = 1
    key: str | None = None
    waiting: bool = False
    """A mapping's key was read, its value comes next."""
    merging: bool = False
    """The value that comes next belongs to the merge key ``<<``."""
    merged: set[str] = field(default_factory=set)


class _Reader:
    """Reads one stream. ``base`` is the line at which the text stands in its file, ``first`` the number of its first document."""

    def __init__(self, text: str, name: str, base: int, first: int) -> None:
        self.text = text
        self.name = name
        self.base = base
        self.document = first - 1

    def read(self) -> Iterator[Parsed]:
        directive = next(islice(_TAG_DIRECTIVE.finditer(self.text), MAX_TAG_DIRECTIVES, None), None)
        if directive is not None:
            line = self.base + self.text.count("\n", 0, directive.end())
            message = f"more than {MAX_TAG_DIRECTIVES} %TAG directives; Kubernetes objects need none"
            raise DocumentError(self.name, line, 1, message, max(self.document, 1), final=True)
        try:
            next_event = cast("_Events", yaml.CSafeLoader(self.text).get_event)
            while True:
                event = next_event()
                kind: type = type(event)
                if kind is DocumentStartEvent:
                    self.document += 1
                    yield self._read_document(next_event)
                elif kind is StreamEndEvent:
                    return
                elif kind is not StreamStartEvent:
                    raise self._error(event, "not a YAML document")
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line or 0, mark.column or 0) if mark else (0, 0)
            context = f" ({error.context})" if error.context else ""
            message = f"not YAML: {error.problem or 'unknown problem'}{context}{_hint(error.problem or '')}"
            raise DocumentError(self.name, self.base + line, column + 1, message, max(self.document, 1)) from None
        except yaml.reader.ReaderError as error:
            position = error.position if isinstance(error.position, int) else 0
            head = self.text.encode(errors="replace")[:position]
            line, column = head.count(b"\n"), position - head.rfind(b"\n")
            message = f"not YAML: {error.reason} (character U+{_codepoint(error.character):04X}); is this a text file?"
            raise DocumentError(self.name, self.base + line, column, message, max(self.document, 1)) from None

    def _read_document(self, next_event: _Events) -> Parsed:
        event = next_event()
        started, first_line = event.start_mark.index, event.start_mark.line
        anchors: dict[str, tuple[object, int]] = {}
        stack: list[_Open] = []
        root: object = None
        item_lines: list[int] = []
        items: object = None
        nodes = 0
        alias_nodes = 0
        while True:
            kind: type = type(event)
            if kind is ScalarEvent:
                nodes += 1
                if stack and type(stack[-1].value) is dict and not stack[-1].waiting:
                    self._key(stack[-1], event, anchors)
                    event = next_event()
                    continue
                value: object = self._scalar(event)
                size = 1 + len(event.value) // _NODE_LENGTH
                if event.anchor:
                    anchors[event.anchor] = (value, size)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                nodes += 1
                if stack and type(stack[-1].value) is dict and not stack[-1].waiting:
                    raise self._error(event, "a key must be a string, not a list or mapping")
                if len(stack) >= MAX_DEPTH:
                    raise too_deep(self.name, self.base + event.start_mark.line, event.start_mark.column + 1, self.document)
                opened = _Open({} if kind is MappingStartEvent else [], event.anchor, event.start_mark.line)
                if event.anchor:
                    anchors[event.anchor] = (opened, 0)
                if len(stack) == 1 and stack[0].key == "items" and stack[0].waiting and kind is SequenceStartEvent:
                    items = opened.value
                elif len(stack) == 2 and stack[1].value is items:
                    item_lines.append(self.base + event.start_mark.line)
                stack.append(opened)
                event = next_event()
                continue
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                done = stack.pop()
                value, size = done.value, done.size
                if done.anchor and anchors[done.anchor][0] is done:  # else its name was given again inside
                    anchors[done.anchor] = (value, size)
            elif kind is AliasEvent:
                if event.anchor not in anchors:
                    raise self._error(event, f"unknown anchor '{event.anchor}' referenced")
                value, size = anchors[event.anchor]
                if isinstance(value, _Open):
                    raise self._error(event, f"anchor '{event.anchor}' value contains itself")
                alias_nodes += size
                if alias_nodes > MAX_ALIAS_NODES + 10 * nodes:
                    message = f"document contains excessive aliasing: written out, its aliases have more than {MAX_ALIAS_NODES} nodes"
                    raise self._error(event, message)
                if stack and type(stack[-1].value) is dict and not stack[-1].waiting:
                    if isinstance(value, dict | list):
                        raise self._error(event, "a key must be a string, not a list or mapping")
                    self._name(stack[-1], self._key_text(event, value), event)
                    event = next_event()
                    continue
            elif kind is DocumentEndEvent:
                length = event.start_mark.index - started
                return Parsed(root, self.base + first_line, self.document, length, alias_nodes > 0, tuple(item_lines))
            else:
                raise self._error(event, "not a YAML document")
            if not stack:
                root = value
            else:
                parent = stack[-1]
                parent.size += size
                if type(parent.value) is list:
                    parent.value.append(value)
                    if len(stack) == 2 and parent.value is items and len(item_lines) < len(parent.value):
                        item_lines.append(self.base + event.start_mark.line)
                elif parent.merging:
                    self._merge(parent, value, event, kind is AliasEvent)
                else:
                    assert type(parent.value) is dict
                    assert parent.key is not None
                    parent.value[parent.key] = value
                    parent.waiting = False
            event = next_event()

    def _scalar(self, event: _Event) -> object:
        try:
            if event.tag:
                return tagged_scalar(event.tag, event.value)
            return plain_scalar(event.value) if event.implicit[0] else event.value
        except ScalarError as error:
            raise self._error(event, str(error)) from None

    def _key(self, parent: _Open, event: _Event, anchors: dict[str, tuple[object, int]]) -> None:
        if event.value == "<<" and (event.implicit[0] or event.tag == MERGE):
            parent.merging = parent.waiting = True
            return
        if not event.tag and event.implicit[0]:
            try:
                key = plain_key(event.value)
            except ScalarError as error:
                raise self._error(event, str(error)) from None
        else:
            key = self._key_text(event, self._scalar(event))
        if event.anchor:
            anchors[event.anchor] = (self._scalar(event), 1 + len(event.value) // _NODE_LENGTH)
        self._name(parent, key, event)

    def _key_text(self, event: _Event, value: object) -> str:
        assert not isinstance(value, dict | list)
        try:
            return key_text(value)  # type: ignore[arg-type]  # a node that is no collection is a scalar
        except ScalarError as error:
            raise self._error(event, str(error)) from None

    def _name(self, parent: _Open, key: str, event: _Event) -> None:
        assert type(parent.value) is dict
        if key in parent.value and key not in parent.merged:
            raise self._error(event, f'key "{key}" is given twice in the same mapping; remove one of them')
        parent.merged.discard(key)
        parent.key = key
        parent.waiting = True
        parent.size += 1 + len(key) // _NODE_LENGTH

    def _merge(self, parent: _Open, value: object, event: _Event, aliased: bool) -> None:
        """``<<``: as go-yaml v2, which follows the order of the text: what comes later in the mapping wins, merged or written.

        Of several mappings in a list, the earlier ones win.
        """
        mappings = [value] if aliased or not isinstance(value, list) else reversed(value)
        for mapping in mappings:
            if type(mapping) is not dict:
                raise self._error(event, "map merge requires map or sequence of maps as the value")
            assert type(parent.value) is dict
            parent.value.update(mapping)
            parent.merged.update(mapping)
        parent.merging = parent.waiting = False

    def _error(self, event: _Event, message: str) -> DocumentError:
        mark = event.start_mark
        return DocumentError(self.name, self.base + mark.line, mark.column + 1, message, max(self.document, 1), final=True)


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


def parse(text: str, name: str, base: int = 1, first: int = 1) -> Iterator[Parsed]:
    """Every document of a stream. ``base`` is the line number of the text's first line, ``first`` the number of its first document.

    Raises :class:`DocumentError`.
    """
    return _Reader(text, name, base, first).read()
