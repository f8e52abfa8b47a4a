"""What is in a dump counts, wherever an experiment or a what-if begins with one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from tests.simulator.experiment.test_description import REFUSED, merged
from virt_dra.allocator import DEFAULT
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.simulator.experiment.added_vms import added_vm
from virt_dra.simulator.experiment.building import build_experiment
from virt_dra.simulator.experiment.description import read_description
from virt_dra.simulator.experiment.dump import cluster_of, replayed
from virt_dra.simulator.experiment.engine import Simulation
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.what_if import NO_CHANGE, Prospect, parse_change

Json = dict[str, Any]
DRIVER = "gpu.example.com"
REQUESTS: Json = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}


def node(name: str, **room: str) -> Node:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "10", **room}
    labels = {"kubernetes.io/hostname": name}
    return Node.from_wire({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts}})


def gpus(on: str, *devices: str) -> ResourceSlice:
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    published = [{"name": device} for device in devices]
    spec = {"driver": DRIVER, "nodeName": on, "pool": pool, "devices": published}
    return ResourceSlice.from_wire({"metadata": {"name": f"{on}-gpus"}, "spec": spec})


GPU = DeviceClass.from_wire({"metadata": {"name": "gpu"}, "spec": {}})


def pod(name: str, on: str | None = None, *, claim: bool = True, phase: str = "", **more: Any) -> Pod:
    """A pod of 2 CPUs and 4Gi, with a claim of its name."""
    requests = {"cpu": "2", "memory": "4Gi", **more.pop("requests", {})}
    spec: Json = {"containers": [{"name": "c", "resources": {"requests": requests}}], **more}
    if claim:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    if on is not None:
        spec["nodeName"] = on
    metadata = {"name": name, "namespace": "vms", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return Pod.from_wire({"metadata": metadata, "spec": spec, "status": {"phase": phase}})


def claim(name: str, on: str | None = None, device: str = "d0") -> ResourceClaim:
    wire: Json = {"metadata": {"name": name, "namespace": "vms", "uid": f"claim-{name}"}, "spec": {"devices": REQUESTS}}
    if on is not None:
        result = {"request": "gpu", "driver": DRIVER, "pool": on, "device": device}
        field = {"key": "metadata.name", "operator": "In", "values": [on]}
        selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        wire["status"] = {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}}
    return ResourceClaim.from_wire(wire)


def rule(pool: str, device: str) -> DeviceTaintRule:
    spec = {"deviceSelector": {"pool": pool, "device": device}, "taint": {"key": "k", "effect": "NoSchedule"}}
    return DeviceTaintRule.from_wire({"metadata": {"name": f"{pool}-{device}"}, "spec": spec})


TWO_NODES: tuple[TypedObject, ...] = (GPU, node("a"), node("b"), gpus("a", "d0", "d1"), gpus("b", "d0", "d1"))


def started_beside(*dumped: TypedObject) -> dict[str, str]:
    """Where four VMs of 2 CPUs, 4Gi and a GPU run that arrive on a node of 8 CPUs, 32Gi and four GPUs beside these."""
    vm = {"name": "vm", "cpu": 2, "memory": "4Gi", "devices": REQUESTS, "arrivals": {"at": ["1m"] * 4}}
    patch = {"cluster": {"nodes": None, "files": ["dump.yaml"]}, "vms": [vm]}
    description = read_description(merged(REFUSED["base"], patch), "x.yaml")
    cluster = [GPU, node("a"), gpus("a", "d0", "d1", "d2", "d3"), *dumped]
    simulation = Simulation(build_experiment(description, "x.yaml", cluster), "pack")
    simulation.run()
    return simulation.placements


@pytest.mark.parametrize(
    ("dumped", "started"),
    [
        ([], 4),
        ([pod("p", "a", claim=False)], 3),
        ([pod("p", "a", claim=False, requests={"cpu": "1", "memory": "22Gi"})], 2),
        ([pod(f"p{i}", "a", claim=False, requests={"cpu": "0", "memory": "0"}) for i in range(9)], 1),
        ([pod("p", "a", claim=False, phase="Succeeded")], 4),
        ([pod("p", claim=False)], 4),
        ([pod("p", "a"), claim("p", "a")], 3),
        ([claim("p", "a"), claim("q", "a", "d1")], 2),
        ([rule("a", "d0")], 3),
        ([rule("a", "d0"), pod("p", "a"), claim("p", "a", "d1"), pod("q", "a", claim=False)], 2),
    ],
    ids=["nothing", "cpu", "memory", "pods", "finished", "not bound", "pod and device", "devices", "taint", "all"],
)
def test_vms_that_arrive_get_what_a_dump_leaves(dumped: list[TypedObject], started: int) -> None:
    assert started_beside(*dumped) == {f"vm-{number}": "a" for number in range(started)}


def test_pods_of_one_age_are_placed_anew_by_priority() -> None:
    """And a pod that is left out, since its claim isn't there, keeps its room."""
    pods = [pod("low"), pod("high", priority=5), pod("left-out", "a", requests={"cpu": "5"})]
    cluster = cluster_of([GPU, node("a"), gpus("a", "d0", "d1"), claim("low"), claim("high"), *pods])
    simulation = Simulation(replayed(cluster, "dump"), "first-fit")
    simulation.run()
    assert simulation.placements == {"vms/high": "a"}


