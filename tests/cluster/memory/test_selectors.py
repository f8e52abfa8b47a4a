"""Selectors beyond the contract: every form of the grammar and its faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.cluster.kinds import resource_of
from virt_dra.cluster.memory.selectors import parse_fields, parse_labels
from virt_dra.cluster.port import BadRequest

UPSTREAM = [
    json.loads(line) for line in (Path(__file__).parent / "label_selectors_upstream.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("case", UPSTREAM, ids=lambda case: repr(case["selector"]))
def test_label_selectors_as_apimachinery_reads_them(case: dict[str, object]) -> None:
    """The file holds the verdicts of k8s.io/apimachinery v0.37.2: the error, or the label sets that match."""
    error, matching = _verdict(str(case["selector"]))
    assert {"selector": case["selector"], "error": error, "matching": matching} == case


def _verdict(selector: str) -> tuple[str, list[int]]:
    try:
        requirements = parse_labels(selector)
    except BadRequest as error:
        return str(error), []
    return "", [
        index
        for index, labels in enumerate(LABEL_SETS)
        if all(requirement.matches(labels) for requirement in requirements)
    ]


LABEL_SETS: list[dict[str, str]] = [
    {},
    {"x": "a"},
    {"x": "b", "y": "1"},
    {"x": "", "y": "5"},
    {"y": "abc"},
    {"in": "a", "example.com/z": "7"},
]


@given(st.text(st.sampled_from("ab,=!()<> in/."), max_size=12))
def test_label_selectors_are_read_or_refused(text: str) -> None:
    try:
        requirements = parse_labels(text)
    except BadRequest:
        return
    assert all(requirement.key for requirement in requirements)


FIELD_CASES: list[tuple[TypedObject, str, bool]] = [
    (Pod.from_wire({"metadata": {"name": "p", "namespace": "a,b"}}), r"metadata.namespace=a\,b,metadata.name=p", True),
    (Pod.from_wire({"metadata": {"name": "a=b"}}), r"metadata.name=a\=b", True),
    (Pod.from_wire({"metadata": {"name": "a\\b"}}), r"metadata.name=a\\b", True),
    (Pod.from_wire({"spec": {"schedulerName": "x"}}), "spec.schedulerName=x", True),
    (Pod.from_wire({"spec": {"hostNetwork": True}}), "spec.hostNetwork=true", True),
    (Pod.from_wire({"spec": {}}), "spec.hostNetwork=false", True),
    (Pod.from_wire({"status": {"podIP": "10.0.0.1"}}), "status.podIP=10.0.0.1", True),
    (Pod.from_wire({}), "spec.nodeName=", True),
    (Pod.from_wire({}), "spec.nodeName!=", False),
    (Pod.from_wire({}), ",,", True),
    (Node.from_wire({"spec": {"unschedulable": True}}), "spec.unschedulable=true", True),
    (Node.from_wire({}), "spec.unschedulable=true", False),
    (Namespace.from_wire({"status": {"phase": "Active"}}), "status.phase=Active,name=", True),
    (VirtualMachineInstance.from_wire({"metadata": {"name": "v"}}), "metadata.name=v", True),
]


@pytest.mark.parametrize(("obj", "selector", "matches"), FIELD_CASES)
def test_field_selectors(obj: TypedObject, selector: str, *, matches: bool) -> None:
    assert all(term.matches(obj) for term in parse_fields(resource_of(obj), selector)) is matches


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("=a,bc", "invalid selector: '=a,bc'; can't understand 'bc'"),
        ("metadata.name=a,b", "invalid selector: 'metadata.name=a,b'; can't understand 'b'"),
        (r"metadata.name=a\b", r"invalid field selector: invalid escape sequence: \b"),
        ("metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
        ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        ("=x", "field label not supported: "),
        ("spec.node=x", "field label not supported: spec.node"),
    ],
)
def test_field_selectors_that_are_refused(selector: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_fields(resource_of(Pod), selector)
    assert str(caught.value) == message


@given(st.text(st.sampled_from("ab,=!\\.nmetadata"), max_size=14))
def test_field_selectors_are_read_or_refused(text: str) -> None:
    try:
        terms = parse_fields(resource_of(Pod), f"metadata.name={text}")
    except BadRequest:
        return
    assert len(terms) >= 1
