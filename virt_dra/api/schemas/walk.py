"""Strict decoding, pruning and validation by a structural schema (CustomResourceDefinition v1), as an API server does
them. Pure.

    schema = Schema.from_structural(structural)       # once per schema
    conforms(raw, schema)                # True if all of the below find nothing: the usual case, and fast
    unknown_fields(raw, schema)          # what strict field validation refuses, with the name that was probably meant
    pruned(raw, schema)                  # what is stored: without unknown fields, and without members that are null
    rewritten(raw, schema)               # what a mutating webhook in Go sends back: required scalars are never missing
    faults(raw, schema)                  # what is refused: types, required fields, values, duplicate keys of lists

An API server goes through this list in order (K-2.34): strict validation examines the object as it was sent, everything
else the pruned one. A member that is null is absent, as no field here is nullable; an item of a list that is null is of
the wrong type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, KeysView, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from virt_dra.api.nearest import nearest
from virt_dra.api.wire import JSON_TYPES, Json

LATER: Final = "x-virt-dra-later"
"""Key of a schema: fields that only a newer release of its kind has, with that release. Never sent to an API server."""
UNPROPOSED: Final = "x-virt-dra-unproposed"
"""Fields that are accepted and that no message proposes."""
ZEROS: Final = "x-virt-dra-zeros"
"""Required fields that a Go program always writes, with their zero values. Never sent to an API server."""
PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_NEAREST_SOUGHT: Final = 100
"""The most unknown fields of one object for which a similar name is searched."""

FaultType = Literal[
    "FieldValueInvalid", "FieldValueRequired", "FieldValueDuplicate", "FieldValueNotSupported", "FieldValueTooMany"
]


@dataclass(frozen=True)
class UnknownSchemaField:
    """A field that a schema doesn't have. ``nearest``: a known name like it; ``since``: the release that brought it, if
    known; ``below``: where, from the object that has it, a field of just this name may be: ``template.spec``."""

    path: str
    name: str
    nearest: str | None = None
    since: str | None = None
    below: str | None = None

    def __str__(self) -> str:
        """The text of strict field validation, and the field that was probably meant."""
        text = f'unknown field "{self.path}"'
        if self.since is not None:
            return f"{text}; it exists since KubeVirt {self.since}"
        return text if self.nearest is None else f'{text}, did you mean "{self.nearest}"?'


@dataclass(frozen=True)
class SchemaFault:
    """A fault for which an API server refuses an object."""

    type: FaultType
    path: str
    message: str


@dataclass(slots=True)
class Schema:
    """A structural schema, taken apart for fast walks. Made by :meth:`of`; not to be changed."""

    kind: str
    """``object``, ``array``, ``string``, ``integer``, ``number``, ``boolean``, ``int-or-string``; "": any value."""
    properties: Mapping[str, Schema]
    required: KeysView[str]
    rest: Schema | None
    """The schema of a map's values (``additionalProperties``)."""
    open: bool
    """Whether unknown fields are kept."""
    items: Schema | None
    keys: tuple[str, ...]
    """The fields that identify an item of a list of type map."""
    unique: bool
    """Whether a list is a set."""
    most: int | None
    values: tuple[str, ...]
    """The values that a string may have; () for any."""
    pattern: re.Pattern[str] | None
    later: Mapping[str, str]
    unproposed: frozenset[str]
    zeros: Mapping[str, str | int | bool]
    plain: type | None
    """The Python type of a value of which only the type is checked."""

    @classmethod
    def from_structural(cls, structural: Json) -> Schema:
        """Parse a schema; its shared parts stay shared."""
        return _schema(structural, {})


def _schema(source: Json, made: dict[int, Schema]) -> Schema:
    if id(source) in made:
        return made[id(source)]
    int_or_string = bool(source.get("x-kubernetes-int-or-string"))
    rest, items = source.get("additionalProperties"), source.get("items")
    closed_shape = "properties" in source or isinstance(rest, dict)
    shape = "object" if closed_shape else "array" if items is not None else ""
    kind = "int-or-string" if int_or_string else source.get("type", shape)
    schema = made[id(source)] = Schema(
        kind=kind,
        properties={
            name: _schema(property_schema, made) for name, property_schema in source.get("properties", {}).items()
        },
        required=dict.fromkeys(source.get("required", ())).keys(),
        rest=_schema(rest, made) if isinstance(rest, dict) else None,
        open=bool(source.get(PRESERVE)),
        items=_schema(items, made) if items is not None else None,
        keys=tuple(source.get("x-kubernetes-list-map-keys", ())),
        unique=source.get("x-kubernetes-list-type") == "set",
        most=source.get("maxItems"),
        values=tuple(source.get("enum", ())),
        pattern=re.compile(source["pattern"]) if int_or_string and "pattern" in source else None,
        later=source.get(LATER, {}),
        unproposed=frozenset(source.get(UNPROPOSED, ())),
        zeros=source.get(ZEROS, {}),
        plain=_PLAIN.get(kind) if "enum" not in source else None,
    )
    return schema


