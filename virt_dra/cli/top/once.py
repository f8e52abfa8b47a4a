"""The terminal's contents as text, once."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.cli.top.contents import TABLES, TopContents

_GAP = "  "


def text_lines(contents: TopContents) -> Iterator[str]:
    """The title, then each table that has rows."""
    yield contents.title
    for name, titles in TABLES.items():
        rows = [row.cells for row in contents.tables[name]]
        if not rows:
            continue
        yield ""
        table = [titles, *rows]
        widths = [max(len(cells[column]) for cells in table) for column in range(len(titles))]
        for cells in table:
            yield _GAP.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
