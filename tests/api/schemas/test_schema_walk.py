"""What an API server makes of objects by their schema: unknown fields, pruning, faults."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampling import sample
from virt_dra.api.schemas.kubevirt_schema import QUANTITY
from virt_dra.api.schemas.walk import (
    LATER,
    PRESERVE,
    Schema,
    SchemaFault,
    UnknownSchemaField,
    conforms,
    faults,
    pruned,
    unknown_fields,
)
from virt_dra.api.wire import Json

NAMED: Json = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "size": QUANTITY, "mode": {"type": "string", "enum": ["A", "B"]}},
    LATER: {"newer": "1.9"},
}
STRUCTURAL: Json = {
    "type": "object",
    "required": ["items"],
    "properties": {
        "items": {
            "type": "array",
            "items": NAMED,
            "maxItems": 3,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "users": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "anything": {"type": "object", PRESERVE: True},
        "clock": {"type": "object", PRESERVE: True, "properties": {"zone": {"type": "string"}}},
        "empty": {"type": "object"},
        "count": {"type": "integer"},
        "on": {"type": "boolean"},
    },
}
SCHEMA = Schema.from_structural(STRUCTURAL)


@pytest.mark.parametrize(
    ("raw", "unknown"),
    [
        ({"items": [], "itens": 1}, [UnknownSchemaField("itens", "itens", "items")]),
        ({"items": [{"name": "a", "nmae": 1}]}, [UnknownSchemaField("items[0].nmae", "nmae", "name")]),
        ({"items": [{"name": "a", "newer": 1}]}, [UnknownSchemaField("items[0].newer", "newer", None, "1.9")]),
        ({"items": [], "empty": {"x": {"y": 1}}}, [UnknownSchemaField("empty.x", "x")]),
        ({"items": [], "labels": {"any/key": "x"}, "anything": {"a": {"b": 1}}, "clock": {"other": 1}}, []),
        ({"items": [], "": 1, "a b": 2}, [UnknownSchemaField("", ""), UnknownSchemaField("a b", "a b")]),
        ({"items": {"name": "not a list"}}, [UnknownSchemaField("items.name", "name")]),
        ({"items": [{"name": {"x": 1}}]}, [UnknownSchemaField("items[0].name.x", "x")]),
        ({"items": [], "empty": [{"x": 1}]}, [UnknownSchemaField("empty[0].x", "x")]),
        ({"items": [], "anything": [{"x": 1}]}, []),
    ],
)
def test_unknown_fields(raw: Json, unknown: list[UnknownSchemaField]) -> None:
    assert list(unknown_fields(raw, SCHEMA)) == unknown


def test_what_strict_validation_says_of_a_field() -> None:
    assert str(UnknownSchemaField("a.gpu", "gpu", "gpus")) == 'unknown field "a.gpu", did you mean "gpus"?'
    assert str(UnknownSchemaField("a.x", "x")) == 'unknown field "a.x"'
    assert (
        str(UnknownSchemaField("a.claim", "claim", None, "1.9"))
        == 'unknown field "a.claim"; it exists since KubeVirt 1.9'
    )


@pytest.mark.parametrize(
    ("raw", "wrong"),
    [
        ({}, [("FieldValueRequired", "items", "Required value")]),
        ({"items": None}, [("FieldValueRequired", "items", "Required value")]),
        ([], [("FieldValueInvalid", "", "must be an object, not a list")]),
        ({"items": {}}, [("FieldValueInvalid", "items", "must be a list, not an object")]),
        ({"items": [None]}, [("FieldValueInvalid", "items[0]", "must be an object, not null")]),
        ({"items": [{"name": ""}]}, []),
        ({"items": [{}]}, [("FieldValueRequired", "items[0].name", "Required value")]),
        (
            {"items": [{"name": True}]},
            [("FieldValueInvalid", "items[0].name", "must be a string, not a boolean; put it in quotes")],
        ),
        (
            {"items": [{"name": "a"}, {"name": "b"}, {"name": "a"}]},
            [("FieldValueDuplicate", "items[2]", 'Duplicate value: {"name":"a"}')],
        ),
        ({"items": [], "users": ["x", "y", "x"]}, [("FieldValueDuplicate", "users[2]", 'Duplicate value: "x"')]),
        (
            {"items": [{"name": n} for n in "abcd"]},
            [("FieldValueTooMany", "items", "Too many: 4: must have at most 3 items")],
        ),
        (
            {"items": [{"name": "a", "mode": "C"}]},
            [("FieldValueNotSupported", "items[0].mode", 'Unsupported value: "C": supported values: "A", "B"')],
        ),
        ({"items": [{"name": "a", "size": "2Gi"}, {"name": "b", "size": 2}]}, []),
        (
            {"items": [{"name": "a", "size": "2Gi\n"}]},
            [
                (
                    "FieldValueInvalid",
                    "items[0].size",
                    '"2Gi\\n" is not a quantity: write a number with an optional unit, such as 500m, 4 or 2Gi',
                )
            ],
        ),
        ({"items": [], "count": True}, [("FieldValueInvalid", "count", "must be an integer, not a boolean")]),
        ({"items": [], "count": 1.0}, [("FieldValueInvalid", "count", "must be an integer, not a number")]),
        ({"items": [], "count": 2**63}, [("FieldValueInvalid", "count", "must fit into 64 bits")]),
        ({"items": [], "labels": {"a": 1}}, [("FieldValueInvalid", "labels.a", "must be a string, not an integer")]),
        (
            {"items": [], "labels": {"a/b": 1}},
            [("FieldValueInvalid", "labels.a/b", "must be a string, not an integer")],
        ),
        (
            {"items": [], "clock": {"zone": 1, "x": 2}},
            [("FieldValueInvalid", "clock.zone", "must be a string, not an integer")],
        ),
        ({"items": [], "labels": {"a": None}, "on": None}, []),
    ],
)
def test_faults(raw: Json, wrong: list[tuple[str, str, str]]) -> None:
    reported = list(faults(raw, SCHEMA))
    assert reported == [SchemaFault(*fault) for fault in wrong]  # type: ignore[arg-type]  # the types are those of the table


@pytest.mark.parametrize(
    ("schema", "value", "left"),
    [
        ({"properties": {"a": {}}}, {"a": {"b": 1}, "c": 2}, {"a": {}}),
        ({PRESERVE: True}, [{"b": [1]}], [{"b": [1]}]),
        (
            {PRESERVE: True, "properties": {"a": {"properties": {}}}},
            {"a": {"b": 1}, "c": {"d": 2}},
            {"a": {}, "c": {"d": 2}},
        ),
        ({"additionalProperties": {"properties": {"x": {}}}}, {"k": {"x": 1, "y": 2}}, {"k": {"x": 1}}),
        ({"items": {"properties": {"x": {}}}}, [{"x": 1, "y": 2}], [{"x": 1}]),
        (
            {"properties": {"a": {"type": "string"}, "m": {"additionalProperties": {"type": "string"}}}},
            {"a": None, "m": {"k": None}},
            {"m": {}},
        ),
    ],
)
def test_pruning(schema: Json, value: object, left: object) -> None:
    before = copy.deepcopy(value)
    assert pruned(value, Schema.from_structural(schema)) == left
    assert value == before


_keys = st.sampled_from(
    ["items", "users", "labels", "anything", "clock", "empty", "count", "on", "name", "size", "mode", "zone", "x"]
)
_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.sampled_from(["A", "1Gi"])
)
_json: st.SearchStrategy[Any] = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4), max_leaves=12
)


@settings(max_examples=sample(300), deadline=None)
@given(_json)
def test_an_object_conforms_exactly_if_nothing_is_said_of_it(raw: Any) -> None:
    stored = pruned(raw, SCHEMA)
    silent = not list(unknown_fields(raw, SCHEMA)) and not list(faults(raw, SCHEMA))
    assert conforms(raw, SCHEMA) == (silent and stored == raw)


@settings(max_examples=sample(300), deadline=None)
@given(_json)
def test_what_is_stored_is_stored_again_as_it_is(raw: Any) -> None:
    stored = pruned(raw, SCHEMA)
    assert pruned(stored, SCHEMA) == stored
    assert not list(unknown_fields(stored, SCHEMA))
    assert list(faults(stored, SCHEMA)) == list(faults(raw, SCHEMA))


def test_twenty_thousand_unknown_fields_are_found_in_time() -> None:
    raw: Json = {"items": [], **{f"itemz{n}": 1 for n in range(20_000)}}
    began = time.process_time()
    reported = list(unknown_fields(raw, SCHEMA))
    assert time.process_time() - began < 2, "seconds of the processor"
    assert (len(reported), reported[0].nearest, reported[-1].nearest) == (20_000, "items", None)
