"""The terminal of commands that draw trees and tables."""

from __future__ import annotations

from typing import Final, NoReturn

from rich.console import Console

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
