"""What a guide tells its reader to do: blocks of shell commands, and what is shown below them. Pure.

A block ``sh`` is for every reader, ``sh WAY`` for those who go that way; one whose first line is ``# not run by the
test: …`` is for nobody here. A block ``text`` shows what the commands above it print: each of its lines, in that order,
among what else they print. Columns may be of any width, ages are any age, and ``…`` is any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

NOT_RUN: Final = "# not run by the test: "
ANY: Final = "…"
_FENCE: Final = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_AGE: Final = re.compile(r"(?<!\S)\d+(s|m|h|m\d+s)(?!\S)")


@dataclass(frozen=True)
class Block:
    """``line``: where it begins on the page. ``shown``: the lines of the block ``text`` below it, if there is one."""

    line: int
    commands: str
    way: str
    shown: tuple[str, ...] = ()

    def missing(self, printed: str) -> str | None:
        """The first of the lines shown that isn't printed after those before it."""
        rest = iter([comparable(line) for line in printed.splitlines()])

        def follows(line: str) -> bool:
            pattern = ".*".join(re.escape(part.strip()) for part in comparable(line).split(ANY))
            return any(re.fullmatch(pattern, line) for line in rest)

        return next((line for line in self.shown if not follows(line)), None)


def comparable(line: str) -> str:
    return " ".join(_AGE.sub("AGE", line).split())


def blocks(page: str) -> tuple[Block, ...]:
    """All blocks of commands that are to be run, in order. Raises ValueError for one ``text`` without commands above
    it."""
    result: list[Block] = []
    runs = False
    for fence in _FENCE.finditer(page):
        kind, _, way = fence["info"].partition(" ")
        line = page.count("\n", 0, fence.start()) + 1
        if kind == "sh":
            runs = not fence["text"].startswith(NOT_RUN)
            if runs:
                result.append(Block(line, fence["text"], way))
        elif kind == "text":
            if not runs:
                raise ValueError(f"line {line}: nothing that is run is above this output")
            last = result.pop()
            result.append(Block(last.line, last.commands, last.way, tuple(fence["text"].splitlines())))
    return tuple(result)


def of_way(all_blocks: Iterable[Block], way: str) -> tuple[Block, ...]:
    return tuple(block for block in all_blocks if block.way in ("", way))
