"""The JSON Schemas of what commands write, made of the types of the documents: ``python -m devtools.schemas`` renews
``docs/schemas``. A type is a TypedDict; mypy holds the code that makes the document to it."""

from __future__ import annotations

import ast
import inspect
import json
import operator
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache, reduce
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Final, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from devtools.output_kinds import OUTPUTS, OutputKind
from virt_dra.api.wire import Json
from virt_dra.cli.documents.heads import HEAD, OUTPUT_VERSION
from virt_dra.cli.documents.rows import ROW_METADATA, row_member

FOLDER: Final = Path(__file__).parents[1] / "docs" / "schemas"
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_SIMPLE: Final[Mapping[Any, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}


def schema_text(name: str) -> str:
    """The file ``<name>.schema.json``."""
    return json.dumps(schema_of(OUTPUTS[name]), indent=2, ensure_ascii=False) + "\n"


def schema_of(output: OutputKind) -> Json:
    """The schema of one document, or of one of several kinds."""
    types = _Types(sparse=bool(output.rows))
    identity: Json = {"id": {"description": "That of the request."}} if output.answers else {}
    choices = [types.object(type_, _head(kind) | identity) for kind, type_ in output.documents]
    if output.rows:
        row = {"anyOf": [_as_kubernetes(choice) for choice in choices]}
        head = _head(output.rows)
        properties = head | {"items": {"type": "array", "items": {"$ref": "#/$defs/row"}}}
        listed: Json = {
            "type": "object", "additionalProperties": False, "required": list(properties), "properties": properties,
        }  # fmt: skip
        types.definitions["row"] = row
        choices = [listed, {"$ref": "#/$defs/row"}]
    root = choices[0] if len(choices) == 1 else {"anyOf": choices}
    whole: Json = {"$schema": _DIALECT, "title": output.title, **root}
    return whole | ({"$defs": dict(sorted(types.definitions.items()))} if types.definitions else {})


def _head(kind: str) -> Json:
    return {"apiVersion": {"const": OUTPUT_VERSION}, "kind": {"const": kind}}


def _as_kubernetes(row: Json) -> Json:
    """The schema of a row as :func:`~virt_dra.cli.documents.rows.row_document` writes it, of that of its members
    behind a head."""
    names = {"name": {"type": "string"}} | ({"namespace": {"type": "string"}} if _has_namespace(row) else {})
    metadata: Json = {"type": "object", "additionalProperties": False, "required": ["name"], "properties": names}
    head = {name: row["properties"][name] for name in HEAD}
    members = {name: value for name, value in row["properties"].items() if name not in (*HEAD, *ROW_METADATA)}
    required = [name for name in row["required"] if name not in (*HEAD, *ROW_METADATA)]
    return row | {"required": [*head, "metadata", *required], "properties": {**head, "metadata": metadata, **members}}


def _has_namespace(row: Json) -> bool:
    return "namespace" in row["properties"]


class _Types:
    """The schemas of types, and the ``definitions`` of those that are parts of others. ``sparse``: a member that may
    be null is left out instead."""

    def __init__(self, *, sparse: bool) -> None:
        self.definitions: dict[str, Json] = {}
        self._sparse = sparse

    def object(self, type_: Any, head: Mapping[str, Json] = MappingProxyType({})) -> Json:
        """The schema of a TypedDict. ``head``: the members that a document has before its own."""
        described = _descriptions(type_)
        properties: Json = dict(head)
        required = list(head)
        for member, hint in get_type_hints(type_, include_extras=True).items():
            name = row_member(member) if self._sparse and head else member
            optional = get_origin(hint) is NotRequired
            schema = self._schema(get_args(hint)[0] if optional else hint)
            if self._sparse and (present := _without_null(hint)) is not None:
                optional, schema = True, self._schema(present)
            if not optional:
                required.append(name)
            properties[name] = schema | ({"description": described[member]} if member in described else {})
        text = {"description": one_line(type_.__doc__)} if type_.__doc__ else {}
        return {
            **text, "type": "object", "additionalProperties": False, "required": required, "properties": properties,
        }  # fmt: skip

    def _schema(self, hint: Any) -> Json:
        if hint is Any:
            return {}
        if hint in _SIMPLE:
            return {"type": _SIMPLE[hint]}
        if is_typeddict(hint):
            name = hint.__name__.removesuffix("Json").lstrip("_")
            name = name[0].lower() + name[1:]
            if name not in self.definitions:
                self.definitions[name] = {}  # a type that has itself
                self.definitions[name] = self.object(hint)
            return {"$ref": f"#/$defs/{name}"}
        if isinstance(hint, type) and issubclass(hint, Enum):
            return {"enum": [member.value for member in hint]}
        origin, parts = get_origin(hint), get_args(hint)
        if origin is Literal:
            return {"enum": list(parts)}
        if origin in (list, Sequence):
            return {"type": "array", "items": self._schema(parts[0])}
        if origin in (dict, Mapping):
            values = self._schema(parts[1])
            return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
        if origin in (Union, UnionType):
            if all(part in _SIMPLE for part in parts):
                return {"type": [_SIMPLE[part] for part in parts]}
            return {"anyOf": [self._schema(part) for part in parts]}
        raise TypeError(f"{hint} has no schema")


def _without_null(hint: Any) -> Any:
    """The type without null; None for one that is never null."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else ()
    return reduce(operator.or_, [part for part in parts if part is not NoneType]) if NoneType in parts else None


@cache
def _descriptions(type_: Any) -> Mapping[str, str]:
    """The strings below the members of a TypedDict, as they stand in its source."""
    module = sys.modules[type_.__module__]
    tree = ast.parse(inspect.getsource(module))
    declared = next(
        (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == type_.__name__), None
    )
    described: dict[str, str] = {}
    if declared is None:  # TypedDict("…", {"for": …}), of members whose names are words of Python
        return described
    for base in declared.bases:
        inherited = vars(module).get(base.id) if isinstance(base, ast.Name) else None
        if is_typeddict(inherited):
            described |= _descriptions(inherited)
    for member, text in zip(declared.body, declared.body[1:], strict=False):
        if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name) and isinstance(text, ast.Expr):
            described[member.target.id] = one_line(ast.literal_eval(text.value))
    return described


def one_line(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    for name in OUTPUTS:
        (FOLDER / f"{name}.schema.json").write_text(schema_text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
