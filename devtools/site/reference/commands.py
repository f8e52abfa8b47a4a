"""Every command of ``virt-dra``: what it does, its arguments and options, examples and exit codes; all from click's own
objects."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final

import click

from devtools.site.markdown import code, code_block, escaped, table
from virt_dra.cli.main import cli

_INTRODUCTION: Final = """\
# Commands

Made of the commands themselves: `virt-dra COMMAND --help` prints the same. `kubectl virt-dra COMMAND` is the same
command once it is on the PATH.
"""
_AS_IT_STANDS: Final = "\b"
"""click's mark for a paragraph that is not wrapped."""


def commands_page() -> str:
    parts = [_INTRODUCTION, *_epilog(cli)]
    for name, command, context in all_commands():
        parts += [f"## {name}\n", *_command(command, context)]
    return "\n".join(parts)


def all_commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command that does something, by its whole name, groups left out."""
    yield from _within(cli, click.Context(cli, info_name="virt-dra", **cli.context_settings))


def _within(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            raise LookupError(f"{context.command_path} lists {name} and doesn't have it")
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _within(command, inner)
        else:
            yield inner.command_path, command, inner


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield code_block(" ".join((context.command_path, *command.collect_usage_pieces(context))))
    yield from _paragraphs(inspect.cleandoc(command.help or ""))
    records = [
        record for param in command.get_params(context) if (record := param.get_help_record(context)) is not None
    ]
    yield table(
        ("option", "meaning"), ((code(option), escaped(" ".join(meaning.split()))) for option, meaning in records)
    )
    yield from _epilog(command)


def _epilog(command: click.Command) -> Iterator[str]:
    """Examples as code, then sentences; exit codes under a name of their own."""
    text = inspect.cleandoc(command.epilog or "")
    for paragraph in re.split(r"\n\s*\n|^\x08\n|\n\x08\n", text):
        lines = paragraph.strip("\b\n").splitlines()
        if not lines:
            continue
        if lines[0] == "Examples:":
            examples = [line for line in lines[1:] if line.startswith("  ")]
            yield "Examples:\n"
            yield code_block(inspect.cleandoc("\n".join(examples)))
            lines = lines[1 + len(examples) :]
        for line in _sentences(lines):
            name, colon, rest = line.partition(": ")
            yield f"**{name}:** {escaped(rest)}\n" if colon and name == "Exit codes" else f"{escaped(line)}\n"


def _sentences(lines: list[str]) -> Iterator[str]:
    """Lines, each with those that continue it; exit codes begin a new one."""
    sentences: list[str] = []
    for line in lines:
        if sentences and not line.startswith("Exit codes: "):
            sentences[-1] = f"{sentences[-1]} {line.strip()}"
        else:
            sentences.append(line.strip())
    yield from sentences


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(_AS_IT_STANDS):
            yield code_block(paragraph.removeprefix(_AS_IT_STANDS).strip("\n"))
        elif paragraph.strip():
            yield escaped(" ".join(paragraph.split())) + "\n"
