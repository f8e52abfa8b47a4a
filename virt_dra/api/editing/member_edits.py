"""Changes of objects -> edits of the text in which they are written, in block style, flow style or JSON.

What is moved keeps its comments and is only indented otherwise; what is added is written as its neighbours are. A text
that would lose a comment, or whose change isn't local (an alias, a merge key), is refused.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from virt_dra.api.editing.changes import (
    AppendItem,
    CannotChange,
    MemberPath,
    NestMembers,
    RemoveMember,
    RenameMember,
    SetMember,
    ValueChange,
    WrapMember,
)
from virt_dra.api.editing.text_edits import TextEdit, in_order
from virt_dra.api.editing.text_nodes import NodePlace, TextLines, TextNode, nodes_of
from virt_dra.api.editing.written_values import flow, item_lines, member_lines, scalar


class WrittenObjects:
    """The objects at some places of a text, read once for all changes. Raises :class:`CannotChange`, as its method."""

    def __init__(self, text: str, places: Collection[NodePlace]) -> None:
        self._lines = TextLines(text)
        self._roots = nodes_of(text, places)

    def edits(self, changes: Mapping[NodePlace, Sequence[ValueChange]]) -> list[TextEdit]:
        """The edits in order that change the objects."""
        editors: dict[int, _DocumentEditor] = {}
        for place, of_object in changes.items():
            root = self._roots.get(place)
            if root is None:
                raise CannotChange("it isn't found in its text")
            by = editors.setdefault(place.document, _DocumentEditor(self._lines, root))
            by.add(of_object, () if place.item is None else ("items", place.item))
        return in_order(edit for editor in editors.values() for edit in editor.edits())


class _DocumentEditor:
    """Collects the changes of one document, each once: objects may share a node by an alias."""

    def __init__(self, lines: TextLines, root: TextNode) -> None:
        self._lines = lines
        self._text = lines.text
        self._root = root
        self._changes: dict[tuple[int, object], tuple[TextNode, ValueChange]] = {}
        self._json = root.flow and bool(root.entries) and all(key.style == '"' for key, _ in root.entries)
        self._step = _step(root)

    def add(self, changes: Iterable[ValueChange], within: MemberPath) -> None:
        """Changes of the object at ``within``."""
        for change in changes:
            path = (*within, *change.path)
            owner = self._at(path if isinstance(change, NestMembers) else path[:-1])
            if owner.kind != "mapping":
                raise CannotChange("there is no object to change")
            self._changes.setdefault((id(owner), (type(change), change.path[-1:], *_content(change))), (owner, change))

    def edits(self) -> Iterator[TextEdit]:
        appended: dict[tuple[int, str], tuple[TextNode, list[object]]] = {}
        for owner, change in self._changes.values():
            name = str(change.path[-1]) if change.path else ""
            if isinstance(change, AppendItem):
                appended.setdefault((id(owner), name), (owner, []))[1].append(json.loads(change.value))
            elif isinstance(change, NestMembers):
                yield from self._nest(owner, change)
            elif isinstance(change, SetMember):
                if not change.add and owner.entry(name) is None:
                    raise CannotChange(f"its {name} is that of the list that it is in; write it at each object")
                yield from self._set(owner, name, json.loads(change.value))
            else:
                key, value = self._entry(owner, name)
                if isinstance(change, RenameMember):
                    yield self._replaced(key, change.name)
                elif isinstance(change, WrapMember):
                    yield self._wrapped(value, change.under, key.style)
                elif isinstance(change, RemoveMember):
                    yield self._removed(owner, owner.entry(name) or 0)
                else:
                    yield from self._unnest(owner, owner.entry(name) or 0)
        for (_, name), (owner, values) in appended.items():
            yield self._append(owner, name, values)

    # --- nodes ---

    def _at(self, path: MemberPath) -> TextNode:
        node = _followed(self._root)
        for step in path:
            if node.kind == "sequence" and isinstance(step, int) and step < len(node.items):
                node = _followed(node.items[step])
            elif node.kind == "mapping" and isinstance(step, str):
                node = _followed(self._entry(node, step)[1])
            else:
                raise CannotChange(f"{step} isn't written where it belongs")
        return node

    def _entry(self, owner: TextNode, name: str) -> tuple[TextNode, TextNode]:
        at = owner.entry(name)
        if at is None:
            raise CannotChange(f"{name} isn't written there, but merged in from elsewhere")
        return owner.entries[at]

    def _quote(self, owner: TextNode) -> str:
        """The quote of new keys and texts: that of JSON if the neighbours have it."""
        of_json = all(key.style == '"' for key, _ in owner.entries) if owner.entries else self._json
        return '"' if owner.flow and of_json else ""

    def _own_line(self, node: TextNode) -> bool:
        """True if nothing but blanks stands before a node on its line."""
        return not self._text[self._lines.start(node.line) : node.start].strip()

    # --- scalars ---

    def _replaced(self, node: TextNode, value: object) -> TextEdit:
        self._require_plain(node)
        return self._put(node, self._scalar(value, node))

    def _scalar(self, value: object, before: TextNode) -> str:
        return scalar(value, '"' if self._json else before.style)

    def _require_plain(self, node: TextNode) -> None:
        if node.kind != "scalar" or node.marked or node.style in ("|", ">"):
            raise CannotChange("what is to be replaced is an alias, an anchor or not on one line")

    def _put(self, node: TextNode, text: str) -> TextEdit:
        """A text in place of a node, with a blank before it where nothing stood after the colon."""
        missing = node.start == node.end and self._text[node.start - 1 : node.start] == ":"
        return TextEdit(node.start, node.end, f" {text}" if missing else text)

    def _wrapped(self, node: TextNode, under: str, quote: str) -> TextEdit:
        text = self._text[node.start : node.end]
        if node.kind != "scalar" or node.marked or node.style in ("|", ">") or "\n" in text:
            raise CannotChange("what is to be wrapped is an alias, an anchor or more than a line")
        return TextEdit(node.start, node.end, f"{{{scalar(under, quote)}: {text}}}")

    def _set(self, owner: TextNode, name: str, value: object) -> Iterator[TextEdit]:
        at = owner.entry(name)
        if at is None:
            yield self._inserted(owner, name, value)
            return
        given = owner.entries[at][1]
        if given.kind in ("mapping", "sequence"):
            raise CannotChange(f"{name} is no scalar")
        self._require_plain(given)
        yield self._put(
            given, flow(value, self._quote(owner)) if isinstance(value, dict | list) else self._scalar(value, given)
        )

    # --- members ---

    def _inserted(self, owner: TextNode, name: str, value: object) -> TextEdit:
        """A further member, after the last one."""
        if not owner.flow:
            texts = member_lines(name, value, self._step, self._dashes(owner))
            return self._lines_after(
                owner.entries[-1], owner.column if not owner.marked else owner.entries[0][0].column, texts
            )
        quote = self._quote(owner)
        if not owner.entries:
            return TextEdit(owner.inner, owner.inner, f"{scalar(name, quote)}: {flow(value, quote)}")
        key, last = owner.entries[-1]
        end = max(key.end, last.end)
        if not self._own_line(key):
            return TextEdit(end, end, f", {scalar(name, quote)}: {flow(value, quote)}")
        written = json.dumps(value, indent=self._step) if quote == '"' else flow(value)
        return TextEdit(end, end, self._broken([",", *f"{scalar(name, quote)}: {written}".split("\n")], key.column))

    def _broken(self, texts: Iterable[str], column: int) -> str:
        """The first text, then the others in lines of their own."""
        return f"{self._lines.newline}{' ' * column}".join(texts)

    def _lines_after(self, entry: Collection[TextNode], column: int, texts: Iterable[str]) -> TextEdit:
        """New lines below the one in which an entry in block style ends."""
        end = self._lines.end(self._lines.line_of(max(node.end for node in entry)))
        return TextEdit(end, end, self._broken(["", *texts], column))

    def _dashes(self, owner: TextNode) -> int:
        """The number of blanks by which the dashes of a list are indented in this mapping."""
        for key, value in owner.entries:
            if value.kind == "sequence" and not value.flow and not value.marked:
                return max(value.column - key.column, 0)
        return 0

    def _append(self, owner: TextNode, name: str, values: list[object]) -> TextEdit:
        at = owner.entry(name)
        if at is None:
            return self._inserted(owner, name, values)
        key, given = owner.entries[at]
        quote = self._quote(owner)
        if given.kind == "scalar" or (given.kind == "sequence" and not given.items):
            if given.marked or given.style in ("|", ">"):
                raise CannotChange(f"{name} is an anchor")
            if quote == '"' and self._own_line(key):
                return self._put(given, self._broken(json.dumps(values, indent=self._step).split("\n"), key.column))
            return self._put(given, flow(values, quote))
        if given.kind != "sequence":
            raise CannotChange(f"{name} is an alias, which other objects may share")
        last = given.items[-1]
        if not given.flow:
            if given.marked:
                raise CannotChange(f"{name} is an anchor, which other objects may share")
            texts = [line for value in values for line in item_lines(value, self._step, self._dashes(owner))]
            return self._lines_after([last], given.column, texts)
        if not self._own_line(last):
            return TextEdit(last.end, last.end, "".join(f", {flow(value, quote)}" for value in values))
        texts = [json.dumps(value, indent=self._step) if quote == '"' else flow(value) for value in values]
        return TextEdit(
            last.end, last.end, self._broken(["," + self._broken(["", *",\n".join(texts).split("\n")], last.column)], 0)
        )

    def _removed(self, owner: TextNode, at: int) -> TextEdit:
        """The edit that removes the entry at a position, with its line and the comment at its end."""
        key, value = owner.entries[at]
        end = max(key.end, value.end)
        following = owner.entries[at + 1][0] if at + 1 < len(owner.entries) else None
        if len(owner.entries) == 1:
            raise CannotChange("it is the only member")
        if owner.flow:
            if following is not None:
                return self._cut(key.start, following.start)
            before = owner.entries[at - 1]
            return self._cut(max(before[0].end, before[1].end), end)
        if not self._own_line(key):
            if following is None:
                raise CannotChange("it is the only member")
            return self._cut(key.start, following.start)
        last = self._lines.line_of(end)
        if self._lines.end(last) < len(self._text):
            return TextEdit(self._lines.start(key.line), self._lines.start(last + 1), "")
        return TextEdit(self._lines.end(key.line - 1), self._lines.end(last), "")

    def _cut(self, start: int, end: int) -> TextEdit:
        if "#" in self._text[start:end]:
            raise CannotChange(_COMMENT)
        return TextEdit(start, end, "")

    # --- moves ---

    def _nest(self, owner: TextNode, change: NestMembers) -> Iterator[TextEdit]:
        moved = sorted(at for name in change.names if (at := owner.entry(name)) is not None)
        if len(moved) < len(change.names):
            raise CannotChange("some of its members are merged in from elsewhere")
        runs: list[list[int]] = []
        for at in moved:
            if runs and runs[-1][-1] == at - 1:
                runs[-1].append(at)
            else:
                runs.append([at])
        yield from (
            self._nest_flow(owner, runs, change.under) if owner.flow else self._nest_block(owner, runs, change.under)
        )

    def _nest_block(self, owner: TextNode, runs: Sequence[Sequence[int]], under: str) -> Iterator[TextEdit]:
        """The first run of entries is indented where it stands; others are moved below it, with comments above them."""
        first = owner.entries[runs[0][0]][0]
        column = first.column
        head = scalar(under, self._quote(owner))
        yield TextEdit(first.start, first.start, self._broken([f"{head}:", ""], column + self._step))
        last = self._last_line(owner, runs[0])
        yield from self._indented(first.line + 1, last, self._step)
        place = self._lines.end(last)
        for run in runs[1:]:
            begin, until = owner.entries[run[0]][0].line, self._last_line(owner, run)
            while begin - 1 > 0 and self._is_comment(begin - 1, column):
                begin -= 1
            lines = [self._text[self._lines.start(line) : self._lines.end(line)] for line in range(begin, until + 1)]
            yield TextEdit(
                place,
                place,
                "".join(f"{self._lines.newline}{' ' * self._step if line else ''}{line}" for line in lines),
            )
            yield TextEdit(self._lines.end(begin - 1), self._lines.end(until), "")

    def _last_line(self, owner: TextNode, run: Sequence[int]) -> int:
        return self._lines.line_of(max(node.end for node in owner.entries[run[-1]]))

    def _is_comment(self, line: int, column: int) -> bool:
        text = self._text[self._lines.start(line) : self._lines.end(line)]
        return text.startswith("#", column) and not text[:column].strip()

    def _indented(self, first: int, last: int, step: int) -> Iterator[TextEdit]:
        """The lines, each with ``step`` more blanks before it, or fewer."""
        for line in range(first, last + 1):
            start, end = self._lines.start(line), self._lines.end(line)
            if step > 0 and start < end:
                yield TextEdit(start, start, " " * step)
            elif step < 0:
                blanks = len(self._text[start:end]) - len(self._text[start:end].lstrip(" "))
                if blanks:
                    yield TextEdit(start, start + min(blanks, -step), "")

    def _nest_flow(self, owner: TextNode, runs: Sequence[Sequence[int]], under: str) -> Iterator[TextEdit]:
        first, quote = owner.entries[runs[0][0]][0], self._quote(owner)
        end = self._end(owner, runs[0][-1])
        in_lines = (
            self._own_line(first)
            and not self._text[end : self._lines.end(self._lines.line_of(end))].lstrip(" ,").strip()
        )
        head, inner = f"{scalar(under, quote)}: {{", first.column + self._step
        yield TextEdit(first.start, first.start, self._broken([head, ""], inner) if in_lines else head)
        if in_lines:
            yield from self._indented(first.line + 1, self._lines.line_of(end), self._step)
        further: list[str] = []
        for run in runs[1:]:
            begin, until = owner.entries[run[0]][0].start, self._end(owner, run[-1])
            before = self._end(owner, run[0] - 1)
            if "#" in self._text[before:begin]:
                raise CannotChange(_COMMENT)
            further.append(
                self._text[begin:until].replace("\n", f"\n{' ' * self._step}") if in_lines else self._text[begin:until]
            )
            yield TextEdit(before, until, "")
        separator = self._broken([",", ""], inner) if in_lines else ", "
        closing = self._broken(["", "}"], first.column) if in_lines else "}"
        yield TextEdit(end, end, "".join(separator + piece for piece in further) + closing)

    def _end(self, owner: TextNode, at: int) -> int:
        return max(node.end for node in owner.entries[at])

    def _unnest(self, owner: TextNode, at: int) -> Iterator[TextEdit]:
        key, inner = owner.entries[at]
        if inner.kind == "scalar" or (inner.kind == "mapping" and not inner.entries):
            yield self._removed(owner, at)
            return
        if inner.kind != "mapping" or inner.marked:
            raise CannotChange("its members are shared with others by an anchor or alias")
        first, end = inner.entries[0][0], self._end(inner, len(inner.entries) - 1)
        between = self._text[key.end : first.start]
        if inner.flow:
            yield from self._unnest_flow(owner, key, inner, end)
        elif "#" in between:
            comment = key.end + between.index("#")
            yield TextEdit(key.start, comment, "")
            yield from self._indented(key.line + 1, self._lines.line_of(end), key.column - first.column)
        else:
            yield TextEdit(key.start, first.start, "")
            yield from self._indented(first.line + 1, self._lines.line_of(end), key.column - first.column)

    def _unnest_flow(self, owner: TextNode, key: TextNode, inner: TextNode, end: int) -> Iterator[TextEdit]:
        first = inner.entries[0][0]
        gaps = [(self._end(inner, number), after.start) for number, (after, _) in enumerate(inner.entries[1:])]
        if "#" in self._text[key.end : first.start] or "#" in self._text[end : inner.end]:
            raise CannotChange(_COMMENT)
        yield TextEdit(key.start, first.start, "")
        yield TextEdit(end, inner.end, "")
        if not owner.flow:
            for start, until in gaps:
                if "#" in self._text[start:until]:
                    raise CannotChange(_COMMENT)
                yield TextEdit(start, until, self._broken(["", ""], key.column))
        elif self._own_line(key) and self._own_line(first):
            yield from self._indented(first.line + 1, self._lines.line_of(end), key.column - first.column)


_COMMENT = "a comment would be lost"


def _content(change: ValueChange) -> tuple[object, ...]:
    """What tells two changes of one object apart, besides their kind and member."""
    if isinstance(change, NestMembers):
        return change.names, change.under
    return tuple(getattr(change, name) for name in ("value", "name", "under") if hasattr(change, name))


def _followed(node: TextNode) -> TextNode:
    if node.kind != "alias":
        return node
    if node.target is None:
        raise CannotChange("it is an alias of something in another object")
    return node.target


def _step(root: TextNode) -> int:
    """The number of blanks by which a document indents what is below something else."""
    for key, value in root.entries:
        if root.flow:
            return key.column if key.line > root.line and key.column else 2
        if value.kind == "mapping" and not value.flow and value.entries and value.entries[0][0].column > key.column:
            return value.entries[0][0].column - key.column
    return 2
