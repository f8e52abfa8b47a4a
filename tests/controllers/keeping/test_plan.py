"""What the keeper writes about a VM's claims, and what it says: whole plans, as cases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.controllers.changed_objects import base_of, cases_in, changed
from tests.controllers.keeping.stores import filled_stores
from virt_dra.api.core_v1 import Node
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject, format_time, parse_time
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.controllers.events import Event
from virt_dra.controllers.keeping.plan import ClaimWrites, plan
from virt_dra.controllers.writes import Create, Delete, PatchAnnotations, PatchStatus, Write

CASES = Path(__file__).parent / "cases"
BASE = base_of(CASES)
KINDS: dict[str, type[TypedObject]] = {
    "vms": VirtualMachine, "vmis": VirtualMachineInstance, "claims": ResourceClaim,
    "templates": ResourceClaimTemplate, "nodes": Node, "slices": ResourceSlice, "rules": DeviceTaintRule,
    "policies": KeepPolicy,
}  # fmt: skip


def run(case: Json) -> Json:
    """The whole plan for the VM named a, in words."""
    objects = changed(BASE, case.get("set", {}))
    stores = filled_stores(kind.from_wire(raw) for name, kind in KINDS.items() for raw in objects[name])
    inputs = stores.inputs("lab/a", parse_time(objects["now"]))
    planned = plan(replace(inputs, ended=frozenset(case.get("ended", ()))))
    words: Json = {}
    if planned.claims:
        words["claims"] = [_claim_words(claim) for claim in planned.claims]
    if planned.standing:
        words["standing"] = [_event_words(event) for event in planned.standing]
    if planned.requeue_at is not None:
        words["again"] = format_time(planned.requeue_at)
    return words


def _claim_words(claim: ClaimWrites) -> Json:
    words: Json = {"writes": [_write_words(action) for action in claim.actions]}
    if claim.events:
        words["events"] = [_event_words(event) for event in claim.events]
    if claim.released:
        words["released"] = claim.released
    return words


def _write_words(action: Write) -> Json:
    match action:
        case Create(obj=claim):
            return {"create": claim.to_wire()}
        case PatchStatus(obj=claim, changes=changes):
            return {"status": claim.name, "of": claim.metadata.resource_version, "changes": changes}
        case PatchAnnotations(name=name, uid=uid, annotations=annotations):
            return {"annotate": name, "uid": uid, "changes": dict(annotations)}
        case Delete(name=name, uid=uid, resource_version=version):
            return {"delete": name, "uid": uid, **({"of": version} if version else {})}
    raise AssertionError(action)


def _event_words(event: Event) -> str:
    return f"{event.type} {event.reason} {event.kind} {event.name}: {event.message}"


@pytest.mark.parametrize("case", cases_in(CASES))
def test_plan(case: Json) -> None:
    assert run(case) == case["want"]
