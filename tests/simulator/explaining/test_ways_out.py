"""Ways out of a wait: which are found, and that each of them is true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.simulator.explaining.clusters import NAMESPACE, claim, gpu, node, objects, pod, user
from virt_dra.allocator import Allocated, Snapshot, allocate
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from virt_dra.simulator.explaining.answer import FITS, WAITS, ExplainedAnswer, answered
from virt_dra.simulator.explaining.state import ClusterState
from virt_dra.simulator.explaining.subject import find_subject

LATE = "late"
H100 = 'device.attributes["gpu.example.com"].model == "H100"'


def explained(there: list[TypedObject]) -> ExplainedAnswer:
    state = ClusterState.from_objects(there)
    return answered(find_subject("pod", LATE, NAMESPACE, state.model), state, lambda done, total: None)


def late(**exactly: Any) -> list[dict[str, Any]]:
    return [claim("late-gpu", **exactly), pod(LATE, ["late-gpu"])]


def test_a_device_in_use_is_freed_by_the_least_important_pod_that_has_one() -> None:
    there = objects(
        node("n1", [gpu("g0"), gpu("g1")]), user("vital", "n1", "g0", priority=1000), user("idle", "n1", "g1"), late()
    )
    answer = explained(there)
    assert (
        answer.headline
        == "pod team-a/late waits: the one node can't take it. Nearest: n1, request gpu: 2 devices: in use"
    )
    assert [way.text for way in answer.ways] == ["with g1 of pod team-a/idle freed it would start on n1"]
    assert [(str(device), holder.description) for device, holder in answer.held] == [
        ("gpu.example.com/n1/g0", "pod team-a/vital (claim vital-gpus) since 2026-11-20T08:00:00Z"),
        ("gpu.example.com/n1/g1", "pod team-a/idle (claim idle-gpus) since 2026-11-20T08:00:00Z"),
    ]


def test_a_device_that_a_stopped_vm_keeps_is_released_before_a_pod_loses_one() -> None:
    kept = claim("trainer-gpu", devices=[("n1", "g0")])
    kept["metadata"]["annotations"] = {"virt-dra.io/stopped-since": "2026-11-19T08:00:00Z"}
    keeper = {"apiGroup": "kubevirt.io", "resource": "virtualmachines", "name": "trainer", "uid": "vm-1"}
    kept["status"]["reservedFor"] = [keeper]
    answer = explained(objects(node("n1", [gpu("g0"), gpu("g1")]), user("idle", "n1", "g1", priority=-9), kept, late()))
    assert [way.text for way in answer.ways] == [
        "with g0 released, which VM team-a/trainer keeps while it is stopped (virt-dra release vm trainer -n team-a), "
        "it would start on n1"
    ]
    assert {str(device): holder.description for device, holder in answer.held}["gpu.example.com/n1/g0"] == (
        "VM team-a/trainer (claim trainer-gpu) since 2026-11-20T08:00:00Z, kept while the VM is stopped, since "
        "2026-11-19T08:00:00Z"
    )


def test_as_many_pods_lose_their_devices_as_it_takes() -> None:
    users = [user(f"u{number}", "n1", f"g{number}") for number in range(6)]
    there = objects(node("n1", [gpu(f"g{number}") for number in range(6)]), *users, late(count=4))
    ways = [way.text for way in explained(there).ways]
    freed = " and ".join(f"g{number} of pod team-a/u{number} freed" for number in range(4))
    assert ways == [f"with {freed} it would start on n1"]


def test_nobody_is_told_to_free_a_device_that_no_selector_matches() -> None:
    there = objects(node("n1", [gpu("g0", "T4")]), user("u", "n1", "g0"), late(selectors=[H100]))
    answer = explained(there)
    assert answer.headline.endswith('Nearest: n1, request gpu: 1 device: model is "T4"')
    assert (answer.held, answer.ways, answer.reason) == ((), (), "SelectorMismatch")


def _listening(name: str, claims: Sequence[str] = (), **spec: Any) -> dict[str, Any]:
    """A pod with a host port."""
    wire = pod(name, claims, **spec)
    wire["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    return wire


def _of_daemon_set(wire: dict[str, Any]) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    return {**wire, "metadata": {**wire["metadata"], "ownerReferences": [owner]}}


CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def _labelled(wire: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {**wire, "metadata": {**wire["metadata"], "labels": labels}}


CASES: dict[str, tuple[list[Any], list[str]]] = {
    "too little memory": (
        [node("n1", [gpu("g0")], memory="6Gi"), user("u", "n1", memory="4Gi"), late()],
        ["with 2Gi less memory it would start on n1"],
    ),
    "too little memory, by an amount without a short name": (
        [node("n1", [gpu("g0")], memory="7659335424"), user("u", "n1", memory="4Gi"), late()],
        ["with 888Mi less memory it would start on n1"],
    ),
    "a cordoned node": (
        [node("n1", [gpu("g0")], spec={"unschedulable": True}), late()],
        ["with node n1 uncordoned it would start on n1"],
    ),
    "a cordoned node, as the control plane taints it": (
        [node("n1", [gpu("g0")], spec={"unschedulable": True, "taints": [CORDONED]}), late()],
        ["with node n1 uncordoned it would start on n1"],
    ),
    "a node that isn't ready": (
        [
            node("n1", [gpu("g0")], spec={"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}),
            late(),
        ],
        [],
    ),
    "the name of another node in the nodeSelector": (
        [
            node("n1", [gpu("g0")], labels={"kubernetes.io/hostname": "n1"}),
            claim("late-gpu"),
            pod(LATE, ["late-gpu"], nodeSelector={"kubernetes.io/hostname": "n2", "zone": "a"}),
        ],
        ["without kubernetes.io/hostname=n2 in its nodeSelector and with node n1 labelled zone=a it would start on n1"],
    ),
    "a label of virt-handler's": (
        [
            node("n1", [gpu("g0")], labels={"cpumanager": "false"}),
            claim("late-gpu"),
            pod(LATE, ["late-gpu"], nodeSelector={"cpumanager": "true"}),
        ],
        [],
    ),
    "a host port that a DaemonSet's pod has": (
        [
            node("n1", [gpu("g0")], labels={"kubernetes.io/hostname": "n1"}),
            _of_daemon_set(_listening("other", nodeName="n1")),
            claim("late-gpu"),
            _listening(LATE, ["late-gpu"]),
        ],
        [],
    ),
    "a node's taint": (
        [node("n1", [gpu("g0")], spec={"taints": [{"key": "vips", "value": "only", "effect": "NoSchedule"}]}), late()],
        ["with a toleration of the node's taint vips=only:NoSchedule it would start on n1"],
    ),
    "a device's taint": (
        [node("n1", [gpu("g0", taints=[{"key": "broken", "effect": "NoSchedule"}])]), late()],
        ["with a toleration of the device taint broken:NoSchedule in request gpu it would start on n1"],
    ),
    "a label of the nodeSelector": (
        [node("n1", [gpu("g0")]), claim("late-gpu"), pod(LATE, ["late-gpu"], nodeSelector={"zone": "a"})],
        ["with node n1 labelled zone=a it would start on n1"],
    ),
    "one part of a selector": (
        [node("n1", [gpu("g0", "L40S")]), late(selectors=[f'device.driver == "gpu.example.com" && {H100}'])],
        ['if request gpu accepted a device whose model is "L40S" it would start on n1'],
    ),
    "too few devices": (
        [node("n1", [gpu("g0"), gpu("g1")]), late(count=3)],
        ["with 2 devices instead of 3 in request gpu it would start on n1"],
    ),
    "devices of two roots": (
        [
            node("n1", [gpu("g0", root="a"), gpu("g1", root="b")]),
            late(count=2, constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]),
        ],
        [
            "without the constraint matchAttribute resource.kubernetes.io/pcieRoot "
            "of claim late-gpu it would start on n1"
        ],
    ),
    "two things at once": (
        [node("n1", [gpu("g0")], spec={"unschedulable": True}), user("u", "n1", "g0"), late()],
        ["with node n1 uncordoned and with g0 of pod team-a/u freed it would start on n1"],
    ),
    "a host port that another pod has": (
        [
            node("n1", [gpu("g0")], labels={"kubernetes.io/hostname": "n1"}),
            _listening("other", nodeName="n1"),
            claim("late-gpu"),
            _listening(LATE, ["late-gpu"]),
        ],
        ["with pod team-a/other stopped it would start on n1"],
    ),
    "a pod that it must not run beside": (
        [
            node("n1", [gpu("g0")], labels={"kubernetes.io/hostname": "n1"}),
            pod("quiet", (), nodeName="n1"),
            _labelled(pod("loud", (), nodeName="n1"), noise="yes"),
            claim("late-gpu"),
            pod(
                LATE,
                ["late-gpu"],
                affinity={
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": "kubernetes.io/hostname",
                                "labelSelector": {"matchLabels": {"noise": "yes"}},
                            }
                        ]
                    }
                },
            ),
        ],
        ["with pod team-a/loud stopped it would start on n1"],
    ),
    "a toleration by comparison that tolerates": (
        [
            node(
                "n1",
                [gpu("g0")],
                spec={"unschedulable": True, "taints": [{"key": "age", "value": "7", "effect": "NoSchedule"}]},
            ),
            claim("late-gpu"),
            pod(LATE, ["late-gpu"], tolerations=[{"key": "age", "operator": "Gt", "value": "5"}]),
        ],
        ["with node n1 uncordoned it would start on n1"],
    ),
    "nothing helps": ([node("n1", []), late()], []),
}


@pytest.mark.parametrize("case", CASES)
def test_the_way_out_of(case: str) -> None:
    parts, wanted = CASES[case]
    answer = explained(objects(*parts))
    assert (answer.verdict, [way.text for way in answer.ways]) == (WAITS, wanted)


def test_what_fits_is_no_wait() -> None:
    answer = explained(objects(node("n1", [gpu("g0")]), node("n2", []), late()))
    assert (answer.verdict, answer.fitting) == (FITS, ("n1",))
    assert answer.headline == (
        "pod team-a/late fits on 1 of 2 nodes (n1): its pod waits for its turn, or for what isn't checked here, such "
        "as volumes"
    )


def test_nodes_for_which_time_does_not_last_are_counted() -> None:
    judged: list[int] = []
    there = objects(*(node(f"n{number:02}", [gpu("g0")]) for number in range(20)), late(selectors=["false"]))
    state = replace(ClusterState.from_objects(there), interrupt=lambda: len(judged) == 5)
    subject = find_subject("pod", LATE, NAMESPACE, state.model)
    answer = answered(subject, state, lambda done, total: judged.append(done))
    assert (answer.verdict, answer.nodes, answer.unjudged) == (WAITS, 20, 15)


def test_whom_a_way_out_frees_is_enough_on_a_cluster_without_them() -> None:
    """By the allocator's own front door, over a cluster that never had the freed claims."""
    proved = 0
    for seed in range(60):
        there = _random_cluster(Random(seed))
        answer = explained(there)
        for way in answer.ways:
            if {change.kind for change in way.changes} != {"free"}:
                continue
            freed = {holder.claim.key for change in way.changes for holder in change.frees}
            left = [obj for obj in there if not (isinstance(obj, ResourceClaim) and obj.key in freed)]
            of = {
                kind: [obj for obj in left if isinstance(obj, kind)]
                for kind in (ResourceSlice, DeviceClass, ResourceClaim, Node)
            }
            snapshot = Snapshot.build(of[ResourceSlice], of[DeviceClass], of[ResourceClaim])  # type: ignore[arg-type]  # by kind
            wanted = next(obj for obj in left if isinstance(obj, ResourceClaim) and obj.name == "late-gpu")
            at = next(obj for obj in left if isinstance(obj, Node) and obj.name == way.node)
            assert isinstance(allocate(snapshot, [wanted], at), Allocated), (seed, way.text)
            proved += 1
        if answer.verdict == FITS:
            continue
        assert any(isinstance(obj, Pod) for obj in there)
    assert proved > 30


def _random_cluster(random: Random) -> list[TypedObject]:
    parts: list[Any] = []
    for number in range(3):
        devices = [gpu(f"g{number}", random.choice(["H100", "T4"]), root=random.choice("ab")) for number in range(4)]
        parts.append(node(f"n{number}", devices))
        free = [device["name"] for device in devices]
        random.shuffle(free)
        holder = 0
        while free and random.random() < 0.95:
            held = [free.pop() for _ in range(min(len(free), random.choice([1, 1, 2])))]
            parts.append(user(f"u{number}-{holder}", f"n{number}", *held, priority=random.choice([0, 10])))
            holder += 1
    constraints = [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}] if random.random() < 0.3 else []
    parts.append(late(selectors=[H100], count=random.choice([1, 2]), constraints=constraints))
    return objects(*parts)