def answers(objects: tuple[TypedObject, ...], *changes: str) -> list[Json]:
    """What the changes do, without texts; first how it is now."""
    prospect = Prospect(cluster_of(objects), "first-fit", features=DEFAULT)
    given: list[Json] = [{"running": prospect.running, "waiting": prospect.waiting, "used": round(prospect.used, 3)}]
    for change in changes:
        outcome = asdict(prospect.apply(parse_change(change)))
        outcome["used"] = round(outcome["used"], 3)
        given.append({name: value for name, value in outcome.items() if value and name not in ("text", "why")})
    return given


ON_B = (*TWO_NODES, pod("p"), claim("p", "b", "d1"))
"""A pod that has a device of b, and isn't bound yet."""


def test_a_pod_with_devices_that_is_not_bound_runs_where_they_are() -> None:
    assert answers(ON_B, "cordon a", "delete vms/p") == [
        {"running": 0, "waiting": ["vms/p"], "used": 0.25},
        {"started": [("vms/p", "b")], "used": 0.25},
        {},
    ]


def test_a_pod_that_cannot_use_its_devices_gives_them_back() -> None:
    assert answers(ON_B, "drain b") == [
        {"running": 0, "waiting": ["vms/p"], "used": 0.25},
        {"started": [("vms/p", "a")], "used": 0.25},
    ]
    full = pod("full", "b", claim=False, requests={"cpu": "7"})
    assert answers((*ON_B, full), "cordon b") == [
        {"running": 1, "waiting": ["vms/p"], "used": 0.25},
        {"started": [("vms/p", "a")], "used": 0.25},
    ]


def test_a_pod_that_waits_for_a_device_that_goes_gets_another() -> None:
    assert answers(ON_B, f"device {DRIVER}/b/d1 gone") == [
        {"running": 0, "waiting": ["vms/p"], "used": 0.25},
        {"started": [("vms/p", "a")], "used": 0.333},
    ]


def test_a_pod_that_is_not_bound_and_goes_frees_its_devices() -> None:
    assert answers(ON_B, "delete vms/p") == [{"running": 0, "waiting": ["vms/p"], "used": 0.25}, {}]


