"""Known values of options and arguments, which shells suggest."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

Suggesting = Callable[[click.Context, click.Parameter, str], list[str]]


def suggesting(values: Iterable[str]) -> Suggesting:
    """The ``shell_complete`` of a parameter. What completes reads the values from a table: see ``cli.completion``."""
    choices = list(values)
    return lambda context, parameter, incomplete: [value for value in choices if value.startswith(incomplete)]


def suggesting_switches(names: Iterable[str]) -> Suggesting:
    """The same for ``NAME=true,NAME=false,...``."""
    return suggesting(f"{name}={value}" for name in names for value in ("true", "false"))
