"""``virt-dra help``: the help of the program or of a command."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  virt-dra help
  virt-dra help explain

\b
Exit codes: 0 shown; 2 there is no such command.
"""


@click.command(name="help", epilog=EPILOG)
@click.argument("name", metavar="[COMMAND]", default="")
@click.pass_context
def command(context: click.Context, name: str) -> None:
    """Show the help of the program or of a command, as --help does."""
    program = context.find_root()
    group = program.command
    assert isinstance(group, click.Group)
    if not name:
        click.echo(program.get_help())
        return
    resolved, named, _ = group.resolve_command(program, [name])
    assert named is not None
    with click.Context(named, info_name=resolved, parent=program, **named.context_settings) as named_context:
        click.echo(named.get_help(named_context))