def test_a_pod_runs_where_it_can_use_what_others_use_too() -> None:
    """As long as the claim has that; and a claim that two entries of a pod name is one."""
    both = [{"name": name, "resourceClaimName": "s"} for name in ("one", "two")]
    pods = [pod("p", "b", claim=False, resourceClaims=both), pod("q", claim=False, resourceClaims=both)]
    assert answers((*TWO_NODES, *pods, claim("s", "b")), "cordon a", "drain b") == [
        {"running": 1, "waiting": ["vms/q"], "used": 0.25},
        {"started": [("vms/q", "b")], "used": 0.25},
        {"evicted": ["vms/p", "vms/q"], "used": 0.25, "waiting": 2},
    ]
    alone = pod(
        "r", claim=False, resourceClaims=[{**both[0], "resourceClaimName": "r"}, {**both[1], "resourceClaimName": "r"}]
    )
    assert answers((*TWO_NODES, alone, claim("r")), "cordon b") == [
        {"running": 0, "waiting": ["vms/r"], "used": 0.0},
        {"started": [("vms/r", "a")], "used": 0.25},
    ]


def test_an_added_pod_runs_where_its_allocated_claim_can_be_used() -> None:
    added = added_vm([pod("new")], [*TWO_NODES, claim("new", "b")], "new.yaml")
    prospect = Prospect(cluster_of([*TWO_NODES, claim("new", "b")]), "first-fit", features=DEFAULT)
    outcome = prospect.apply(parse_change("add new.yaml"), added)
    assert (outcome.started, outcome.used) == ([("vms/new-1", "b")], 0.25)


def test_a_pod_that_gets_devices_by_an_extended_resource_is_not_added() -> None:
    """Where a device plugin offers the resource, it is counted."""
    name = "example.com/gpu"
    served = DeviceClass.from_wire({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": name}})
    asking = pod("new", claim=False, requests={name: "1"})
    objects = (node("a"), gpus("a", "d0"), served)
    with pytest.raises(BadExperiment) as refused:
        added_vm([asking], objects, "new.yaml")
    assert str(refused.value) == (
        f"new.yaml: Pod vms/new asks for {name}, which devices of DeviceClass gpu serve: a simulation makes no claims "
        "for such resources. Let it name a claim in place of the resource"
    )
    waiting = Prospect(cluster_of([*objects, asking]), "first-fit", features=DEFAULT)
    assert waiting.apply(NO_CHANGE).started == []
    assert waiting.why("vms/new") == f"0/1 nodes are available: 1 Insufficient {name}."
    offering = (node("a", **{name: "1"}), gpus("a", "d0"), served)
    prospect = Prospect(cluster_of(offering), "first-fit", features=DEFAULT)
    added = added_vm([asking], offering, "new.yaml")
    assert prospect.apply(parse_change("add new.yaml"), added).started == [("vms/new-1", "a")]


def test_a_node_that_is_gone_takes_its_devices_along() -> None:
    """Those that a claim without a pod holds there, too."""
    objects = (*TWO_NODES, pod("p", "a"), claim("p", "a"), pod("q", "b"), claim("q", "b"), claim("alone", "b", "d1"))
    assert answers(objects, "node b gone", "delete vms/p", "cordon a") == [
        {"running": 2, "waiting": [], "used": 0.75},
        {"evicted": ["vms/q"], "moved": [("vms/q", "a")], "used": 1.0},
        {"used": 0.5},
        {"used": 0.5},
    ]


def test_a_device_that_goes_leaves_others_their_places() -> None:
    """Under the policy that knows what is typical of the devices, too."""
    objects = (*TWO_NODES, pod("p", "a"), claim("p", "a", "d1"), pod("q", "b"), claim("q", "b"))
    prospect = Prospect(cluster_of(objects), "least-fragmentation", features=DEFAULT)
    outcome = prospect.apply(parse_change(f"device {DRIVER}/a/d0 gone"))
    assert (outcome.evicted, outcome.waiting, round(outcome.used, 3)) == ([], 0, 0.667)
    outcome = prospect.apply(parse_change(f"device {DRIVER}/a/d1 gone"))
    assert (outcome.moved, outcome.used) == ([("vms/p", "b")], 1.0)
