"""The table of all commands with their options, arguments and known values, and the commands that are made of it for
completion."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

Row = Mapping[str, Any]
"""An option or argument. ``names``: of an option, with dashes; ``flag``: it takes no value; ``values``: those that are
known; ``list``: several of them with commas between; ``path``: file or dir; ``many``: it may be repeated; ``help``."""

TABLE: Final = "options.json"


class _KnownText(click.types.StringParamType):
    """Any text; some values of it are known."""

    def __init__(self, row: Row) -> None:
        self._row = row

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        if path := self._row.get("path"):
            return [CompletionItem(incomplete, type=path)]
        before, comma, begun = incomplete.rpartition(",") if self._row.get("list") else ("", "", incomplete)
        given = before.split(",")
        return [
            CompletionItem(f"{before}{comma}{value}")
            for value in self._row.get("values", ())
            if value.lower().startswith(begun.lower()) and value not in given
        ]


class TableGroup(click.Group):
    """The program as the table knows it. A command is made when it is asked for; none can be invoked."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        super().__init__(
            "virt-dra", context_settings={"help_option_names": ["-h", "--help"]}, params=_parameters(table["options"])
        )
        self._table = table["commands"]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        row = self._table.get(cmd_name)
        return row and click.Command(cmd_name, short_help=row["help"], params=_parameters(row["options"]))


def _parameters(rows: Sequence[Row]) -> list[click.Parameter]:
    return [_parameter(f"p{number}", row) for number, row in enumerate(rows)]


def _parameter(name: str, row: Row) -> click.Parameter:
    kind = _KnownText(row)
    if "names" not in row:
        return click.Argument([name], type=kind, nargs=-1 if row.get("many") else 1, required=False)
    shape: dict[str, Any] = {"is_flag": True} if row.get("flag") else {"type": kind}
    return click.Option([name, *row["names"]], multiple=bool(row.get("many")), help=row.get("help"), **shape)


def read_table() -> TableGroup:
    """The program of the table that is part of this package."""
    return TableGroup(json.loads(files(__package__).joinpath(TABLE).read_text(encoding="utf-8")))
