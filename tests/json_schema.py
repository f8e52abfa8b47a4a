"""Whether a document is as one of ``docs/schemas`` says, by the keywords of JSON Schema that they use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

SCHEMAS: Final = Path(__file__).parents[1] / "docs" / "schemas"
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_KEYWORDS: Final = {"$ref", "anyOf", "type", "const", "enum", "required", "properties", "additionalProperties", "items"}
_TEXTS: Final = {"$schema", "$defs", "title", "description"}


def schema_named(name: str) -> dict[str, Any]:
    """The schema ``docs/schemas/<name>.schema.json``."""
    schema: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    return schema


def faults(value: Any, whole: dict[str, Any], part: dict[str, Any] | None = None) -> list[str]:
    """Where a value isn't as the schema says. ``part``: of the schema, where the value is part of a document."""
    return list(_faults(value, whole if part is None else part, whole, ""))


def _is(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean") == isinstance(value, bool)


def _faults(value: Any, schema: dict[str, Any], whole: dict[str, Any], path: str) -> Iterator[str]:
    assert schema.keys() <= _KEYWORDS | _TEXTS, f"{path}: a keyword that isn't checked"
    if "$ref" in schema:
        yield from _faults(value, whole["$defs"][schema["$ref"].removeprefix("#/$defs/")], whole, path)
    if "anyOf" in schema and all(any(_faults(value, choice, whole, path)) for choice in schema["anyOf"]):
        yield f"{path}: none of the choices"
    types = schema.get("type", ())
    if types and not any(_is(value, name) for name in ([types] if isinstance(types, str) else types)):
        yield f"{path}: not of type {types}"
        return
    if value not in schema.get("enum", [schema.get("const", value)]):
        yield f"{path}: {value!r} isn't allowed"
    if isinstance(value, dict):
        yield from (f"{path}.{name}: missing" for name in schema.get("required", ()) if name not in value)
        others = schema.get("additionalProperties", True)
        for name, member in value.items():
            if name in schema.get("properties", ()):
                yield from _faults(member, schema["properties"][name], whole, f"{path}.{name}")
            elif isinstance(others, dict):
                yield from _faults(member, others, whole, f"{path}.{name}")
            elif not others:
                yield f"{path}.{name}: unknown"
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from _faults(item, schema["items"], whole, f"{path}[{number}]")
