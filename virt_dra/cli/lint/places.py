"""Where the faults of findings stand in the files of an input, and excerpts of them with a caret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from virt_dra.api.reading.documents import DocumentSource
from virt_dra.api.reading.positions import FieldPosition, SourceText
from webhooks.lint import LintFinding
from webhooks.lint.manifest import Identity
from webhooks.lint.registry import UNKNOWN_FIELD

_WIDTH: Final = 120
"""Characters of a line that an excerpt shows."""


class FindingPlaces:
    """The texts of an input by the names of their sources, and its objects. A text is composed when the first place in
    it is asked for. ``source``: of the object that has the finding."""

    def __init__(self, texts: Mapping[str, bytes], objects: Mapping[Identity, DocumentSource] | None = None) -> None:
        self._texts = {name: SourceText(text) for name, text in texts.items()}
        self._objects = objects or {}

    def field_position(
        self, source: DocumentSource, finding: LintFinding, field: str | None = None
    ) -> FieldPosition | None:
        """The place of a finding's field, or of another one: of its name where that is the fault. None for objects of a
        cluster, and for texts that have no positions."""
        text = self._texts.get(source.name)
        if text is None:
            return None
        return text.position(source, finding.field if field is None else field, of_name=finding.id == UNKNOWN_FIELD)

    def fault(self, source: DocumentSource, finding: LintFinding) -> DocumentSource:
        """The object with the fault, if that is another one of the input; else the one that has the finding."""
        return source if finding.at is None else self._objects.get(finding.at.identity, source)

    def position(self, source: DocumentSource, finding: LintFinding) -> FieldPosition | None:
        """The place of the fault in the text of :meth:`fault`."""
        elsewhere = finding.at if finding.at is not None and finding.at.identity in self._objects else None
        fault = self.fault(source, finding)
        at = self.field_position(fault, finding, elsewhere.field if elsewhere else None)
        if at is None or not at.exact or not finding.part:
            return at
        start, end = at.column - 1, at.column - 1 + at.length
        offset = self._texts[fault.name].lines[at.line - 1].find(finding.part, start, end)
        return at if offset < 0 else replace(at, column=offset + 1, length=len(finding.part))

    def excerpt(self, source: DocumentSource, finding: LintFinding, width: int = _WIDTH) -> Iterator[str]:
        """The line of the fault with its number, and a caret below it; empty if the position isn't known. ``width``:
        characters of a line that are shown at most."""
        at, source = self.position(source, finding), self.fault(source, finding)
        if at is None:
            return
        width = min(width, _WIDTH)
        line = self._texts[source.name].lines[at.line - 1].replace("\t", " ")
        start = max(min(at.column - 1, len(line) - 1) - width // 2, 0) if len(line) > width else 0
        shown = line[start : start + width]
        margin = len(str(at.line))
        caret = " " * (at.column - 1 - start) + "^" * max(min(at.length, len(shown) - (at.column - 1 - start)), 1)
        missing = "" if at.exact else "  the field belongs here"
        yield f"{' ' * margin} --> {source.name}:{at.line}:{at.column}"
        yield f"{at.line} | {shown}"
        yield f"{' ' * margin} | {caret}{missing}"
