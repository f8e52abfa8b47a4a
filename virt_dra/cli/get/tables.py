"""Rows as text: a table, names, or CSV. Whatever users wrote has its unprintable characters escaped."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from virt_dra.api.go_text import visible
from virt_dra.cli.get.columns import RowColumn
from virt_dra.inventory.fields import InventoryRow

_GAP: Final = "   "
_FORMULA: Final = ("=", "+", "-", "@")
"""How a cell begins that a spreadsheet would calculate."""


class RowTable:
    """Lines of a table, whose columns are as wide as what has been written so far."""

    def __init__(self, columns: Sequence[RowColumn], *, headers: bool = True) -> None:
        self._columns = columns
        self._widths = [max(len(column.title) if headers else 0, column.least) for column in columns]
        self._begun = not headers

    def lines(self, rows: Iterable[InventoryRow], now: datetime, remark: str = "") -> list[str]:
        """The next lines, the first time with the titles. ``remark``: at the end of each line."""
        cells = [[visible(column.text(row, now)) or column.empty for column in self._columns] for row in rows]
        for listed in cells:
            self._widths = [
                len(cell) if len(cell) > width else width for cell, width in zip(listed, self._widths, strict=True)
            ]
        if not self._begun:
            cells.insert(0, [column.title for column in self._columns])
            self._begun = True
        end = f"{_GAP}{remark}" if remark else ""
        return [self._line(listed) + end for listed in cells]

    def _line(self, cells: Sequence[str]) -> str:
        return _GAP.join([cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True)]).rstrip()


def csv_lines(columns: Sequence[RowColumn], rows: Iterable[InventoryRow], *, titles: bool = True) -> str:
    """RFC 4180, with times as timestamps. A cell that a spreadsheet would take for a formula has an apostrophe in
    front."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if titles:
        writer.writerow([column.title for column in columns])
    for row in rows:
        writer.writerow([_harmless(visible(column.cell(row))) for column in columns])
    return text.getvalue()


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.lstrip().startswith(_FORMULA) else cell
