"""Where the fields of findings stand in the files of an input, and excerpts of them with a caret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from virt_dra.api.reading.documents import DocumentSource
from virt_dra.api.reading.positions import FieldPosition, SourceText

_WIDTH: Final = 120
"""Characters of a line that an excerpt shows."""


class FindingPlaces:
    """The texts of an input by the names of their sources. A text is composed when the first place in it is asked
    for."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        self._texts = {name: SourceText(text) for name, text in texts.items()}

    def position(self, source: DocumentSource, field: str) -> FieldPosition | None:
        """None for objects of a cluster, and for texts that have no positions."""
        text = self._texts.get(source.name)
        return text.position(source, field) if text is not None else None

    def excerpt(self, source: DocumentSource, field: str) -> Iterator[str]:
        """The line of the field with its number, and a caret below it; empty if the position isn't known."""
        at = self.position(source, field)
        if at is None:
            return
        line = self._texts[source.name].lines[at.line - 1].replace("\t", " ")
        start = max(min(at.column - 1, len(line) - 1) - _WIDTH // 2, 0) if len(line) > _WIDTH else 0
        shown = line[start : start + _WIDTH]
        margin = len(str(at.line))
        caret = " " * (at.column - 1 - start) + "^" * max(min(at.length, len(shown) - (at.column - 1 - start)), 1)
        missing = "" if at.exact else "  the field belongs here"
        yield f"{' ' * margin} --> {source.name}:{at.line}:{at.column}"
        yield f"{at.line} | {shown}"
        yield f"{' ' * margin} | {caret}{missing}"
