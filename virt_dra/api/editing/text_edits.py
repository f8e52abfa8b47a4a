"""Edits of a text: what replaces which characters. Edits of one text never overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from virt_dra.api.editing.changes import CannotChange


class OverlappingEdits(CannotChange):
    """Two changes can only be made one after the other."""


@dataclass(frozen=True, order=True)
class TextEdit:
    """``text`` replaces the characters from ``start`` up to ``end``; nothing is replaced if they are equal."""

    start: int
    end: int
    text: str


def in_order(edits: Iterable[TextEdit]) -> list[TextEdit]:
    """The edits by their places; insertions at one place keep their order. Raises :class:`OverlappingEdits`."""
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    for before, after in pairwise(ordered):
        if after.start < before.end:
            raise OverlappingEdits("two changes concern the same text")
    return ordered


def edited(text: str, edits: Sequence[TextEdit]) -> str:
    """The text after edits that are in order."""
    parts: list[str] = []
    position = 0
    for edit in edits:
        parts += (text[position : edit.start], edit.text)
        position = edit.end
    return "".join((*parts, text[position:]))


def joined(first: Sequence[TextEdit], second: Sequence[TextEdit]) -> list[TextEdit]:
    """The edits that do what two lists do in turn. ``second``: in the text that ``first`` makes. Both are in order."""
    pieces = _pieces(first)
    result: list[_Piece] = []
    number, offset = 0, 0
    for edit in second:
        while number < len(pieces) and offset + pieces[number].length <= edit.start:
            result.append(pieces[number])
            offset += pieces[number].length
            number += 1
        if number < len(pieces) and offset < edit.start:
            head, pieces[number] = pieces[number].split(edit.start - offset)
            result.append(head)
            offset = edit.start
        while number < len(pieces) and offset + pieces[number].length <= edit.end:
            offset += pieces[number].length
            number += 1
        if number < len(pieces) and offset < edit.end:
            _, pieces[number] = pieces[number].split(edit.end - offset)
            offset = edit.end
        result.append(_Piece(0, len(edit.text), edit.text))
    return _edits([*result, *pieces[number:]])


_REST = 1 << 62
"""Stands for the length of what follows the last edit."""


@dataclass(frozen=True)
class _Piece:
    """A part of an edited text: new, or (``text`` is None) ``length`` characters of the original from ``start``."""

    start: int
    length: int
    text: str | None

    def split(self, at: int) -> tuple[_Piece, _Piece]:
        if self.text is None:
            return _Piece(self.start, at, None), _Piece(self.start + at, self.length - at, None)
        return _Piece(0, at, self.text[:at]), _Piece(0, self.length - at, self.text[at:])


def _pieces(edits: Sequence[TextEdit]) -> list[_Piece]:
    pieces: list[_Piece] = []
    position = 0
    for edit in edits:
        pieces += (_Piece(position, edit.start - position, None), _Piece(0, len(edit.text), edit.text))
        position = edit.end
    return [*pieces, _Piece(position, _REST - position, None)]


def _edits(pieces: Iterable[_Piece]) -> list[TextEdit]:
    edits: list[TextEdit] = []
    position = 0
    new: list[str] = []
    for piece in pieces:
        if piece.text is not None:
            new.append(piece.text)
        elif piece.length:
            if new or piece.start > position:
                edits.append(TextEdit(position, piece.start, "".join(new)))
            position, new = piece.start + piece.length, []
    return [edit for edit in edits if edit.start < edit.end or edit.text]
