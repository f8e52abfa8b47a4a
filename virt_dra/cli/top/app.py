"""The terminal: three tables, a filter, sorting by a column, and the details of a row. It shows what it is given."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Input, Static

from virt_dra.api.counting import counted
from virt_dra.cli.top.contents import TABLES, TableName, TopContents, TopRow
from virt_dra.inventory.fields import natural

_MOST: Final = 500
"""Rows of a table; more are found by the filter."""
_WIDEST: Final = 200
"""Characters of a column."""
_TITLES: Final = {"vms": "VMs", "nodes": "Devices by node", "waiting": "Waiting"}

Feed = Callable[["TopApp"], AbstractAsyncContextManager[None]]
"""Calls :meth:`TopApp.show` and :meth:`TopApp.say` while it is open."""


class TopApp(App[None]):
    """``feed``: brings what is shown."""

    CSS = """
    #title, #tabs, #state { height: 1; }
    #tabs { text-style: bold; }
    #filter { height: 1; border: none; display: none; }
    #filter.open { display: block; }
    DataTable { height: 1fr; }
    #details { height: 40%; border-top: solid; display: none; }
    #details.open { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "table('vms')", "VMs"),
        Binding("2", "table('nodes')", "Devices"),
        Binding("3", "table('waiting')", "Waiting"),
        Binding("slash", "filter", "Filter"),
        Binding("s", "sort", "Sort"),
        Binding("r", "reverse", "Reverse"),
        Binding("enter", "details", "Details", priority=True),
        Binding("escape", "close", "Close"),
        Binding("q", "quit", "Quit"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self._feed = feed
        self._contents: TopContents | None = None
        self._table: TableName = "vms"
        self._order: dict[TableName, tuple[int, bool]] = {}
        """Column and whether it is reversed; a table without is in its own order."""
        self._rows: dict[str, TopRow] = {}

    def compose(self) -> ComposeResult:
        yield Static("reading the cluster", id="title", markup=False)
        yield Static("", id="tabs", markup=False)
        yield Input(placeholder="words that a row must have", id="filter")
        yield DataTable(cursor_type="row", zebra_stripes=False, id="rows")
        with VerticalScroll(id="details"):
            yield Static("", id="text", markup=False)
        yield Static("", id="state", markup=False)
        yield Footer()

    async def on_mount(self) -> None:
        self.query_one(DataTable).focus()
        self._draw(anew=True)
        self.run_worker(self._follow(), exclusive=True)

    async def _follow(self) -> None:
        import asyncio

        async with self._feed(self):
            await asyncio.Event().wait()

    # --- what is shown ----------------------------------------------------------------------------------------------

    def show(self, contents: TopContents) -> None:
        """Other contents. The row under the cursor stays under it."""
        self._contents = contents
        self._draw()

    def say(self, state: str) -> None:
        """A line about the state of the connection; "" while all is well."""
        self.query_one("#state", Static).update(state)

    @property
    def table(self) -> DataTable[Text]:
        return self.query_one("#rows", DataTable)

    def _draw(self, *, anew: bool = False) -> None:
        contents, table = self._contents, self.table
        current = self._current()
        column, reverse = self._order.get(self._table, (-1, False))
        names = [f"{number} {_TITLES[name]}" for number, name in enumerate(TABLES, 1)]
        position = list(TABLES).index(self._table)
        names[position] = f"[{names[position]}]"
        marked = "".join(
            f"  sorted by {TABLES[self._table][column]}{', reversed' if reverse else ''}" if column >= 0 else ""
        )
        self.query_one("#tabs", Static).update("   ".join(names) + marked)
        if contents is None:
            return
        rows = list(self._wanted(contents))
        shown = rows[:_MOST]
        more = f"   {counted(len(rows) - _MOST, 'more row')}: filter with /" if len(rows) > _MOST else ""
        self.query_one("#title", Static).update(contents.title + more)
        before = [(row.key, row.cells) for row in self._rows.values()]
        self._rows = {row.key: row for row in shown}
        if anew or before != [(row.key, row.cells) for row in shown] or not table.columns:
            table.clear(columns=True)
            for number, title in enumerate(TABLES[self._table]):
                width = max((len(row.cells[number]) for row in shown), default=0)
                table.add_column(title, width=min(max(width, len(title)), _WIDEST))
            for row in shown:
                table.add_row(*(Text(cell) for cell in row.cells), key=row.key)
            if current in self._rows:
                table.move_cursor(row=list(self._rows).index(current), animate=False)
        self._draw_details()

    def _wanted(self, contents: TopContents) -> list[TopRow]:
        words = self.query_one("#filter", Input).value.lower().split()
        rows = [
            row for row in contents.tables[self._table] if all(word in " ".join(row.cells).lower() for word in words)
        ]
        if self._table not in self._order:
            return rows
        column, reverse = self._order[self._table]
        return sorted(rows, key=lambda row: natural(row.cells[column]), reverse=reverse)

    def _current(self) -> str:
        row = self.table.cursor_row
        keys = list(self._rows)
        return keys[row] if 0 <= row < len(keys) else ""

    def _draw_details(self) -> None:
        row = self._rows.get(self._current())
        self.query_one("#text", Static).update("\n".join(row.details) if row is not None else "")

    def on_data_table_row_highlighted(self) -> None:
        self._draw_details()

    # --- keys -------------------------------------------------------------------------------------------------------

    def action_table(self, name: TableName) -> None:
        self._table = name
        self._draw(anew=True)

    def action_filter(self) -> None:
        entry = self.query_one("#filter", Input)
        entry.add_class("open")
        entry.focus()

    def action_sort(self) -> None:
        """By the next column; after the last one, in the table's own order."""
        column = self._order.get(self._table, (-1, False))[0] + 1
        if column < len(TABLES[self._table]):
            self._order[self._table] = (column, False)
        else:
            self._order.pop(self._table, None)
        self._draw(anew=True)

    def action_reverse(self) -> None:
        if self._table in self._order:
            column, reverse = self._order[self._table]
            self._order[self._table] = (column, not reverse)
            self._draw(anew=True)

    def action_details(self) -> None:
        if self.query_one("#filter", Input).has_focus:
            self.table.focus()
            return
        self.query_one("#details").toggle_class("open")
        self._draw_details()

    def action_close(self) -> None:
        """Closes what is open: the filter, which forgets its words, else the details."""
        entry = self.query_one("#filter", Input)
        if entry.has_class("open"):
            entry.value = ""
            entry.remove_class("open")
            self.table.focus()
        else:
            self.query_one("#details").remove_class("open")

    def on_input_changed(self) -> None:
        self._draw(anew=True)
