"""Shared by the readers of JSON and YAML: the error with its place, one parsed value, and the limit on nesting."""

from __future__ import annotations

from dataclasses import dataclass

MAX_DEPTH = 200
"""Deeper nesting is refused: no manifest needs it, and everything after reading may recurse safely."""


class DocumentError(ValueError):
    """A text that can't be read. ``source`` is the name of the text; line, column and document count from 1.

    ``final``: reading the text as the other language would fail, too. ``unrendered``: it is a template that was not
    rendered.
    """

    def __init__(
        self,
        source: str,
        line: int,
        column: int,
        message: str,
        document: int = 1,
        *,
        final: bool = False,
        unrendered: bool = False,
    ) -> None:
        self.source = source
        self.line = line
        self.column = column
        self.document = document
        self.message = message
        self.final = final
        self.unrendered = unrendered
        super().__init__(f"{source}: line {line}, column {column}, document {document}: {message}")


@dataclass(frozen=True)
class Parsed:
    """A JSON value, ``None`` if empty. ``length``: in characters of text; ``expanded``: aliases were followed."""

    value: object
    line: int
    document: int
    length: int
    expanded: bool = False
    item_lines: tuple[int, ...] = ()
    """The line of each entry of a top-level ``items`` list, where known."""


def too_deep(name: str, line: int, column: int, document: int) -> DocumentError:
    message = f"nested more than {MAX_DEPTH} levels deep; no Kubernetes object needs that"
    return DocumentError(name, line, column, message, document, final=True)


def limit_depth(parsed: Parsed, name: str) -> None:
    """Refuses a value nested more than ``MAX_DEPTH`` levels deep, by a :class:`DocumentError`."""
    if is_deeper(parsed.value, MAX_DEPTH):
        raise too_deep(name, parsed.line, 1, parsed.document)


def is_deeper(value: object, levels: int) -> bool:
    """Whether lists and objects nest more than so many levels deep, the value's included. Does not recurse."""
    level = [value]
    for _ in range(levels):
        level = [
            inner
            for value in level
            for inner in (value.values() if type(value) is dict else value if type(value) is list else ())
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True
