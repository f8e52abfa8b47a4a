"""The positions of an object's fields in a YAML or JSON text: for excerpts and editors. A text that libyaml can't
compose, such as concatenated JSON, has no positions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import yaml

from virt_dra.api.reading.documents import DocumentSource

MAX_TEXT: Final = 2 * 1024 * 1024
"""Characters of a text that is composed for positions; a node takes a kilobyte."""
_PART: Final = re.compile(r"\[(?P<index>\d+)\]|\[(?P<quoted>\"(?:[^\"\\]|\\.)*\"|[^\]]*)\]|\.?(?P<name>[^.\[\]]+)")

PathStep = str | int


@dataclass(frozen=True)
class FieldPosition:
    """``line`` and ``column`` count from 1, in characters; ``length``: of what stands there on that line, at least 1.
    ``exact``: False where the field itself isn't there, and the position is that of what should have it."""

    line: int
    column: int
    length: int
    exact: bool = True


class SourceText:
    """One text, composed when the first position is asked for."""

    def __init__(self, text: bytes) -> None:
        self._bytes = text

    @cached_property
    def lines(self) -> list[str]:
        return self._bytes.decode("utf-8-sig", "replace").splitlines()

    def position(self, source: DocumentSource, field: str, *, of_name: bool = False) -> FieldPosition | None:
        """The position of a field; None if it can't be found. ``field``: ``spec.domain.devices.gpus[0].name``, "" for
        the object itself. ``of_name``: of its name, where it has one, in place of its value."""
        root = self._roots[source.document - 1] if source.document <= len(self._roots) else None
        if root is None:
            return None
        within: list[PathStep] = [] if source.item is None else ["items", source.item]
        steps = [*within, *steps_of(field)]
        node, exact = root, True
        key: yaml.Node | None = None
        for step in steps:
            child = _child(node, step)
            if child is None:
                exact = False
                break
            key, node = child
        at = node if key is None or (isinstance(node, yaml.ScalarNode) and not of_name) else key
        start, end = at.start_mark, at.end_mark
        length = end.column - start.column if end.line == start.line else len(self.lines[start.line]) - start.column
        return FieldPosition(start.line + 1, start.column + 1, max(length, 1), exact)

    @cached_property
    def _roots(self) -> Sequence[yaml.Node | None]:
        text = self._bytes.decode("utf-8-sig", "replace")
        if len(text) > MAX_TEXT:
            return ()
        try:
            return list(yaml.compose_all(text, Loader=_LOADER))
        except (yaml.YAMLError, RecursionError):
            return ()


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def steps_of(field: str) -> list[PathStep]:
    """The path's parts: names, and indices of lists; ``a.b[0][x.y/z].c`` has the key ``x.y/z``."""
    steps: list[PathStep] = []
    for part in _PART.finditer(field):
        if part["index"] is not None:
            steps.append(int(part["index"]))
        elif part["quoted"] is not None:
            steps.append(part["quoted"].strip('"'))
        else:
            steps.append(part["name"])
    return steps


def _child(node: yaml.Node, step: PathStep) -> tuple[yaml.Node, yaml.Node] | None:
    """What stands for the step, and its value."""
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        return (node.value[step], node.value[step]) if step < len(node.value) else None
    if isinstance(node, yaml.MappingNode):
        wanted = str(step)
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == wanted:
                return key, value
    return None
