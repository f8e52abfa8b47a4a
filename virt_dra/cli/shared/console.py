"""Output for people, with everything unprintable escaped: text that users wrote can't control the terminal.

Names, messages and paths may contain escape sequences, bells, bidirectional overrides or rich's markup. All text for people goes through
this module, which shows unprintable characters as escapes. Documents (JSON, YAML) have escapes of their own, see ``output``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from virt_dra.api.go_text import visible

_UNWRAPPED: Final = 100_000
"""Width where the output is no terminal: lines aren't wrapped, so that grep finds everything."""


def visible_lines(text: str) -> str:
    """The text with its newlines and tabs as they are, and other unprintable characters as escapes."""
    if text.isprintable():
        return text
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in text.split("\n"))


def say(text: str, *, err: bool = False) -> None:
    """Print one or more lines on standard output or standard error."""
    click.echo(visible_lines(text), err=err)


class _Quiet(Console):
    """A console that shows unprintable characters as escapes. It raises BrokenPipeError once its reader has gone, for ``endings``; rich
    itself would exit with code 1."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(visible_lines(segment.text), segment.style)

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def output_console() -> Console:
    """A console on standard output."""
    console = _Quiet(highlight=False, markup=False, emoji=False)
    return console if console.is_terminal else _Quiet(highlight=False, markup=False, emoji=False, width=_UNWRAPPED)


@contextmanager
def progress(doing: str) -> Iterator[Callable[[int, int], None]]:
    """A progress line on standard error, where that is a terminal; call what it yields with (done, total)."""
    console = _progress_console()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(doing, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _progress_console() -> Console:
    """A console on standard error, for output that is removed when the work is done."""
    return _Quiet(stderr=True, highlight=False, markup=False, emoji=False)


def status(doing: str) -> Status:
    """A status line on standard error while the context lasts, where that is a terminal."""
    return _progress_console().status(Text(doing))
