"""Strict reading of JSON in annotations, which users may write or forge. Errors name field paths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from virt_dra.api.reading import json_text
from virt_dra.api.reading.document_error import DocumentError

MAX_BYTES: Final = 64 * 1024
"""The most bytes of an annotation that is read; ours have a few hundred."""


class AnnotationError(ValueError):
    """An annotation that can't be used. ``problems``: (path below the annotation or "", message); ``field``: the
    annotation's path."""

    def __init__(self, field: str, problems: Iterable[tuple[str, str]]) -> None:
        self.field = field
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{joined(field, path)}: {message}" for path, message in self.problems))


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
