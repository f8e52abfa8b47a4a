"""The nodes of a YAML or JSON text with their places: where keys, values and brackets begin and end. Nothing recurses,
and only the objects that someone asks for are kept, so the cost is linear in the text."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, cast

import yaml

from virt_dra.api.editing.changes import CannotChange
from virt_dra.api.reading.document_error import MAX_DEPTH
from virt_dra.api.reading.json_members import after_space

NodeKind = Literal["scalar", "mapping", "sequence", "alias", "skipped"]

_BREAK: Final = re.compile(r"\r\n|\n|\r")


_NONE: Final[list[Any]] = []
"""What a scalar has no use for; never filled."""


def _nothing() -> list[Any]:
    return _NONE


@dataclass(slots=True, eq=False)
class TextNode:
    """A node: the characters from ``start``, its anchor and tag included, up to ``end``, what follows a block's last
    line not included.

    ``inner``: where a flow collection goes on after its bracket. ``style`` is the quote of a scalar, ``|`` or ``>``; ""
    for plain ones and for collections in block style, ``{`` for those in flow style. ``column`` counts from 0.
    ``marked``: it has an anchor or a tag.
    """

    kind: NodeKind
    start: int
    end: int
    line: int
    column: int
    style: str = ""
    value: str = ""
    marked: bool = False
    inner: int = 0
    entries: list[tuple[TextNode, TextNode]] = field(default_factory=_nothing)
    items: list[TextNode] = field(default_factory=_nothing)
    target: TextNode | None = None
    """What an alias stands for, if it is known."""
    _index: dict[str, int] | None = None

    @property
    def flow(self) -> bool:
        return self.style == "{"

    def entry(self, name: str) -> int | None:
        """The position of the entry with a key."""
        if self._index is None:
            self._index = {key.value: at for at, (key, _) in enumerate(self.entries) if key.kind == "scalar"}
        return self._index.get(name)


@dataclass(frozen=True)
class NodePlace:
    """The place of an object in its text: the number of its document, from 1, and of its item in a List."""

    document: int
    item: int | None = None


class TextLines:
    """The lines of a text, by the place of a character."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(line_break.end() for line_break in _BREAK.finditer(self.text))]

    @cached_property
    def newline(self) -> str:
        """The line break that the text has first, else ``\\n``."""
        line_break = _BREAK.search(self.text)
        return line_break[0] if line_break else "\n"

    def line_of(self, place: int) -> int:
        """The number of the line, from 0."""
        return bisect_right(self._starts, place) - 1

    def start(self, line: int) -> int:
        return self._starts[line] if line < len(self._starts) else len(self.text)

    def end(self, line: int) -> int:
        """The place of the line's break, or the end of the text."""
        until = self.start(line + 1)
        if line + 1 >= len(self._starts):
            return len(self.text)
        return until - 2 if self.text.startswith("\r\n", until - 2) else until - 1

    def column(self, place: int) -> int:
        return place - self.start(self.line_of(place))


def nodes_of(text: str, wanted: Collection[NodePlace]) -> Mapping[NodePlace, TextNode]:
    """The root of each wanted place's document; of a List only the wanted items have content. ``text`` is what a reader
    of manifests understands, without a byte order mark. Raises :class:`CannotChange` for a text that libyaml doesn't
    understand."""
    of_document: dict[int, set[int] | None] = {}
    for place in wanted:
        items = of_document.setdefault(place.document, set())
        if place.item is None:
            of_document[place.document] = None
        elif items is not None:
            items.add(place.item)
    # As manifests are read: what begins like JSON may be YAML in flow style, or JSON documents between "---".
    readers = (_json_roots, _yaml_roots) if text.lstrip()[:1] in ("{", "[") else (_yaml_roots,)
    for read in readers:
        try:
            roots = dict(read(text, of_document))
        except (yaml.YAMLError, ValueError, RecursionError):
            continue
        return {place: roots[place.document] for place in wanted if place.document in roots}
    raise CannotChange("its text can't be edited; write it as plain YAML or JSON")


def _json_roots(text: str, wanted: Mapping[int, set[int] | None]) -> Iterator[tuple[int, TextNode]]:
    """Concatenated values, each of which is also YAML."""
    decoder = json.JSONDecoder()
    position, document = after_space(text, 0), 0
    lines = TextLines(text)
    while position < len(text):
        _, end = decoder.raw_decode(text, position)
        document += 1
        if document in wanted:
            line = lines.line_of(position)
            shift = _Shift(position, line, lines.column(position))
            for _, root in _yaml_roots(text[position:end], {1: wanted[document]}, shift):
                yield document, root
        position = after_space(text, end)


@dataclass(frozen=True)
class _Shift:
    """The place in its file where a text begins."""

    place: int = 0
    line: int = 0
    column: int = 0


_WHOLE: Final = _Shift()


def _yaml_roots(
    text: str, wanted: Mapping[int, set[int] | None], shift: _Shift = _WHOLE
) -> Iterator[tuple[int, TextNode]]:
    next_event = cast("Callable[[], Any]", yaml.CSafeLoader(text).get_event)
    document = 0
    while True:
        event = next_event()
        if type(event) is yaml.StreamEndEvent:
            return
        if type(event) is not yaml.DocumentStartEvent:
            continue
        document += 1
        root = _Composer(text, wanted.get(document, set()), shift).compose(next_event)
        if document in wanted:
            yield document, root
        if document >= max(wanted, default=0):
            return


class _Composer:
    """Makes the nodes of one document. ``items``: those of a List that are wanted; None for all."""

    def __init__(self, text: str, items: set[int] | None, shift: _Shift) -> None:
        self._text = text
        self._items = items
        self._shift = shift
        self._anchors: dict[str, TextNode] = {}
        self._stack: list[TextNode] = []
        self._keys: list[TextNode | None] = []
        """Of each open mapping, the key whose value comes next."""
        self._skipped = 0
        """The depth within a node that isn't wanted."""

    def compose(self, next_event: Callable[[], Any]) -> TextNode:
        while True:
            event = next_event()
            kind: type = type(event)
            done: TextNode | None = None
            if self._skipped:
                self._skipped += (kind in _STARTS) - (kind in _ENDS)
                continue
            if kind in _STARTS:
                node = self._node(event, "mapping" if kind is yaml.MappingStartEvent else "sequence")
                if len(self._stack) >= MAX_DEPTH:
                    raise ValueError(MAX_DEPTH)
                if self._is_unwanted():
                    node.kind = "skipped"
                    self._skipped = 1
                    done = node
                else:
                    self._stack.append(node)
                    self._keys.append(None)
            elif kind in _ENDS:
                done = self._stack.pop()
                self._keys.pop()
                done.end = event.end_mark.index + self._shift.place if done.flow else self._last_end(done)
            elif kind is yaml.ScalarEvent:
                done = self._node(event, "scalar")
            elif kind is yaml.AliasEvent:
                done = self._node(event, "alias")
            if done is not None and self._place(done):
                return done

    def _is_unwanted(self) -> bool:
        """True for an item of a List that wasn't asked for."""
        if self._items is None or len(self._stack) != 2 or self._stack[1].kind != "sequence":
            return False
        key = self._keys[0]
        return key is not None and key.value == "items" and len(self._stack[1].items) not in self._items

    def _node(self, event: Any, kind: NodeKind) -> TextNode:
        mark, end = event.start_mark, event.end_mark.index
        shift = self._shift
        column = mark.column + shift.column if mark.line == 0 else mark.column
        node = TextNode(kind, mark.index + shift.place, end + shift.place, mark.line + shift.line, column)
        if kind == "alias":
            node.target = self._anchors.get(event.anchor)
            return node
        node.marked = bool(event.anchor or event.tag)
        if kind == "scalar":
            node.value, node.style = event.value, event.style or ""
            if node.style in ("|", ">"):
                node.end -= end - mark.index - len(self._text[mark.index : end].rstrip())
        else:
            node.style = "{" if event.flow_style else ""
            node.inner = node.end
            if kind == "mapping":
                node.entries = []
            else:
                node.items = []
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _last_end(self, node: TextNode) -> int:
        """The end of the last thing in a block, without the comments and blank lines below it."""
        if node.kind == "sequence":
            return node.items[-1].end if node.items else node.end
        return max(node.entries[-1][0].end, node.entries[-1][1].end) if node.entries else node.end

    def _place(self, node: TextNode) -> bool:
        """Puts a complete node where it belongs; True if it is the root."""
        if not self._stack:
            return True
        parent = self._stack[-1]
        if parent.kind == "sequence":
            parent.items.append(node)
        elif self._keys[-1] is None:
            self._keys[-1] = node
        else:
            parent.entries.append((self._keys[-1], node))
            self._keys[-1] = None
        return False


_STARTS: Final = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_ENDS: Final = (yaml.MappingEndEvent, yaml.SequenceEndEvent)
