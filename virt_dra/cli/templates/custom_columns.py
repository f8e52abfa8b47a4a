"""kubectl's custom columns: titles, each with the path of a field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from virt_dra.api.go_text import quoted
from virt_dra.cli.templates.applying import JsonPath
from virt_dra.cli.templates.go_printing import sprint
from virt_dra.cli.templates.parsing import BadTemplate, relaxed

NONE = "<none>"


@dataclass(frozen=True)
class CustomColumns:
    """The columns in order."""

    titles: tuple[str, ...]
    paths: tuple[JsonPath, ...]

    @classmethod
    def parse(cls, text: str) -> CustomColumns:
        """``NAME:.metadata.name,NODE:.node``. Raises BadTemplate."""
        pairs = [part.partition(":") for part in text.split(",")]
        for title, colon, path in pairs:
            if not colon:
                raise BadTemplate(f"unexpected custom-columns spec: {title}, expected <header>:<json-path-expr>")
            if not path:
                raise BadTemplate(f"{quoted(title)} has no path")
        return cls._of([title for title, _, _ in pairs], [path for _, _, path in pairs])

    @classmethod
    def parse_file(cls, text: str) -> CustomColumns:
        """A line of titles and one of paths. Raises BadTemplate."""
        lines = text.splitlines()
        if len(lines) < 2:
            raise BadTemplate("expected a line of titles and a line of paths, with blanks between them")
        titles, paths = lines[0].split(), lines[1].split()
        if len(titles) != len(paths):
            raise BadTemplate(f"number of headers ({len(titles)}) and field specifications ({len(paths)}) don't match")
        return cls._of(titles, paths)

    @classmethod
    def _of(cls, titles: Sequence[str], paths: Sequence[str]) -> CustomColumns:
        return cls(tuple(titles), tuple(JsonPath.parse(relaxed(path)) for path in paths))


def cell_text(parts: Sequence[Sequence[Any]]) -> str:
    """The text of a cell, for the values of its path's parts."""
    values = [sprint(value) for part in parts for value in part]
    return ",".join(values if parts and parts[0] else [NONE, *values])