_PLAIN: Final[Mapping[str, type]] = {"string": str, "boolean": bool}


def conforms(value: object, schema: Schema) -> bool:
    """Whether a value has neither an unknown field nor a fault, and no member that is null."""
    kind = schema.kind
    if kind == "object":
        if type(value) is not dict:
            return False
        properties, rest = schema.properties, schema.rest
        for key, item in value.items():
            inner = properties.get(key, rest)
            if inner is None:
                if not schema.open:
                    return False
            elif inner.plain is not None:
                if type(item) is not inner.plain:
                    return False
            elif not conforms(item, inner):
                return False
        return schema.required <= value.keys()
    if kind == "array":
        if type(value) is not list or schema.items is None:
            return False
        for item in value:
            if not conforms(item, schema.items):
                return False
        if schema.most is not None and len(value) > schema.most:
            return False
        return not (schema.keys or schema.unique) or len(value) < 2 or _differ(value, schema)
    return _scalar_fault(value, schema) is None


def _differ(items: list[Any], schema: Schema) -> bool:
    """True if the items of a list that is a map or a set, and conform otherwise, have different keys."""
    if len(schema.keys) == 1:
        values = [item.get(schema.keys[0]) for item in items]
        if all(type(value) is str for value in values):
            return len(set(values)) == len(values)
    return next(_list_faults(items, "", schema), None) is None


def unknown_fields(raw: object, schema: Schema) -> Iterator[UnknownSchemaField]:
    """The unknown fields of an object, in the order of the document; the nearest name of the first hundred."""
    for count, (where, name, owner) in enumerate(_unknown(raw, schema, "")):
        since = owner.later.get(name) if owner else None
        if owner is None or since is not None or count >= _NEAREST_SOUGHT:
            yield UnknownSchemaField(where, name, None, since)
        else:
            proposed = [field for field in owner.properties if field not in owner.unproposed]
            yield UnknownSchemaField(where, name, nearest(name, proposed), None, _below(owner, name))


def _below(owner: Schema, name: str) -> str | None:
    """The first object in an object, or in one of its objects, that has a field."""
    inner = [(key, schema) for key, schema in owner.properties.items() if schema.kind == "object"]
    inner += [
        (f"{key}.{part}", schema)
        for key, outer in inner
        for part, schema in outer.properties.items()
        if schema.kind == "object"
    ]
    return next((path for path, schema in inner if name in schema.properties), None)


def _unknown(value: object, schema: Schema, path: str) -> Iterator[tuple[str, str, Schema | None]]:
    """Path, name and the schema that lacks it, if any: also in a value of the wrong type, as an API server does."""
    if isinstance(value, dict):
        for key, item in value.items():
            inner = schema.properties.get(key, schema.rest)
            where = _member(path, key)
            if inner is not None:
                yield from _unknown(item, inner, where)
            elif not schema.open:
                yield where, key, schema
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            yield from _unknown(item, schema.items, f"{path}[{index}]")
    elif isinstance(value, list) and not schema.open:
        for where, item in _objects_in(value, path):
            yield from ((_member(where, key), key, None) for key in item)


def _objects_in(items: list[Any], path: str) -> Iterator[tuple[str, Json]]:
    """The objects in a list, and in the lists in it, however deep."""
    todo = [(f"{path}[{index}]", item) for index, item in reversed(list(enumerate(items)))]
    while todo:
        where, item = todo.pop()
        if isinstance(item, dict):
            yield where, item
        elif isinstance(item, list):
            todo += [(f"{where}[{index}]", inner) for index, inner in reversed(list(enumerate(item)))]


def pruned(raw: Any, schema: Schema) -> Any:
    """The value as it is stored, without unknown fields. It isn't changed; the result may share parts with it."""
    if isinstance(raw, dict):
        kept = {}
        for key, item in raw.items():
            inner = schema.properties.get(key, schema.rest)
            if inner is None:
                if schema.open:
                    kept[key] = item
            elif item is not None:
                kept[key] = pruned(item, inner)
        return kept
    if isinstance(raw, list) and schema.items is not None:
        return [pruned(item, schema.items) for item in raw]
    if isinstance(raw, list) and not schema.open:
        return _emptied(raw)
    return raw


