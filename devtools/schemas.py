"""The JSON Schemas of what commands write, made of the types of the documents: ``python -m devtools.schemas`` renews
``docs/schemas``. A type is a TypedDict; mypy holds the code that makes the document to it."""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from devtools.output_kinds import ANSWER, LINE, OUTPUTS, OutputKind
from virt_dra.api.wire import Json
from virt_dra.cli.documents.heads import OUTPUT_VERSION

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
    definitions: dict[str, Json] = {}
    choices = [_object(type_, kind, definitions) for kind, type_ in output.documents]
    root = choices[0] if len(choices) == 1 else {"anyOf": choices}
    whole: Json = {"$schema": _DIALECT, "title": output.title, **root}
    return whole | ({"$defs": dict(sorted(definitions.items()))} if definitions else {})


def _object(type_: Any, kind: str, definitions: dict[str, Json]) -> Json:
    """The schema of a TypedDict. ``kind``: of the document that it is; LINE also for a part of one."""
    members = get_type_hints(type_, include_extras=True)
    described = _descriptions(type_)
    head = _head(kind)
    properties: Json = dict(head)
    required = list(head)
    for name, hint in members.items():
        if get_origin(hint) is NotRequired:
            (hint,) = get_args(hint)
        else:
            required.append(name)
        properties[name] = _schema(hint, definitions) | ({"description": described[name]} if name in described else {})
    text = {"description": one_line(type_.__doc__)} if type_.__doc__ else {}
    return {
        **text, "type": "object", "additionalProperties": False, "required": required, "properties": properties,
    }  # fmt: skip


def _head(kind: str) -> Json:
    if kind == LINE:
        return {}
    if kind == ANSWER:
        return {"id": {"description": "That of the request."}}
    return {"apiVersion": {"const": OUTPUT_VERSION}, "kind": {"const": kind}}


def _schema(hint: Any, definitions: dict[str, Json]) -> Json:
    if hint is Any:
        return {}
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    if is_typeddict(hint):
        name = hint.__name__.removesuffix("Json").lstrip("_")
        name = name[0].lower() + name[1:]
        if name not in definitions:
            definitions[name] = {}  # a type that has itself
            definitions[name] = _object(hint, LINE, definitions)
        return {"$ref": f"#/$defs/{name}"}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (list, Sequence):
        return {"type": "array", "items": _schema(parts[0], definitions)}
    if origin in (dict, Mapping):
        values = _schema(parts[1], definitions)
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    if origin in (Union, UnionType):
        if all(part in _SIMPLE for part in parts):
            return {"type": [_SIMPLE[part] for part in parts]}
        return {"anyOf": [_schema(part, definitions) for part in parts]}
    raise TypeError(f"{hint} has no schema")


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
