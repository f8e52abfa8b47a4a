"""docs/schemas/explain.schema.json: real answers are as it says, and what it doesn't allow is found."""

from __future__ import annotations

import json
from typing import Any, Final, get_args

import pytest

from tests.json_schema import faults, schema_named
from tests.simulator.explaining.clusters import NAMESPACE, claim, gpu, node, objects, pod, user
from virt_dra.cli.documents.heads import output_document
from virt_dra.simulator.explaining.answer import ExplainedVerdict, answer_json, answered
from virt_dra.simulator.explaining.state import ClusterState
from virt_dra.simulator.explaining.subject import find_subject
from virt_dra.simulator.explaining.ways_out import Kind

SCHEMA: Final = schema_named("explain")


def _document(*parts: Any) -> Any:
    state = ClusterState.from_objects(
        objects(*parts, claim("late-gpu", selectors=['device.driver == "x"']), pod("late", ["late-gpu"]))
    )
    subject = find_subject("pod", "late", NAMESPACE, state.model)
    members = answer_json(answered(subject, state, lambda done, total: None))
    return json.loads(json.dumps(output_document("Explanation", members)))


def test_answers_are_as_the_schema_says() -> None:
    held = [node("n1", [gpu("g0")]), user("user", "n1", "g0")]
    cordoned = node("n2", [gpu("g0")], spec={"unschedulable": True}, memory="1Mi")
    for parts in ([], held, [*held, cordoned], [node("n3", [])]):
        assert faults(_document(*parts), SCHEMA) == []


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
    assert fault in faults({**_document(node("n1", [])), member: value}, SCHEMA)


def test_the_choices_are_those_of_the_code() -> None:
    change = SCHEMA["$defs"]["wayOutStep"]["properties"]["kind"]["enum"]
    assert (change, SCHEMA["properties"]["verdict"]["enum"]) == (list(get_args(Kind)), list(get_args(ExplainedVerdict)))
