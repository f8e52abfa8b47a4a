"""The terminal of commands that draw trees and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_UNWRAPPED: Final = 100_000
"""Columns where the output is no terminal: nothing is broken, so that it can be searched."""


class _Quiet(Console):
    """A console that raises BrokenPipeError once its reader has gone, for ``cli.endings``; rich would exit with code 1."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def output_console() -> Console:
    """Standard output, on which what users wrote is text and nothing else."""
    console = _Quiet(highlight=False, markup=False, emoji=False)
    return console if console.is_terminal else _Quiet(highlight=False, markup=False, emoji=False, width=_UNWRAPPED)


@contextmanager
def progress(doing: str) -> Iterator[Callable[[int, int], None]]:
    """A line on standard error, where that is a terminal: what is done, and how much of it."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(doing, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
