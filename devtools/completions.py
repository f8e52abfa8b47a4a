"""``python -m devtools.completions``: writes the table of commands and options that shells' completion reads, from the
commands themselves.

A test compares the two: run this after any change of a command's options.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import click

from virt_dra.cli.completion.option_table import TABLE
from virt_dra.cli.main import SUBCOMMANDS, cli

PLACE: Final = Path(__file__).parent.parent / "virt_dra" / "cli" / "completion" / TABLE
_FILE: Final = re.compile(r"\b(?:FILE|CSV|KUBECONFIG)\b|\[?FILE\|DIR")
"""Metavars of texts that name a file."""


def table_text() -> str:
    """The table, with an option a line, so that changes of different options can be merged."""
    commands = []
    for name, entry in SUBCOMMANDS.items():
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        commands.append(
            f'{json.dumps(name)}: {{"help": {json.dumps(entry.summary)}, "options": [{_lines(command, "   ")}]}}'
        )
    return f'{{"options": [{_lines(cli, " ")}],\n "commands": {{\n  {f",{chr(10)}  ".join(commands)}\n }}\n}}\n'


def _lines(command: click.Command, indent: str) -> str:
    shown = (
        parameter for parameter in command.params if not (isinstance(parameter, click.Option) and parameter.hidden)
    )
    rows = [json.dumps(_row(parameter), ensure_ascii=False) for parameter in shown]
    return ",".join(f"\n{indent}{row}" for row in rows)


def _row(parameter: click.Parameter) -> dict[str, Any]:
    if not isinstance(parameter, click.Option):
        return {**_values(parameter), **({"many": True} if parameter.nargs == -1 else {})}
    row: dict[str, Any] = {"names": [*parameter.opts, *parameter.secondary_opts]}
    row |= {"flag": True} if parameter.is_flag or parameter.count else _values(parameter)
    return {
        **row,
        **({"many": True} if parameter.multiple else {}),
        **({"help": _first_sentence(parameter.help)} if parameter.help else {}),
    }


def _values(parameter: click.Parameter) -> dict[str, Any]:
    """What is known of the values."""
    metavar = parameter.metavar or ""
    completions = parameter.shell_complete(click.Context(click.Command("x")), "")
    if completions and completions[0].type in ("file", "dir"):
        return {"path": completions[0].type}
    if completions:
        return {"values": [item.value for item in completions], **({"list": True} if metavar.endswith(",...") else {})}
    return {"path": "file"} if _FILE.search(metavar) else {}


def _first_sentence(text: str) -> str:
    return re.split(r"\.\s+(?=[A-Z])|\.?  ?\[default|\.$", " ".join(text.split()), maxsplit=1)[0]


if __name__ == "__main__":
    PLACE.write_text(table_text(), encoding="utf-8")
