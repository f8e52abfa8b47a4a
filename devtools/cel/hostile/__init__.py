"""Expressions made to take long: found by the search (``python -m devtools.cel.hostile``), kept as data, tried again by
the tests."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def worst(*names: str) -> list[str]:
    """The expressions that are kept, one a line in ``*.txt``: all, or those of the files named (``evaluation``,
    ``compiling`` …).

    The API server accepts each of them as a selector.
    """
    files = sorted(FOLDER.glob("*.txt")) if not names else [FOLDER / f"{name}.txt" for name in names]
    return [line for file in files for line in file.read_text().splitlines() if line and not line.startswith("# ")]
