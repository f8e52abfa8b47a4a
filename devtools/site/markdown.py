"""Markdown, written: escaped text, code, tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|#$~&])")
_TICKS: Final = re.compile(r"`+")


def escaped(text: str) -> str:
    """Text as it is: no character of it has a meaning."""
    return _SPECIAL.sub(r"\\\1", text)


def code(text: str) -> str:
    """A span of code on one line, whatever is in it; also in a table, where a bar would end the cell."""
    fence = "`" * (_longest(text) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}".replace("|", "\\|")


def code_block(text: str, language: str = "text") -> str:
    """A block of code, whatever is in it."""
    fence = "`" * max(3, _longest(text) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are Markdown already, on one line each."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _longest(text: str) -> int:
    return max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
