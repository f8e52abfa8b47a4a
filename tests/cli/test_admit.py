"""``virt-dra admit --jsonl``: from request to answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from virt_dra.cli.main import cli

GPU = {"name": "g", "claimName": "c", "requestName": "r"}
SPEC = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}], "domain": {"devices": {"gpus": [GPU]}}}
GOOD = {"allowed": True, "causes": [], "warnings": []}
GATE_OFF = "vmi.spec.domain.devices.gpus contains DRA enabled GPUs but feature gate is not enabled"
RESTRICTED = {"type": "FieldValueNotSupported", "message": "update of VMI object is restricted", "field": "spec.domain.devices.gpus"}


def _gate_off(field: str) -> dict[str, Any]:
    return {"allowed": False, "causes": [{"type": "FieldValueInvalid", "message": GATE_OFF, "field": field}], "warnings": []}


def _refused(error: str) -> dict[str, Any]:
    return {"allowed": False, "causes": [], "warnings": [], "error": f"line 1: {error}"}


def _vm(spec: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "VirtualMachine", "spec": {"template": {"spec": spec}}}


def _answer(*requests: object) -> list[Any]:
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    result = CliRunner().invoke(cli, ["admit", "--jsonl"], input=lines)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param({"vmi": {"spec": SPEC}}, GOOD, id="a VMI"),
        pytest.param({"spec": SPEC}, GOOD, id="a bare spec"),
        pytest.param({"vmi": _vm(SPEC)}, GOOD, id="a VM"),
        pytest.param(
            {"vmi": {"spec": {"template": {"spec": SPEC}}}, "gates": {"GPUsWithDRA": False}},
            _gate_off("spec.template.spec.domain.devices.gpus"),
            id="a VM without its kind",
        ),
        pytest.param({"spec": SPEC, "gates": {"GPUsWithDRA": False}}, _gate_off("spec.domain.devices.gpus"), id="a gate off"),
        pytest.param({"spec": SPEC, "kubevirt": "1.8"}, _gate_off("spec.domain.devices.gpus"), id="a version where the gate is opt-in"),
        pytest.param(
            {"vmi": _vm(SPEC), "gates": {"DynamicResourceAllocation": False}},
            _gate_off("spec.template.spec.domain.devices.gpus"),
            id="the design's gate",
        ),
        pytest.param(
            {"spec": {}, "gates": {"GPUWithDRA": True}},
            {**GOOD, "warnings": ["gates.GPUWithDRA: no such feature gate is known here; it is ignored"]},
            id="an unknown gate",
        ),
        pytest.param({"spec": SPEC, "old": SPEC, "gates": {"GPUsWithDRA": False}}, GOOD, id="an update without change"),
        pytest.param({"vmi": {"spec": SPEC}, "old": {"spec": SPEC}}, GOOD, id="an update of an object"),
        pytest.param({"spec": SPEC, "old": {"spec": SPEC}}, GOOD, id="an old object beside a bare spec"),
        pytest.param({"vmi": {"spec": SPEC}, "old": SPEC}, GOOD, id="an old bare spec beside an object"),
        pytest.param({"vmi": _vm(SPEC), "old": {"spec": {"template": {"spec": {}}}}}, GOOD, id="an update of a VM"),
        pytest.param(
            {"spec": SPEC, "old": {"resourceClaims": SPEC["resourceClaims"]}},
            {"allowed": False, "causes": [RESTRICTED], "warnings": []},
            id="an update that adds a GPU",
        ),
        pytest.param(
            {"spec": {"domain": {"devices": {"gpus": "none", "hostDevices": [{"name": 1}, "x"]}}}},
            {
                "allowed": False,
                "causes": [
                    {"type": "FieldValueInvalid", "message": "must be a list, not a string", "field": "spec.domain.devices.gpus"},
                    {
                        "type": "FieldValueInvalid",
                        "message": "must be a string, not an integer",
                        "field": "spec.domain.devices.hostDevices[0].name",
                    },
                    {
                        "type": "FieldValueInvalid",
                        "message": "must be an object, not a string",
                        "field": "spec.domain.devices.hostDevices[1]",
                    },
                ],
                "warnings": [],
            },
            id="wrong types are causes",
        ),
        pytest.param(
            {"vmi": {"spec": {"domain": {"devices": {"gpus": [{"name": "g", "claim": {"name": "a"}, "claimName": "b"}]}}}}},
            {
                "allowed": False,
                "causes": [
                    {
                        "type": "FieldValueInvalid",
                        "message": "claim.name 'a' and claimName 'b' differ; give only one of them",
                        "field": "spec.domain.devices.gpus[0]",
                    }
                ],
                "warnings": [],
            },
            id="K-1.8 both spellings that differ",
        ),
        pytest.param(
            {"vmi": {"kind": "Pod"}},
            {
                "allowed": False,
                "causes": [{"type": "FieldValueInvalid", "message": "must be VirtualMachineInstance or VirtualMachine", "field": "kind"}],
                "warnings": [],
            },
            id="another kind",
        ),
        pytest.param({}, _refused("give either vmi (an object) or spec (a bare VMI spec)"), id="nothing to review"),
        pytest.param({"vmi": {}, "spec": {}}, _refused("give either vmi (an object) or spec (a bare VMI spec)"), id="both"),
        pytest.param({"vmi": "x"}, _refused("vmi: must be an object, not a string"), id="a VMI that is a text"),
        pytest.param({"spec": {}, "old": []}, _refused("old: must be an object, not a list"), id="an old VMI that is a list"),
        pytest.param(
            {"spec": {}, "old": {"domain": 1}}, _refused("old.domain: must be an object, not an integer"), id="a malformed old spec"
        ),
        pytest.param({"vmi": {}, "old": {"spec": 1}}, _refused("old.spec: must be an object, not an integer"), id="a malformed old VMI"),
        pytest.param(
            {"vmi": {}, "old": _vm({})}, _refused("old: must be a VirtualMachineInstance like the object itself"), id="another old kind"
        ),
        pytest.param({"spec": {}, "gates": {"X": 1}}, _refused("gates.X: must be a boolean, not an integer"), id="a gate that is a number"),
    ],
)
def test_answer(request_: dict[str, Any], want: dict[str, Any]) -> None:
    assert _answer({"id": "x", **request_}) == [{"id": "x", **want}]


def test_a_bad_line_does_not_end_the_run() -> None:
    assert _answer(3, {"id": 2, "spec": {}}) == [
        {"id": None, **_refused("a request must be a JSON object, not an integer")},
        {"id": 2, **GOOD},
    ]


def test_help_shows_examples() -> None:
    result = CliRunner().invoke(cli, ["admit", "--help"])
    assert result.exit_code == 0
    assert "virt-dra admit --jsonl requests.jsonl" in result.stdout
