"""Scenarios: what to ask an API server, each a few requests in order, on names of their own.

Each line of ``*.jsonl`` is a scenario, ``{"id", "steps"}``, or a family of them, ``{"family", "steps", "values": {WORD:
VALUE}}``: a scenario FAMILY/WORD for each word, with the value in the place of ``$value``. In a text ``${x * 300}``
stands for 300 times the character.

A step is a request (see ../steps.py). ``base`` takes the object another step was answered with and ``change`` merges
into it, so that updates carry the uid and resourceVersion that the server in question gave. ``${0.metadata.uid}`` in a
text is such a value, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Scenario = tuple[str, list[Json]]

_REPEATED = re.compile(r"\$\{(.) \* (\d+)\}", re.DOTALL)


def scenarios() -> Iterator[Scenario]:
    for line in _lines():
        if "id" in line:
            yield line["id"], line["steps"]
        else:
            for word, value in line["values"].items():
                yield f"{line['family']}/{word}", _with_value(line["steps"], value)


@cache
def family(name: str) -> dict[str, Any]:
    """The values of a family by their words."""
    values: dict[str, Any] = next(line["values"] for line in _lines() if line.get("family") == name)
    return values


@cache
def _lines() -> tuple[Json, ...]:
    files = sorted(Path(__file__).parent.glob("*.jsonl"))
    texts = (text for file in files for text in file.read_text(encoding="utf-8").strip("\n").split("\n"))
    return tuple(_written_out(json.loads(text)) for text in texts)


def _written_out(value: Any) -> Any:
    if isinstance(value, str):
        return _REPEATED.sub(lambda match: match[1] * int(match[2]), value) if "${" in value else value
    if isinstance(value, dict):
        return {_written_out(key): _written_out(item) for key, item in value.items()}
    return [_written_out(item) for item in value] if isinstance(value, list) else value


def _with_value(template: Any, value: Any) -> Any:
    if template == "$value":
        return value
    if isinstance(template, dict):
        return {key: _with_value(item, value) for key, item in template.items()}
    return [_with_value(item, value) for item in template] if isinstance(template, list) else template
