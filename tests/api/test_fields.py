"""Every field of the Go API types exists in ours, with a type that reads the same JSON.

``fields-v0.37.2.json`` is what ``devtools/upstream/fields`` prints for k8s.io/api v0.37.2.
"""

from __future__ import annotations

import json
import types
import typing
from pathlib import Path

import pytest

from virt_dra.api import core_v1, meta, resource_v1
from virt_dra.api.quantity import Quantity
from virt_dra.api.wire import Wire

UPSTREAM: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "fields-v0.37.2.json").read_text())
SAME_JSON = {"int64": "int", "int32": "int", "Time": "string", "RawExtension": "any", "FieldsV1": "object"}


def class_named(name: str) -> type[Wire]:
    for module in (resource_v1, core_v1, meta):
        member = getattr(module, name, None)
        if member is not None:
            assert issubclass(member, Wire)
            return typing.cast("type[Wire]", member)
    pytest.fail(f"there is no type {name}")


def json_type(annotation: object) -> str:
    """``tuple[Str, ...] | None`` -> ``[string]``, in the notation of the file."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        (only,) = (argument for argument in arguments if argument is not type(None))
        return json_type(only)
    if origin is typing.Annotated:
        return json_type(arguments[0])
    if origin is tuple:
        return f"[{json_type(arguments[0])}]"
    if origin is dict:
        return "object" if arguments[1] is typing.Any else f"{{{json_type(arguments[1])}}}"
    if annotation is typing.Any:
        return "any"
    assert isinstance(annotation, type), annotation
    return {str: "string", bool: "bool", int: "int", Quantity: "Quantity"}.get(annotation, annotation.__name__)


def expected_type(upstream: str) -> str:
    inner = upstream.strip("[]{}")
    return upstream.replace(inner, SAME_JSON.get(inner, inner))


@pytest.mark.parametrize("name", sorted(UPSTREAM))
def test_a_type_has_every_upstream_field_with_its_json_type(name: str) -> None:
    ours = {
        field.serialization_alias or field.alias or "?": json_type(field.annotation)
        for field in class_named(name).model_fields.values()
    }
    wanted = {field: expected_type(kind) for field, kind in UPSTREAM[name].items()}
    assert {field: ours.get(field) for field in wanted} == wanted


def test_no_type_invents_a_field() -> None:
    invented = {
        name: extra
        for name, fields in UPSTREAM.items()
        if (extra := {field.alias for field in class_named(name).model_fields.values()} - set(fields))
    }
    assert invented == {}


def test_the_witness_covers_every_type_of_the_group() -> None:
    ours = {
        name
        for name, value in vars(resource_v1).items()
        if isinstance(value, type) and value.__module__ == resource_v1.__name__
    }
    assert ours == {
        name
        for name in UPSTREAM
        if hasattr(resource_v1, name) and getattr(resource_v1, name).__module__ == resource_v1.__name__
    }
