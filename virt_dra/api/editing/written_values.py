"""New values as text: JSON beside JSON, flow style in a line, block style in lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from virt_dra.api.reading.yaml_scalars import plain_scalar

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9./_-]*")
_LINE: Final = 60
"""Characters of a mapping of scalars that is written in one line."""


def scalar(value: object, style: str = "") -> str:
    """A scalar in the quotes that another one has: ``"``, ``'`` or none, if it can be written without."""
    if not isinstance(value, str):
        return json.dumps(value)
    if style == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    if style != '"' and _PLAIN.fullmatch(value) and plain_scalar(value) == value:
        return value
    return json.dumps(value)


def flow(value: Any, style: str = "") -> str:
    """A value in one line. ``style``: the quote of all texts in it, ``"`` for JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(key, style)}: {flow(member, style)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(item, style) for item in value) + "]"
    return scalar(value, style)


def member_lines(name: str, value: Any, step: int, dashes: int) -> Iterator[str]:
    """The lines of ``name: value`` in block style. ``step``, ``dashes``: indents of members, of dashes."""
    if isinstance(value, list) and value and any(isinstance(item, dict) for item in value):
        yield f"{scalar(name)}:"
        for item in value:
            yield from (" " * dashes + line for line in item_lines(item, step, dashes))
    elif isinstance(value, dict) and value and (_has_inner(value) or len(flow(value)) > _LINE):
        yield f"{scalar(name)}:"
        for key, member in value.items():
            yield from (" " * step + line for line in member_lines(key, member, step, dashes))
    else:
        yield f"{scalar(name)}: {flow(value)}"


def item_lines(value: Any, step: int, dashes: int) -> Iterator[str]:
    """The lines of a list's item with its dash, in block style."""
    if not isinstance(value, dict) or not value:
        yield f"- {flow(value)}"
        return
    mark = "- "
    for key, member in value.items():
        for line in member_lines(key, member, step, dashes):
            yield mark + line
            mark = "  "


def _has_inner(value: dict[str, Any]) -> bool:
    return any(isinstance(member, dict | list) for member in value.values())
