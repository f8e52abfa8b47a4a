"""The resource claim controller (C-10): plans as cases in cases/claims; the whole lives of claims are in
test_claims_on_cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.changed_objects import base_of, cases_in, changed
from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from virt_dra.api.wire import Json
from virt_dra.controllers.loops.claims import (
    ChangeReservations,
    ClaimAction,
    ClaimInputs,
    CreateClaim,
    DeleteClaim,
    RecordClaimNames,
    UnblockDeletion,
    generate_name,
    plan,
)

CASES = Path(__file__).parent / "cases" / "claims"
BASE = base_of(CASES)


def run(case: Json) -> Json:
    """The whole plan, in words."""
    objects = changed(BASE, case.get("set", {}))
    planned = plan(
        ClaimInputs(
            tuple(Pod.from_wire(raw) for raw in objects["pods"]),
            tuple(ResourceClaim.from_wire(raw) for raw in objects["claims"]),
            tuple(ResourceClaimTemplate.from_wire(raw) for raw in objects["templates"]),
        )
    )
    told: Json = {}
    if planned.actions:
        told["actions"] = [_words(action) for action in planned.actions]
    if planned.events:
        told["events"] = [
            {"pod": e.name, "reason": e.reason, "message": e.message, "retry": e.retry} for e in planned.events
        ]
    return told


def _words(action: ClaimAction) -> Json:
    match action:
        case CreateClaim(owner=pod, entry=entry, claim=claim):
            return {"create": f"{pod.name}/{entry}", "claim": claim.to_wire()}
        case RecordClaimNames(owner=pod, statuses=statuses):
            return {"record": pod.name, "statuses": [s.to_wire() for s in statuses]}
        case ChangeReservations(claim=claim, reserved_for=reserved_for, deallocate=deallocate):
            return {"reserve": claim.name, "for": [c.to_wire() for c in reserved_for], "deallocate": deallocate}
        case UnblockDeletion(claim=claim):
            return {"unblock": claim.name}
        case DeleteClaim(claim=claim):
            return {"delete": claim.name, "uid": claim.metadata.uid}


@pytest.mark.parametrize("case", cases_in(CASES))
def test_plan(case: Json) -> None:
    assert run(case) == case["want"]


@pytest.mark.parametrize(
    ("pod", "entry", "name"),
    [
        ("vm", "gpu", "vm-gpu-"),
        ("p" * 40, "c" * 15, "p" * 40 + "-" + "c" * 15 + "-"),  # 57 bytes: just fits
        ("p" * 40, "c" * 16, "p" * 39 + "-" + "c" * 15),  # 58 bytes: 40*57/58 = 39.3, 16*57/58 = 15.7
        (
            "virt-launcher-a-vm-with-quite-a-long-name-x7k2p",
            "gpu-resource-claim",
            "virt-launcher-a-vm-with-quite-a-long-na-gpu-resource-cl",
        ),
        ("p" * 253, "c" * 63, "p" * 45 + "-" + "c" * 11),
        ("p", "c" * 63, "-" + "c" * 54),
        ("é" * 28, "a", "é" * 27 + "-"),  # bytes count: 59 of them, 56*57/59 = 54.1, 1*57/59 = 0.9
        ("é" * 27, "abc", "é" * 26 + "-ab"),  # 59 bytes: 54*57/59 = 52.2, 3*57/59 = 2.9
    ],
)
def test_a_long_name_is_shortened_in_proportion_and_without_a_hyphen_at_the_end(
    pod: str, entry: str, name: str
) -> None:
    assert generate_name(pod, entry) == name
