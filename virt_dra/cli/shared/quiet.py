"""The console that all tables, trees and progress lines are printed on. Imported when something is printed on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from virt_dra.cli.shared.console import visible_lines


class QuietConsole(Console):
    """A console that shows unprintable characters as escapes. It raises BrokenPipeError once its reader has gone, for
    ``endings``; rich itself would exit with code 1."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(visible_lines(segment.text), segment.style)

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError
