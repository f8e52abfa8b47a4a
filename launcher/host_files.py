"""Reads files of /sys and /proc; what can't be read counts as missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

TEXT_MAX: Final = 64 * 1024
"""Bytes that are read of a file: the kernel's lists are shorter."""


def entries(folder: Path) -> Iterator[Path]:
    """The entries of a folder, by name; none of a folder that can't be read."""
    try:
        yield from sorted(folder.iterdir())
    except OSError:
        return


def text_of(path: Path) -> str:
    """The beginning of a file, without white space around it; "" for a file that can't be read."""
    try:
        with path.open("rb") as file:
            return file.read(TEXT_MAX).decode(errors="replace").strip()
    except OSError:
        return ""
