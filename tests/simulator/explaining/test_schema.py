"""docs/schemas/explain.schema.json: real answers are as it says, and what it doesn't allow is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from tests.simulator.explaining.clusters import NAMESPACE, claim, gpu, node, objects, pod, user
from virt_dra.simulator.explaining.answer import ExplainedVerdict, answer_json, answered
from virt_dra.simulator.explaining.state import ClusterState
from virt_dra.simulator.explaining.subject import find_subject
from virt_dra.simulator.explaining.ways_out import Kind

SCHEMA: Final = json.loads((Path(__file__).parents[3] / "docs" / "schemas" / "explain.schema.json").read_text())
_TYPES: Final[dict[str, type]] = {"object": dict, "array": list, "string": str, "integer": int, "null": type(None)}
_KEYWORDS: Final = {"$ref", "anyOf", "type", "const", "enum", "required", "properties", "additionalProperties", "items"}
_TEXTS: Final = {"$schema", "$defs", "title", "description"}


def faults(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Where a value isn't as the schema says; of JSON Schema the keywords that this one uses."""
    assert schema.keys() <= _KEYWORDS | _TEXTS, f"{path}: a keyword that isn't checked"
    if "$ref" in schema:
        yield from faults(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], path)
    if "anyOf" in schema and all(any(faults(value, choice, path)) for choice in schema["anyOf"]):
        yield f"{path}: none of the choices"
    types = schema.get("type", ())
    if types and not isinstance(value, tuple(_TYPES[name] for name in ([types] if isinstance(types, str) else types))):
        yield f"{path}: not of type {types}"
        return
    if value not in schema.get("enum", [schema.get("const", value)]):
        yield f"{path}: {value!r} isn't allowed"
    if isinstance(value, dict):
        yield from (f"{path}.{name}: missing" for name in schema.get("required", ()) if name not in value)
        for name, member in value.items():
            if name in schema.get("properties", ()):
                yield from faults(member, schema["properties"][name], f"{path}.{name}")
            elif schema.get("additionalProperties") is False:
                yield f"{path}.{name}: unknown"
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from faults(item, schema["items"], f"{path}[{number}]")


def _document(*parts: Any) -> Any:
    state = ClusterState.from_objects(
        objects(*parts, claim("late-gpu", selectors=['device.driver == "x"']), pod("late", ["late-gpu"]))
    )
    subject = find_subject("pod", "late", NAMESPACE, state.model)
    return json.loads(json.dumps(answer_json(answered(subject, state, lambda done, total: None))))


def test_answers_are_as_the_schema_says() -> None:
    held = [node("n1", [gpu("g0")]), user("user", "n1", "g0")]
    cordoned = node("n2", [gpu("g0")], spec={"unschedulable": True}, memory="1Mi")
    for parts in ([], held, [*held, cordoned], [node("n3", [])]):
        assert list(faults(_document(*parts), SCHEMA)) == []


@pytest.mark.parametrize(
    ("member", "value", "fault"),
    [
        ("verdict", "perhaps", ".verdict: 'perhaps' isn't allowed"),
        ("nodes", "1", ".nodes: not of type integer"),
        ("more", 1, ".more: unknown"),
        ("held", [{}], ".held[0].device: missing"),
    ],
)
def test_a_fault_is_found(member: str, value: object, fault: str) -> None:
    assert fault in list(faults({**_document(node("n1", [])), member: value}, SCHEMA))


def test_the_choices_are_those_of_the_code() -> None:
    change = SCHEMA["$defs"]["wayOut"]["properties"]["changes"]["items"]["properties"]["kind"]["enum"]
    assert (change, SCHEMA["properties"]["verdict"]["enum"]) == (list(get_args(Kind)), list(get_args(ExplainedVerdict)))
