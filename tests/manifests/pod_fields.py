"""Every field of a kind, by the API server's OpenAPI document, each with a foreign value in an object that is there.

A field of an absent object is tried in an object made for it, an item of a list in the items that are there and
in one more. Required fields beside it are filled in.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
_DEEP = 12
"""Levels of objects; JSON schemas within a schema would go on for ever."""
_SCALARS = {"string": "foreign", "integer": 7, "number": 7, "boolean": True}


class Fields:
    """``components``: the schemas of an OpenAPI v3 document; ``kind``: the name of one."""

    def __init__(self, document: Json, kind: str) -> None:
        self._components: dict[str, Json] = document["components"]["schemas"]
        self._kind = kind

    def changed(self, obj: Json) -> Iterator[tuple[str, Json]]:
        """Path and object, for each field of the object's kind."""
        yield from self._values(self._components[self._kind], obj, "", 0)

    def shortened(self, obj: Any, path: str = "") -> Iterator[tuple[str, Any]]:
        """Path and object, for each field and item that the object has: without it."""
        for key, value in list(obj.items() if isinstance(obj, dict) else enumerate(obj)):
            here = _joined(path, key)
            rest = copy.copy(obj)
            del rest[key]
            yield f"-{here}", rest
            if isinstance(value, dict | list):
                for below, changed in self.shortened(value, here):
                    yield below, _with(obj, key, changed)

    def _values(self, schema: Json, value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
        """Path and value that may stand in the place of ``value``; None: nothing is there."""
        schema = self._resolved(schema)
        if depth > _DEEP:
            return
        if "properties" in schema:
            there = value if isinstance(value, dict) else self._least(schema, depth)
            if value is None:
                yield path, there
            for name, member in schema["properties"].items():
                for below, changed in self._values(member, there.get(name), _joined(path, name), depth + 1):
                    yield below, {**there, name: changed}
        elif "additionalProperties" in schema:
            least = self._least(schema["additionalProperties"], depth)
            yield f"{path}[+]", {**(value or {}), "foreign": least}
            for key in value or ():
                for _, changed in self._values(schema["additionalProperties"], value[key], path, depth + 1):
                    yield f"{path}[{key}]", {**value, key: changed}
        elif schema.get("type") == "array":
            for index, item in enumerate(value or ()):
                for below, changed in self._values(schema["items"], item, f"{path}[{index}]", depth + 1):
                    yield below, _with(value, index, changed)
            for below, item in self._values(schema["items"], None, f"{path}[+]", depth + 1):
                yield below, [*(value or ()), item]
        else:
            foreign = self._scalar(schema)
            yield path, (not value if isinstance(value, bool) else foreign)

    def _resolved(self, schema: Json) -> Json:
        while True:
            reference = schema.get("$ref") or next(
                (part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part), None
            )
            if reference is None:
                return schema
            schema = self._components[reference.rpartition("/")[2]]

    def _least(self, schema: Json, depth: int = 0) -> Any:
        """The least value of a schema: its required fields."""
        schema = self._resolved(schema)
        if "properties" in schema:
            required = schema.get("required", ())
            return {name: self._least(schema["properties"][name], depth + 1) for name in required}
        if "additionalProperties" in schema:
            return {}
        if schema.get("type") == "array":
            return [self._least(schema["items"], depth + 1)] if depth < _DEEP else []
        return self._scalar(schema)

    @staticmethod
    def _scalar(schema: Json) -> Any:
        if "oneOf" in schema:  # a quantity, or a number or a name of a port
            return "7"
        if schema.get("format") == "date-time":
            return "2020-01-01T00:00:00Z"
        return _SCALARS.get(schema.get("type", ""), {"foreign": "foreign"})


def _joined(path: str, key: str | int) -> str:
    return f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}".removeprefix(".")


def _with(container: Any, key: Any, value: Any) -> Any:
    changed = copy.copy(container)
    changed[key] = value
    return changed