def rewritten(value: Any, schema: Schema) -> Any:
    """The value as a Go program writes it after reading it: with the zero value of each required string, number and
    boolean that is missing (K-2.36). The value itself isn't changed; the result may share parts with it."""
    if isinstance(value, dict):
        written = {}
        for key, item in value.items():
            inner = schema.properties.get(key, schema.rest)
            written[key] = item if inner is None else rewritten(item, inner)
        return {**written, **{key: zero for key, zero in schema.zeros.items() if key not in written}}
    if isinstance(value, list) and schema.items is not None:
        return [rewritten(item, schema.items) for item in value]
    return value


def _emptied(items: list[Any]) -> list[Any]:
    """A list that stands where the schema has none: no field of what is in it is known, however deep."""
    made: list[Any] = []
    todo = [(items, made)]
    while todo:
        given, kept = todo.pop()
        for item in given:
            if isinstance(item, list):
                inner: list[Any] = []
                kept.append(inner)
                todo.append((item, inner))
            else:
                kept.append({} if isinstance(item, dict) else item)
    return made


def faults(raw: object, schema: Schema, path: str = "") -> Iterator[SchemaFault]:
    """The faults of the value at ``path``, in the order of the schema, without unknown fields."""
    if schema.kind == "object":
        if not isinstance(raw, dict):
            yield _wrong_type(raw, "object", path)
            return
        for key in schema.required:
            if raw.get(key) is None:
                yield SchemaFault("FieldValueRequired", _member(path, key), "Required value")
        for key, item in raw.items():
            inner = schema.properties.get(key, schema.rest)
            if inner is not None and item is not None:
                yield from faults(item, inner, _member(path, key))
    elif schema.kind == "array":
        if not isinstance(raw, list) or schema.items is None:
            yield _wrong_type(raw, "array", path)
            return
        for index, item in enumerate(raw):
            yield from faults(item, schema.items, f"{path}[{index}]")
        yield from _list_faults(raw, path, schema)
    elif (fault := _scalar_fault(raw, schema)) is not None:
        type_, message = fault
        yield SchemaFault(type_, path, message)


def _list_faults(items: list[object], path: str, schema: Schema) -> Iterator[SchemaFault]:
    if schema.most is not None and len(items) > schema.most:
        yield SchemaFault("FieldValueTooMany", path, f"Too many: {len(items)}: must have at most {schema.most} items")
    if not schema.keys and not schema.unique:
        return
    seen: set[str] = set()
    for index, item in enumerate(items):
        shown = _identity(item, schema)
        if shown is None:
            continue
        if shown in seen:
            yield SchemaFault("FieldValueDuplicate", f"{path}[{index}]", f"Duplicate value: {shown}")
        seen.add(shown)


def _identity(item: object, schema: Schema) -> str | None:
    """The key of a list's item, as JSON; None for an item without one, which is a fault of its own."""
    value: object = item
    if schema.keys:
        if not isinstance(item, dict) or any(item.get(key) is None for key in schema.keys):
            return None
        value = {key: item[key] for key in sorted(schema.keys)}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


_NAMES: Final[Mapping[str, str]] = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "int-or-string": "a string or an integer",
}
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "int-or-string": (str, int),
}


def _wrong_type(value: object, wanted: str, path: str) -> SchemaFault:
    # Words such as y, no and on are booleans in YAML as Kubernetes reads it, which surprises whoever wrote a name.
    advice = "; put it in quotes" if wanted == "string" and isinstance(value, bool) else ""
    return SchemaFault(
        "FieldValueInvalid",
        path,
        f"must be {_NAMES[wanted]}, not {JSON_TYPES.get(type(value), type(value).__name__)}{advice}",
    )


def _scalar_fault(value: object, schema: Schema) -> tuple[FaultType, str] | None:
    kind = schema.kind
    if not kind:
        return None
    if type(value) not in _TYPES[kind]:
        return "FieldValueInvalid", _wrong_type(value, kind, "").message
    if kind == "integer" and isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "FieldValueInvalid", "must fit into 64 bits"
    if type(value) is str:
        if schema.values and value not in schema.values:
            supported = ", ".join(f'"{value}"' for value in schema.values)
            return "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {supported}"
        if schema.pattern is not None and not schema.pattern.fullmatch(value):
            return (
                "FieldValueInvalid",
                f"{_shown(value)} is not a quantity: write a number with an optional unit, such as 500m, 4 or 2Gi",
            )
    return None


def _shown(text: str) -> str:
    return json.dumps(text if len(text) <= 60 else f"{text[:57]}...", ensure_ascii=False)


def _member(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
