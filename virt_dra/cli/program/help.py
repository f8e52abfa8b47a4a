"""``virt-dra help``: the help of the program or of a command, and the options that several commands have."""

from __future__ import annotations

from collections.abc import Iterator

import click

from virt_dra.cli.completion.option_table import read_table
from virt_dra.cli.shared.option_table import OPTIONS, OptionGroup, SharedOption

EPILOG = """\b
Examples:
  virt-dra help
  virt-dra help explain
  virt-dra help options    those that several commands have, with the commands

\b
Exit codes: 0 shown; 2 there is no such command.
"""
_ALL_OPTIONS = "options"


@click.command(name="help", epilog=EPILOG)
@click.argument("name", metavar="[COMMAND|options]", default="")
@click.pass_context
def command(context: click.Context, name: str) -> None:
    """Show the help of the program or of a command, as --help does, or the options that several commands have."""
    program = context.find_root()
    group = program.command
    assert isinstance(group, click.Group)
    if not name:
        click.echo(program.get_help())
        return
    if name == _ALL_OPTIONS:
        click.echo(_options_help(program))
        return
    resolved, named, _ = group.resolve_command(program, [name])
    assert named is not None
    with click.Context(named, info_name=resolved, parent=program, **named.context_settings) as named_context:
        click.echo(named.get_help(named_context))


def _options_help(program: click.Context) -> str:
    formatter = program.make_formatter()
    formatter.write_text("Options that mean the same in every command that has them; its --help says the details.")
    for group in OptionGroup:
        with formatter.section(group):
            formatter.write_dl([_row(row) for row in OPTIONS.values() if row.group is group])
    return formatter.getvalue().rstrip("\n")


def _row(row: SharedOption) -> tuple[str, str]:
    names = ", ".join(filter(None, (row.short, row.name)))
    meaning, space, default = row.meaning.partition("  [")
    commands = f"In {', '.join(_commands_with(row.name))}."
    return f"{names} {row.metavar or ''}".rstrip(), f"{meaning} {commands}{space}{default}"


def _commands_with(option: str) -> Iterator[str]:
    """The commands, by the table of completion: importing every command would take a second."""
    table = read_table()
    context = click.Context(table)
    for name in table.list_commands(context):
        command = table.get_command(context, name)
        if command is not None and any(option in parameter.opts for parameter in command.params):
            yield name
