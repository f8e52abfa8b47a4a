"""Dumps of clusters with running VMs: what runs is taken over as it is (cases/dumps.yaml)."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import DocumentSource, Sourced
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.patches import merged
from virt_dra.simulator.embedded import Ran, RunSettings, run_on
from virt_dra.simulator.held_twice import held_twice
from virt_dra.simulator.outcome import VmOutcome

FOLDER = Path(__file__).parent / "cases"
DUMP: list[dict[str, Any]] = yaml.safe_load((FOLDER / "dump.yaml").read_text(encoding="utf-8"))["items"]
CASES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "dumps.yaml").read_text(encoding="utf-8"))


def _changed(case: dict[str, Any]) -> list[dict[str, Any]]:
    changes = dict(case.get("change", {}))
    objects = [*copy.deepcopy(DUMP), *case.get("also", ())]
    kept: list[dict[str, Any]] = []
    for obj in objects:
        title = f"{obj['kind']}/{obj['metadata']['name']}"
        if title not in changes:
            kept.append(obj)
        elif (change := changes.pop(title)) is not None:
            kept.append(merged(obj, change))
    assert not changes, "no such object"
    return kept


async def _run(objects: list[dict[str, Any]]) -> Ran:
    inputs = [
        Sourced[TypedObject](read_object(obj), DocumentSource("dump", line)) for line, obj in enumerate(objects, 1)
    ]
    return await run_on(MemoryCluster.deterministic(), inputs, RunSettings(), lambda: datetime(2026, 1, 3, tzinfo=UTC))


def _told(outcome: VmOutcome) -> object:
    if outcome.failure is not None:
        return [str(outcome.failure.step), outcome.failure.reason]
    assert outcome.ready
    (device,) = outcome.devices
    return (device.allocated or "").rpartition("/")[2]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
async def test_a_dump(case: dict[str, Any]) -> None:
    ran = await _run(_changed(case))
    assert ran.refused == ()
    outcomes = {outcome.name: outcome for outcome in ran.outcomes}
    assert {name: [outcome.taken_over, _told(outcome)] for name, outcome in outcomes.items()} == {
        name: want[:2] for name, want in case["want"].items()
    }
    for name, (_, _, *notes) in case["want"].items():
        warnings = outcomes[name].warnings
        assert len(warnings) == len(notes), warnings
        assert all(warning.startswith(note.strip()) for warning, note in zip(warnings, notes, strict=True)), warnings


async def test_what_is_taken_over_stays_as_it_was() -> None:
    ran = await _run(DUMP)
    there = {(obj.kind or obj.KIND, obj.name): obj.to_wire() for obj in ran.objects}
    for raw in DUMP:
        if raw["kind"] in ("Pod", "ResourceClaim"):
            assert there[raw["kind"], raw["metadata"]["name"]] | {"metadata": None} == read_object(raw).to_wire() | {
                "metadata": None
            }
    for kind in ("VirtualMachine", "VirtualMachineInstance"):
        (given,) = (raw for raw in DUMP if raw["kind"] == kind and raw["metadata"]["name"] == "runs")
        kept = there[kind, "runs"]["metadata"]
        for field in ("uid", "finalizers", "managedFields", "ownerReferences", "creationTimestamp"):
            assert kept.get(field) == given["metadata"].get(field)
    running = there["VirtualMachineInstance", "runs"]["status"]
    assert (running["phase"], running["nodeName"]) == ("Running", "node-1")
    (pods,) = [[name for kind, name in there if kind == "Pod"]]
    assert sorted(name for name in pods if "stopped" not in name) == ["training", "virt-launcher-runs-4zk8m"]


@pytest.mark.parametrize(
    ("mine", "theirs", "told"),
    [
        ({}, {}, True),
        ({"adminAccess": True}, {}, False),
        ({"shareID": "a"}, {"shareID": "b"}, False),
        ({"shareID": "a"}, {"shareID": "a"}, True),
        ({"shareID": "a"}, {}, True),
        ({"device": "gpu-0"}, {"device": "gpu-1"}, False),
    ],
)
async def test_a_device_that_two_claims_hold_is_warned_of(
    mine: dict[str, Any], theirs: dict[str, Any], told: bool
) -> None:
    doubly = copy.deepcopy(DUMP)
    for raw in doubly:
        if raw["kind"] == "ResourceClaim":
            (result,) = raw["status"]["allocation"]["devices"]["results"]
            result.update({"device": "gpu-1", **(mine if raw["metadata"]["name"] == "training" else theirs)})
    conflicts = held_twice(obj for obj in map(read_object, doubly) if isinstance(obj, ResourceClaim))
    assert [str(conflict) for conflict in conflicts] == [
        "device gpu.example.com/node-1/gpu-1 is allocated to several claims: ResourceClaims "
        "default/virt-launcher-runs-4zk8m-c-7wxqp and default/training. No scheduler "
        "does that; keep the claim whose pod really uses the "
        "device, and delete the others with their pods"
    ] * told
    if not mine:
        assert (await _run(doubly)).held_twice == conflicts
    assert (await _run(DUMP)).held_twice == ()


async def test_an_object_with_a_uid_that_no_server_would_store_is_refused() -> None:
    hostile = copy.deepcopy(DUMP)
    for raw in hostile:
        if raw["metadata"]["name"] == "runs":
            raw["metadata"]["name"] = "../../etc/x"
    ran = await _run(hostile)
    (outcome,) = (outcome for outcome in ran.outcomes if outcome.name == "../../etc/x")
    assert outcome.failure is not None
    assert (outcome.failure.reason, outcome.domain) == ("Invalid", None)
    assert "metadata.name" in outcome.failure.message


async def test_a_pod_that_no_server_would_store_was_never_in_one() -> None:
    hostile = copy.deepcopy(DUMP)
    (pod,) = (raw for raw in hostile if raw["metadata"]["name"] == "virt-launcher-runs-4zk8m")
    pod["spec"]["resourceClaims"] *= 2
    outcomes = {outcome.name: outcome for outcome in (await _run(hostile)).outcomes}
    failure = outcomes["runs"].failure
    assert failure is not None
    assert (failure.reason, outcomes["runs"].taken_over) == ("Invalid", False)
    assert failure.message.startswith(
        'Pod default/virt-launcher-runs-4zk8m: spec.resourceClaims[1].name: Duplicate value: "'
    )
    assert outcomes["stopped"].ready


RECORDED = Path(__file__).parent / "recorded" / "kubevirt-1.9.0.json"


async def test_a_recorded_cluster_is_ready_as_it_runs() -> None:
    """Recorded of a real control plane with the tests' KubeVirt (tests/e2e/test_dump.py, which asks a live one)."""
    items: list[dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))["items"]
    running = {
        obj["metadata"]["name"]: obj
        for obj in items
        if obj["kind"] == "VirtualMachineInstance" and obj["status"]["phase"] == "Running"
    }
    pods = {item["metadata"]["ownerReferences"][0]["uid"]: item for item in items if item["kind"] == "Pod"}
    held = {item["metadata"]["name"]: item for item in items if item["kind"] == "ResourceClaim"}
    ran = await _run(items)
    outcomes = {outcome.name: outcome for outcome in ran.outcomes}
    assert len(running) > 10
    for name, vmi in running.items():
        outcome, pod = outcomes[name], pods[vmi["metadata"]["uid"]]
        assert (outcome.ready, outcome.taken_over, outcome.pod) == (True, True, pod["metadata"]["name"]), (
            outcome.failure
        )
        for device in outcome.devices:
            if device.claim is None or name == "shared-claim-b":
                continue  # served in the place of a device plugin; or the claim is shared-claim-a's (K-5.36)
            (claim,) = (held[claim.claim] for claim in outcome.claims if claim.entry == device.claim)
            results = claim["status"]["allocation"]["devices"]["results"]
            assert device.allocated in [f"{result['driver']}/{result['pool']}/{result['device']}" for result in results]
            assert pod["metadata"]["uid"] in [consumer["uid"] for consumer in claim["status"]["reservedFor"]]
    claims = {obj.name: obj.to_wire() for obj in ran.objects if isinstance(obj, ResourceClaim)}
    for name, claim in held.items():
        assert claims[name]["status"] == claim["status"]
    assert [name for name, outcome in outcomes.items() if not outcome.ready] == ["waiting"]
