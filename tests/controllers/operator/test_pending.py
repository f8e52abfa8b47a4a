"""Why a pod gets no node: whole messages, within limits, told at a measured pace (K-12.4)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.controllers.changed_objects import changed
from tests.controllers.listed_sources import ListedSources
from tests.controllers.operator.sampled import sample_of
from tests.controllers.published_world import BASE, NOW, World
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.defaults import apply_defaults
from virt_dra.api.meta import Condition, format_time
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.controllers.beside_kubevirt import reconcile as beside_kubevirt
from virt_dra.controllers.devices.inputs import DeviceInputs
from virt_dra.controllers.operator import pending
from virt_dra.controllers.operator.pending import LIMITS, ExplainLimits

CLASS: Json = {
    "metadata": {"name": "gpu.example.com"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
}
POD = changed(BASE, {"pod.spec.nodeName": None, "pod.metadata.creationTimestamp": "2026-11-21T08:59:00Z"})["pod"]
CLAIM = changed(BASE, {"claims.0.status": None})["claims"][0]


def node(name: str, **spec: Any) -> Node:
    return Node.from_wire({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": spec})


def slice_of(name: str, devices: int) -> ResourceSlice:
    spec = {
        **BASE["slices"][0]["spec"],
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
    }
    spec["devices"] = [{"name": f"d{number}"} for number in range(devices)]
    return ResourceSlice.from_wire({"metadata": {"name": f"{name}-gpus"}, "spec": spec})


def in_use(name: str, pool: str, device: str) -> ResourceClaim:
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": pool, "device": device}
    return ResourceClaim.from_wire(
        {
            "metadata": {"name": name, "namespace": "lab", "uid": name},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }
    )


def explained(
    nodes: list[Node], slices: list[ResourceSlice], others: tuple[ResourceClaim, ...] = (), *, pod: Json = POD,
    claim: Json | None = CLAIM, classes: tuple[Json, ...] = (CLASS,), rules: tuple[Json, ...] = (),
    told: Condition | None = None, limits: ExplainLimits = LIMITS,
) -> Condition:  # fmt: skip
    mine = (
        [ResourceClaim.from_wire(apply_defaults(ResourceClaim.from_wire(claim), format_time(NOW)).to_wire())]
        if claim is not None
        else []
    )
    sample = sample_of(
        nodes,
        others,
        slices,
        map(DeviceClass.from_wire, classes),
        map(DeviceTaintRule.from_wire, rules),
        NOW,
        limits=limits,
    )
    view = pending.view_of(sample)
    return pending.explain(Pod.from_wire(pod), {claim.key: claim for claim in mine}, view, told, NOW, limits=limits)


def test_what_the_pods_own_claim_has_counts_once() -> None:
    """Of a shared device with 10 GiB the allocated claim has 6; the other claim of the pod wants 4."""
    shared = slice_of("a", 1).to_wire()
    shared["spec"]["devices"] = [
        {"name": "d0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
    ]
    result = {
        "request": "gpu", "driver": "gpu.example.com", "pool": "a", "device": "d0",
        "shareID": "0b8d7d1c-58a5-4b4e-8c0e-0b1d5f1c2d3e", "consumedCapacity": {"memory": "6Gi"},
    }  # fmt: skip
    held = ResourceClaim.from_wire({**CLAIM, "status": {"allocation": {"devices": {"results": [result]}}}})
    request = {"deviceClassName": "gpu.example.com", "capacity": {"requests": {"memory": "4Gi"}}}
    more = ResourceClaim.from_wire(
        {
            "metadata": {"name": "more", "namespace": held.namespace, "uid": "more"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}},
        }
    )
    entries = [*POD["spec"]["resourceClaims"], {"name": "more", "resourceClaimName": "more"}]
    pod = Pod.from_wire(changed({"pod": POD}, {"pod.spec.resourceClaims": entries})["pod"])
    classes = [DeviceClass.from_wire(CLASS)]
    sample = sample_of([node("a")], (held,), [ResourceSlice.from_wire(shared)], classes, [], NOW, limits=LIMITS)
    claims = {claim.key: apply_defaults(claim, format_time(NOW)) for claim in (held, more)}
    condition = pending.explain(pod, claims, pending.view_of(sample), None, NOW)
    assert (condition.status, condition.reason) == ("True", pending.FITS), condition.message


def test_by_claim_and_request_with_counts_of_nodes_and_devices() -> None:
    nodes = [node("a"), node("b"), node("c"), node("d", unschedulable=True)]
    slices = [slice_of("a", 2), slice_of("b", 1)]
    others = (in_use("x", "a", "d0"), in_use("y", "a", "d1"), in_use("z", "b", "d0"))
    assert explained(nodes, slices, others).to_wire() == {
        "type": "Allocatable",
        "status": "False",
        "reason": "NoNodeFits",
        "message": (
            "0 of 4 nodes can take the pod: "
            "2 nodes (a, b), claim lab/fedora-gpus-abcde, request gpu: 3 devices: in use; "
            "1 node (d): cordoned (unschedulable); "
            "1 node (c), claim lab/fedora-gpus-abcde, request gpu: no device on the node"
        ),
        "lastTransitionTime": "2026-11-21T09:00:00Z",
    }


def test_a_taint_rule_counts() -> None:
    rule = {
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"pool": "a"}, "taint": {"key": "k", "effect": "NoSchedule"}},
    }
    assert explained([node("a")], [slice_of("a", 1)], rules=(rule,)).message == (
        "0 of 1 nodes can take the pod: 1 node (a), claim lab/fedora-gpus-abcde, request gpu: "
        "1 device: taint k:NoSchedule isn't tolerated"
    )


def test_what_keeps_the_pod_from_every_node_is_said_without_nodes() -> None:
    assert (explained([node("a")], [], classes=()).reason, explained([node("a")], [], claim=None).reason) == (
        "ClaimsNotReady",
    ) * 2
    message = "lab/fedora-gpus-abcde: request gpu: device class gpu.example.com does not exist"
    assert explained([node("a")], [], classes=()).message == message
    assert explained([node("a")], [], claim=None).message == (
        'spec.resourceClaims[gpus]: could not find ResourceClaim "lab/fedora-gpus-abcde"'
    )


def test_where_the_claims_fit_that_is_said_too() -> None:
    condition = explained([node("a")], [slice_of("a", 1)])
    assert (condition.status, condition.reason) == ("True", "ClaimsFit")
    assert condition.message == (
        "the claims can be allocated on node a; the pod's condition PodScheduled says what else it waits for. "
        "Not known: Pods aren't given or readable: the room that they use and who runs beside whom isn't known; "
        "status.allocatable of the nodes isn't given: whether there is room isn't checked"
    )


def test_what_is_not_known_of_a_sample_is_said_of_the_tried_nodes() -> None:
    condition = explained([node("a"), node("b")], [slice_of("a", 1)], limits=ExplainLimits(nodes=1))
    assert condition.status == "True"
    assert " Not known of the tried nodes: Pods aren't given or readable: " in (condition.message or "")


def test_a_sample_says_that_it_is_one_and_prefers_nodes_with_devices() -> None:
    nodes = [node(f"n{number:04}") for number in range(500)]
    condition = explained(nodes, [slice_of("n0499", 1)], (in_use("x", "n0499", "d0"),), limits=ExplainLimits(nodes=3))
    assert condition.message == (
        "0 of 3 tried nodes (the cluster has 500) can take the pod: "
        "1 node (n0499), claim lab/fedora-gpus-abcde, request gpu: 1 device: in use; "
        "2 nodes (n0000, n0001), claim lab/fedora-gpus-abcde, request gpu: no device on the node"
    )


def test_a_search_that_is_too_long_is_cut_and_no_verdict() -> None:
    claim = changed(BASE, {"claims.0.status": None})["claims"][0]
    claim["spec"]["devices"]["requests"] = [
        {"name": f"r{number}", "exactly": {"deviceClassName": "gpu.example.com"}} for number in range(20)
    ]
    claim["spec"]["devices"]["constraints"] = [{"matchAttribute": "gpu.example.com/model"}]
    many = slice_of("a", 60)
    devices = [
        device.to_wire() | {"attributes": {"model": {"int": number % 25}}}
        for number, device in enumerate(many.spec.devices)
    ]
    spread = ResourceSlice.from_wire(many.to_wire() | {"spec": many.spec.to_wire() | {"devices": devices}})
    condition = explained([node("a")], [spread], claim=claim, limits=ExplainLimits(steps=3))
    assert (condition.status, condition.reason) == ("Unknown", "NotDecided")
    assert "no decision within 3 search steps" in condition.message


def test_a_message_has_a_length_and_a_broken_selector_is_no_traceback() -> None:
    broken: Json = {
        "metadata": {"name": "gpu.example.com"},
        "spec": {"selectors": [{"cel": {"expression": "device." + "x" * 3000}}]},
    }
    condition = explained([node("a")], [slice_of("a", 1)], classes=(broken,))
    assert condition.status == "Unknown"
    assert len(condition.message) <= 1024


def test_the_same_said_again_is_the_same_condition() -> None:
    first = explained([node("a")], [])
    assert explained([node("a")], [], told=first) is first
    assert explained([node("a")], [slice_of("a", 1)], told=first) is not first


T = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("told", "looked", "due"),
    [
        (None, None, NOW - 50 * T),  # ten seconds after its creation
        (NOW - 20 * T, None, NOW + 40 * T),
        (NOW - 20 * T, NOW - 5 * T, NOW + 55 * T),
        (NOW - 600 * T, None, NOW - 50 * T),
    ],
)
def test_when_it_is_told_again(told: datetime | None, looked: datetime | None, due: datetime) -> None:
    condition = None if told is None else Condition(type="Allocatable", last_transition_time=format_time(told))
    assert pending.due(Pod.from_wire(POD), condition, looked, NOW) == due


def test_times_that_cannot_be_read_are_none() -> None:
    pod = Pod.from_wire(changed({"pod": POD}, {"pod.metadata.creationTimestamp": "yesterday"})["pod"])
    assert pending.due(pod, Condition(last_transition_time="then"), None, NOW) == NOW + 10 * T


async def test_in_the_object_it_is_a_condition_and_an_event_until_the_pod_has_a_node() -> None:
    world = World.with_changes({"claims.0.status": None, "pod.spec.nodeName": None, "slices": []})
    asked: list[Condition | None] = []

    def explain(inputs: DeviceInputs, told: Condition | None) -> Condition | None:
        asked.append(told)
        assert pending.waits_for_node(inputs.pod)
        assert inputs.pod is not None
        view = pending.view_of(sample_of([node("a")], (), (), [DeviceClass.from_wire(CLASS)], (), NOW))
        return pending.explain(inputs.pod, inputs.claims, view, told, inputs.now)

    async def reconcile() -> list[tuple[str, str]]:
        done = await beside_kubevirt.reconcile(
            await ListedSources.read(world.memory), world.memory, "lab/fedora", world.now, explain=explain
        )
        return [(event.reason, event.message) for event in done.events]

    message = (
        "0 of 1 nodes can take the pod: 1 node (a), claim lab/fedora-gpus-abcde, request gpu: no device on the node"
    )
    assert await reconcile() == [("DevicesNotAllocatable", message)]
    assert (await world.conditions())["Allocatable"] == ("False", "NoNodeFits")
    assert await reconcile() == []
    assert (asked[0], asked[1] is not None) == (None, True)
    assert await world.told() == []  # without being asked, what was told stays
    assert (await world.conditions())["Allocatable"] == ("False", "NoNodeFits")
    await world.memory.patch(Pod, "virt-launcher-fedora-x7k2p", "lab", merge={"spec": {"nodeName": "node-a"}})
    await world.reconcile()
    assert "Allocatable" not in await world.conditions()
