"""Rows of text in aligned columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def aligned(headings: Sequence[str], rows: Iterable[Sequence[str]], gap: str = "   ") -> list[str]:
    """A line for the headings and one for each row; the last column is as long as its text."""
    lines = [headings, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    return [gap.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
