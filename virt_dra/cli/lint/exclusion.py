"""Which files of folders aren't linted: patterns as in a ``.gitignore``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from virt_dra.cluster.manifest_file import Excluded


def exclusion(patterns: Sequence[str], folders: Sequence[str], configured: Sequence[str], base: Path) -> Excluded:
    """True for the paths that a pattern names: ``patterns`` as if they stood in a ``.gitignore`` of each of the
    folders, ``configured`` in one of the folder ``base``. Raises UsageError for what is no pattern."""
    if not patterns and not configured:
        return lambda path: False
    from pathspec import GitIgnoreSpec  # here, since only a lint with patterns needs it

    def spec(lines: Sequence[str]) -> GitIgnoreSpec:
        try:
            return GitIgnoreSpec.from_lines(lines)
        except ValueError as error:
            raise click.UsageError(f"--exclude: {error}") from None

    rules = [(_absolute(base), spec(configured)), *((_absolute(name), spec(patterns)) for name in folders)]

    def excluded(path: str) -> bool:
        absolute = _absolute(path)
        end = "/" if path.endswith("/") else ""
        return any(
            rule.match_file(absolute.removeprefix(folder).lstrip("/") + end)
            for folder, rule in rules
            if absolute.startswith(f"{folder.rstrip('/')}/")
        )

    return excluded


def _absolute(path: str | Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - links are to stay, which Path.resolve follows
