"""Edits of a text as a unified diff, made without a search: the cost is linear in text and edits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from virt_dra.api.editing.text_edits import TextEdit, edited

CONTEXT = 3
"""Lines before and after a change."""


@dataclass(frozen=True)
class _Region:
    """Lines from ``first`` up to ``last`` (not included), and what replaces them."""

    first: int
    last: int
    lines: tuple[str, ...]


class DiffedText:
    """A text whose lines are found once, for any number of diffs."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def lines(self) -> list[str]:
        return _lines(self.text)

    @cached_property
    def starts(self) -> list[int]:
        """The positions at which lines begin, and the end of the text."""
        return [0, *accumulate(map(len, self.lines))]

    def unified_diff(self, name: str, edits: Sequence[TextEdit]) -> str:
        """The diff of what edits in order make of it; "" without one. Lines end with a newline; other breaks stay."""
        regions = list(_together(_regions(self, edits)))
        if not regions:
            return ""
        parts = [f"--- {name}\n+++ {name}\n"]
        shift = 0
        for hunk in _hunks(regions):
            first, last = max(hunk[0].first - CONTEXT, 0), min(hunk[-1].last + CONTEXT, len(self.lines))
            new = sum(len(region.lines) - (region.last - region.first) for region in hunk)
            parts.append(f"@@ -{_range(first, last - first)} +{_range(first + shift, last - first + new)} @@\n")
            position = first
            for region in hunk:
                parts += _marked(" ", self.lines[position : region.first])
                parts += _marked("-", self.lines[region.first : region.last])
                parts += _marked("+", region.lines)
                position = region.last
            parts += _marked(" ", self.lines[position:last])
            shift += new
        return "".join(parts)


def _lines(text: str) -> list[str]:
    """The lines of a text with their newlines; other line breaks are characters of a line, as for ``patch``."""
    lines = text.split("\n")
    ended = [f"{line}\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended


def _regions(diffed: DiffedText, edits: Sequence[TextEdit]) -> Iterator[_Region]:
    """The lines that edits touch, without those that stay the same."""
    text, lines, starts = diffed.text, diffed.lines, diffed.starts
    groups: list[tuple[int, int, list[TextEdit]]] = []
    for edit in edits:
        first, last = (min(bisect_right(starts, place) - 1, max(len(lines) - 1, 0)) for place in (edit.start, edit.end))
        if groups and first <= groups[-1][1]:
            before, until, of_group = groups[-1]
            of_group.append(edit)
            groups[-1] = (before, max(until, last), of_group)
        else:
            groups.append((first, last, [edit]))
    for first, last, of_group in groups:
        begin, end = starts[first], starts[min(last + 1, len(lines))]
        new = _lines(
            edited(text[begin:end], [TextEdit(edit.start - begin, edit.end - begin, edit.text) for edit in of_group])
        )
        old = lines[first : last + 1]
        head = 0
        while head < min(len(old), len(new)) and old[head] == new[head]:
            head += 1
        tail = 0
        while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        if len(old) - tail > head or len(new) - tail > head:
            yield _Region(first + head, first + len(old) - tail, tuple(new[head : len(new) - tail]))


def _together(regions: Iterator[_Region]) -> Iterator[_Region]:
    """Regions that follow each other immediately are one: what goes is shown before what comes."""
    before: _Region | None = None
    for region in regions:
        if before is not None and before.last == region.first:
            before = _Region(before.first, region.last, before.lines + region.lines)
            continue
        if before is not None:
            yield before
        before = region
    if before is not None:
        yield before


def _hunks(regions: Sequence[_Region]) -> Iterator[list[_Region]]:
    """Regions so close that their contexts touch are in one hunk."""
    hunk: list[_Region] = []
    for region in regions:
        if hunk and region.first - hunk[-1].last > 2 * CONTEXT:
            yield hunk
            hunk = []
        hunk.append(region)
    if hunk:
        yield hunk


def _range(first: int, length: int) -> str:
    """A range as in a hunk's head: lines count from 1, and an empty range is named by the line before it."""
    start = first + 1 if length else first
    return str(start) if length == 1 else f"{start},{length}"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"{mark}{line}"
        if not line.endswith("\n"):
            yield "\n\\ No newline at end of file\n"
