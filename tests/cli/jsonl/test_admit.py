"""``virt-dra admit --jsonl``: from request to answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from tests.cli.jsonl.answers import members_of
from virt_dra.cli.main import cli

GPU = {"name": "g", "claimName": "c", "requestName": "r"}
SPEC = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}], "domain": {"devices": {"gpus": [GPU]}}}
GOOD = {"allowed": True, "causes": [], "warnings": []}
DESIGNED = {**SPEC, "domain": {"devices": {"gpus": [{"name": "g", "claim": {"name": "c", "request": "r"}}]}}}
DESIGN = (
    "spec.domain.devices.gpus[0].claim: [unknown-field] a KubeVirt's API server "
    "drops this field; for a KubeVirt write claimName and "
    "requestName instead"
)
NO_SOURCE = (
    "vmi.spec.domain.devices.gpus contains GPUs without deviceName or claimRequest; "
    "each GPU must specify either a deviceName or a claimRequest"
)
GATE_OFF = "vmi.spec.domain.devices.gpus contains DRA enabled GPUs but feature gate is not enabled"
RESTRICTED = {
    "type": "FieldValueNotSupported",
    "message": "update of VMI object is restricted",
    "field": "spec.domain.devices.gpus",
    "by": "kubevirt",
}


def _gate_off(field: str) -> dict[str, Any]:
    return {"allowed": False, "causes": [_cause(GATE_OFF, field)], "warnings": []}


def _cause(message: str, field: str, by: str = "kubevirt", kind: str = "FieldValueInvalid") -> dict[str, str]:
    return {"type": kind, "message": message, "field": field, "by": by}


def _refused(error: str) -> dict[str, Any]:
    return {"allowed": False, "causes": [], "warnings": [], "error": f"line 1: {error}"}


def _vm(spec: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "VirtualMachine", "spec": {"template": {"spec": spec}}}


def _answer(*requests: object) -> list[Any]:
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    result = CliRunner().invoke(cli, ["admit", "--jsonl"], input=lines)
    assert result.exit_code == 0, result.output
    return [members_of(line, "AdmissionAnswer") for line in result.stdout.splitlines()]


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
        pytest.param(
            {"spec": SPEC, "gates": {"GPUsWithDRA": False}}, _gate_off("spec.domain.devices.gpus"), id="a gate off"
        ),
        pytest.param(
            {"spec": SPEC, "kubevirt": "1.8"},
            _gate_off("spec.domain.devices.gpus"),
            id="a version where the gate is opt-in",
        ),
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
                    _cause("must be a list, not a string", "spec.domain.devices.gpus", "api-server"),
                    _cause("must be a string, not an integer", "spec.domain.devices.hostDevices[0].name", "api-server"),
                    _cause("must be an object, not a string", "spec.domain.devices.hostDevices[1]", "api-server"),
                ],
                "warnings": [],
            },
            id="wrong types are causes",
        ),
        pytest.param(
            {
                "vmi": {
                    "spec": {"domain": {"devices": {"gpus": [{"name": "g", "claim": {"name": "a"}, "claimName": "b"}]}}}
                }
            },
            {
                "allowed": False,
                "causes": [
                    _cause(
                        "claim.name 'a' and claimName 'b' differ; give only one of them",
                        "spec.domain.devices.gpus[0]",
                        "api-server",
                    )
                ],
                "warnings": [DESIGN],
            },
            id="K-1.8 both spellings that differ",
        ),
        pytest.param(
            {"vmi": {"kind": "Pod"}},
            {
                "allowed": False,
                "causes": [_cause("must be VirtualMachineInstance or VirtualMachine", "kind", "api-server")],
                "warnings": [],
            },
            id="another kind",
        ),
        pytest.param(
            {"spec": DESIGNED}, {**GOOD, "warnings": [DESIGN]}, id="K-1.7 the design's form where no KubeVirt is named"
        ),
        pytest.param(
            {"spec": DESIGNED, "kubevirt": "1.9"},
            {
                "allowed": False,
                "causes": [_cause(NO_SOURCE, "spec.domain.devices.gpus", kind="FieldValueRequired")],
                "warnings": [
                    "spec.domain.devices.gpus[0].claim: [unknown-field] unknown field "
                    '"spec.domain.devices.gpus[0].claim", which the API '
                    "server drops; write claimName and requestName instead",
                    "spec.resourceClaims[0]: [unused-claim] no gpu, hostDevice or network "
                    'uses the claim "c"; its devices are allocated, '
                    "but not given to the VM",
                ],
            },
            id="K-1.9 which a KubeVirt's API server drops",
        ),
        pytest.param(
            {"spec": DESIGNED, "kubevirt": "1.9", "fieldValidation": "Strict"},
            {
                "allowed": False,
                "causes": [
                    _cause(
                        'strict decoding error: unknown field "spec.domain.devices.gpus[0].claim", '
                        'did you mean "claimName"?',
                        "spec.domain.devices.gpus[0].claim",
                        "api-server",
                    )
                ],
                "warnings": [],
            },
            id="K-2.34 or refuses, as kubectl asks it to",
        ),
        pytest.param(
            {"spec": SPEC, "fieldValidation": "strict"},
            _refused("fieldValidation: must be one of Strict, Warn, Ignore"),
            id="a way of validation that does not exist",
        ),
        pytest.param(
            {"spec": SPEC, "gate": {"GPUsWithDRA": False}, "resourceClaims": [], "x" * 200: 1},
            {
                **GOOD,
                "warnings": [
                    'gate: unknown member of the request; did you mean "gates"?',
                    'resourceClaims: unknown member of the request; it has "vmi", '
                    '"spec", "old", "gates", "kubevirt", …',
                    "x" * 97
                    + '...: unknown member of the request; it has "vmi", "spec", "old", "gates", "kubevirt", …',
                ],
            },
            id="unknown members of the request are named",
        ),
        pytest.param(
            {"vm": {}},
            {
                **_refused("give either vmi (an object) or spec (a bare VMI spec)"),
                "warnings": ['vm: unknown member of the request; did you mean "vmi"?'],
            },
            id="also where the request can't be answered",
        ),
        pytest.param({}, _refused("give either vmi (an object) or spec (a bare VMI spec)"), id="nothing to review"),
        pytest.param(
            {"vmi": {}, "spec": {}}, _refused("give either vmi (an object) or spec (a bare VMI spec)"), id="both"
        ),
        pytest.param({"vmi": "x"}, _refused("vmi: must be an object, not a string"), id="a VMI that is a text"),
        pytest.param(
            {"spec": {}, "old": []}, _refused("old: must be an object, not a list"), id="an old VMI that is a list"
        ),
        pytest.param(
            {"spec": {}, "old": {"domain": 1}},
            _refused("old.domain: must be an object, not an integer"),
            id="a malformed old spec",
        ),
        pytest.param(
            {"vmi": {}, "old": {"spec": 1}},
            _refused("old.spec: must be an object, not an integer"),
            id="a malformed old VMI",
        ),
        pytest.param(
            {"vmi": {}, "old": _vm({})},
            _refused("old: must be a VirtualMachineInstance like the object itself"),
            id="another old kind",
        ),
        pytest.param(
            {"spec": {}, "gates": {"X": 1}},
            _refused("gates.X: must be a boolean, not an integer"),
            id="a gate that is a number",
        ),
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
    assert "virt-dra admit --jsonl examples/requests/admit.jsonl" in result.stdout
