"""Output for people, with everything unprintable escaped: text that users wrote can't control the terminal.

Names, messages and paths may contain escape sequences, bells, bidirectional overrides or rich's markup. All text for
people goes through this module, which shows unprintable characters as escapes. Documents (JSON, YAML) have escapes of
their own, see ``output``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

import click

from virt_dra.api.go_text import visible
from virt_dra.cli.shared.workflow_log import in_workflow

if TYPE_CHECKING:
    from rich.console import Console

    from virt_dra.model.unknown import UnknownFact

_FORCED: Final = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"})
"""Variables by which rich takes any output for a terminal."""
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


def say_unknown(facts: Iterable[UnknownFact]) -> None:
    """Print on standard error what a verdict couldn't take into account, as a document's member ``unknown`` has it."""
    for fact in facts:
        say(str(fact), err=True)


def output_console() -> Console:
    """A console on standard output."""
    from virt_dra.cli.shared.quiet import QuietConsole  # here, since rich takes 30 ms to import

    console = QuietConsole(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _UNWRAPPED
    return console


@contextmanager
def progress(doing: str) -> Iterator[Callable[[int, int], None]]:
    """A progress line on standard error, where that is a terminal, with the time that is left by the pace so far; call
    what it yields with (done, total)."""
    if not _shown():
        yield lambda done, total: None
        return
    from rich.progress import (
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn()]
    columns += [TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn()]
    with Progress(*columns, console=_progress_console(), transient=True) as progress:
        task = progress.add_task(doing, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _shown() -> bool:
    """Whether progress can be seen; a workflow's log would only get its control sequences."""
    if in_workflow():
        return False
    return _progress_console().is_terminal if sys.stderr.isatty() or _FORCED & os.environ.keys() else False


def _progress_console() -> Console:
    """A console on standard error, for output that is removed when the work is done."""
    from virt_dra.cli.shared.quiet import QuietConsole

    return QuietConsole(stderr=True, highlight=False, markup=False, emoji=False)


def status(doing: str) -> AbstractContextManager[object]:
    """A status line on standard error while the context lasts, where that is a terminal."""
    if not _shown():
        return nullcontext()
    from rich.text import Text

    return _progress_console().status(Text(doing))
