"""Strict reading of JSON in annotations, which users may write or forge. Errors name field paths."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, Self

from pydantic import ConfigDict

from virt_dra.api.reading import json_text
from virt_dra.api.reading.document_error import DocumentError
from virt_dra.api.wire import Wire, WireError

MAX_BYTES: Final = 64 * 1024
"""The most bytes of an annotation that is read; ours have a few hundred."""


class AnnotationError(ValueError):
    """An annotation that can't be used. ``problems``: (path below it or "", message); ``field``: its path."""

    def __init__(self, field: str, problems: Iterable[tuple[str, str]]) -> None:
        self.field = field
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{joined(field, path)}: {message}" for path, message in self.problems))


class StrictWire(Wire):
    """A wire type without unknown fields."""

    model_config = ConfigDict(extra="forbid")


class AnnotationRecord(StrictWire):
    """A record of ours in an annotation. ``KEY``: the annotation's."""

    KEY: ClassVar[str]

    @classmethod
    def from_annotations(cls, annotations: Mapping[str, str]) -> Self | None:
        """The record among the annotations; None without one. Raises :class:`AnnotationError` with every fault."""
        text = annotations.get(cls.KEY)
        if text is None:
            return None
        field = f"metadata.annotations[{cls.KEY}]"
        try:
            record = cls.from_wire(parse(text, field))
        except WireError as error:
            raise AnnotationError(field, error.problems) from None
        if problems := list(record.faults()):
            raise AnnotationError(field, problems)
        return record

    def to_annotation(self) -> str:
        """JSON without spaces, keys in a fixed order."""
        return json.dumps(self.to_wire(), separators=(",", ":"), sort_keys=True)

    def faults(self) -> Iterable[tuple[str, str]]:
        """What is wrong with a record that has the right shape: (path, message)."""
        return ()


def joined(field: str, path: str) -> str:
    """``metadata.annotations[k]`` and ``gpu1.request`` -> ``metadata.annotations[k].gpu1.request``."""
    return f"{field}{'' if not path or path.startswith('[') else '.'}{path}"


def parse(text: str, field: str) -> object:
    """The one JSON value of an annotation. Raises :class:`AnnotationError`."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise AnnotationError(field, [("", f"is longer than {MAX_BYTES // 1024} KiB")])
    try:
        values = json_text.parse(text, field)
    except DocumentError as error:
        raise AnnotationError(field, [("", f"line {error.line}, column {error.column}: {error.message}")]) from None
    if len(values) != 1:
        raise AnnotationError(field, [("", f"must be one JSON value, not {len(values)}")])
    return values[0].value
