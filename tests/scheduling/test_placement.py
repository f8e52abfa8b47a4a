"""Where a pod goes, and why it goes nowhere (C-5)."""

from __future__ import annotations

from typing import Any

import pytest

from devtools.allocator import build
from tests.scheduling.build import Json, claim, cluster, on_each_node, pod, with_status
from virt_dra.allocator import Features
from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.scheduling.fit import FitOptions
from virt_dra.scheduling.placement import Placement, Unplaced, place


def placed(outcome: Placement | Unplaced) -> tuple[str, dict[str, list[str]]]:
    assert isinstance(outcome, Placement), outcome
    return outcome.node, {
        allocation.claim.name: [f"{r.request} {r.pool}/{r.device}" for r in allocation.result.devices.results]
        for allocation in outcome.allocations
    }


def refused(outcome: Placement | Unplaced) -> tuple[str, str]:
    assert isinstance(outcome, Unplaced), outcome
    return outcome.reason, outcome.message


def test_the_first_node_that_fits_is_taken() -> None:
    slices = on_each_node(["n1", "n2", "n3"])
    model = cluster(["n1", "n2", "n3"], [claim("other", allocated=["gpu.example.com/n1/d0"]), claim("c")], slices)
    assert placed(place(pod("pod", "c"), model)) == ("n2", {"c": ["r0 n2/d0"]})


def test_a_pod_without_claims_is_placed_by_its_filters_alone() -> None:
    nodes: list[Json] = [
        {"name": "n1", "spec": {"unschedulable": True}},
        {"name": "n2", "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}},
        {"name": "n3", "labels": {"zone": "b"}},
        {"name": "n4", "labels": {"zone": "a"}},
    ]
    assert placed(place(pod(spec={"nodeSelector": {"zone": "a"}}), cluster(nodes, []))) == ("n4", {})


def test_the_histogram_counts_nodes_by_reason() -> None:
    nodes: list[Any] = ["n1", "n2", "n3", {"name": "n4", "spec": {"unschedulable": True}}]
    used = claim("other", allocated=["gpu.example.com/n1/d0", "gpu.example.com/n2/d0"])
    slices = on_each_node(["n1", "n2", "n4"])
    outcome = place(pod("pod", "c"), cluster(nodes, [used, claim("c")], slices))
    assert refused(outcome) == (
        "Unschedulable",
        "0/4 nodes are available: 1 node(s) were unschedulable, 3 cannot allocate all claims.",
    )
    assert isinstance(outcome, Unplaced)
    assert [
        (node.node, node.refusal.code, [reason.code for reason in (*node.node_reasons, *node.device_reasons)])
        for node in outcome.nodes
    ] == [
        ("n1", "DevicesDoNotFit", ["DeviceInUse"]),
        ("n2", "DevicesDoNotFit", ["DeviceInUse"]),
        ("n3", "DevicesDoNotFit", ["NoDevices"]),
        ("n4", "NodeUnschedulable", ["NodeUnschedulable"]),
    ]


NOT_N1 = {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
    {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]},
    {"matchExpressions": [{"key": "rack", "operator": "Gt", "values": ["3"]}], "matchFields": [NOT_N1]},
]}}}  # fmt: skip


def test_required_affinity_ors_terms_and_ignores_faulty_ones() -> None:
    nodes: list[Json] = [
        {"name": name, "labels": {"rack": rack, "zone": "a"}} for name, rack in (("n1", "9"), ("n2", "3"), ("n3", "4"))
    ]
    assert placed(place(pod(spec={"affinity": AFFINITY}), cluster(nodes, []))) == ("n3", {})


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Equal", "value": "v"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, True),
    ],
)
def test_node_taints_need_tolerations(toleration: Json, fits: bool) -> None:
    node: Json = {"name": "n1", "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}}
    outcome = place(pod(spec={"tolerations": [toleration]}), cluster([node], []))
    assert isinstance(outcome, Placement) is fits
    if not fits:
        assert refused(outcome) == ("Unschedulable", "0/1 nodes are available: 1 node(s) had untolerated taint(s).")


def test_only_node_restricts_the_choice() -> None:
    model = cluster(["n1", "n2"], [claim("c")])
    assert placed(place(pod("pod", "c"), model, only_node="n2")) == ("n2", {"c": ["r0 n2/d0"]})
    assert refused(place(pod("pod", "c"), model, only_node="n9")) == ("Unschedulable", 'node "n9" not found')


def test_no_nodes() -> None:
    assert refused(place(pod(), cluster([], []))) == ("Unschedulable", "no nodes available to schedule pods")


def test_an_allocated_claim_pulls_the_pod_to_its_node() -> None:
    there = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]}
    allocated = with_status(claim("old"), {"allocation": {"nodeSelector": there, "devices": {"results": []}}})
    assert placed(place(pod("pod", "old", "new"), cluster(["n1", "n2"], [allocated, claim("new")]))) == (
        "n2",
        {"new": ["r0 n2/d0"]},
    )


def test_an_unreachable_unused_allocation_may_be_given_back() -> None:
    gone = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]}
    mine = with_status(
        claim("mine"),
        {"allocation": {"nodeSelector": gone}, "reservedFor": [{"resource": "pods", "name": "pod", "uid": "uid-pod"}]},
    )
    shared = with_status(
        claim("shared"),
        {"allocation": {"nodeSelector": gone}, "reservedFor": [{"resource": "pods", "name": "x", "uid": "uid-x"}]},
    )
    outcome = place(pod("pod", "shared", "mine"), cluster(["n1"], [shared, mine]))
    assert refused(outcome) == ("Unschedulable", "0/1 nodes are available: 1 resourceclaim not available on the node.")
    assert isinstance(outcome, Unplaced)
    assert outcome.deallocate == mine
    only_shared = place(pod("pod", "shared"), cluster(["n1"], [shared]))
    assert isinstance(only_shared, Unplaced)
    assert only_shared.deallocate is None


def test_an_allocation_that_skips_node_operations_needs_a_node_that_can() -> None:
    result = {
        "request": "r0",
        "driver": "gpu.example.com",
        "pool": "n1",
        "device": "d0",
        "skipNodeOperations": ["PrepareResources"],
    }
    old = with_status(claim("old"), {"allocation": {"devices": {"results": [result]}}})
    nodes: list[Any] = ["n1", {"name": "n2", "status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}}]
    assert placed(place(pod("pod", "old"), cluster(nodes, [old]))) == ("n2", {})
    nowhere = place(pod("pod", "old"), cluster(["n1"], [old]))
    assert refused(nowhere) == ("Unschedulable", "0/1 nodes are available: 1 resourceclaim not available on the node.")
    assert isinstance(nowhere, Unplaced)
    assert nowhere.deallocate == old


def owned(name: str, uid: str) -> ResourceClaim:
    wire = claim(name).to_wire()
    wire["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": uid, "controller": True}
    ]
    return ResourceClaim.from_wire(wire)


def templated(status: list[Json]) -> Pod:
    wire = pod().to_wire()
    wire["spec"]["resourceClaims"] = [{"name": "entry", "resourceClaimTemplateName": "t"}]
    wire["status"] = {"resourceClaimStatuses": status}
    return Pod.from_wire(wire)


DYING = {"name": "c", "namespace": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z"}
BLOCKED: list[tuple[str, Pod, list[ResourceClaim], str, str]] = [
    ("claim missing", pod("pod", "c"), [], "Unschedulable", 'could not find ResourceClaim "ns/c"'),
    (
        "claim being deleted",
        pod("pod", "c"),
        [ResourceClaim.from_wire({**claim("c").to_wire(), "metadata": DYING})],
        "Unschedulable",
        'resourceclaim "c" is being deleted',
    ),
    ("claim not created yet", templated([]), [], "Unschedulable", 'pod "ns/pod": ResourceClaim not created yet'),
    (
        "claim of another pod",
        templated([{"name": "entry", "resourceClaimName": "c"}]),
        [owned("c", "uid-other")],
        "Unschedulable",
        "ResourceClaim ns/c was not created for Pod ns/pod (Pod is not owner)",
    ),
    ("class missing", pod("pod", "c"), [claim("c", {"class": "nope"})], "Unschedulable", "request r0: device class "
"nope "
"does not exist"),
    (
        "class of an alternative missing",
        pod("pod", "c"),
        [claim("c", {"first": [{}, {"class": "nope"}]})],
        "Unschedulable",
        "request r0/s1: device class nope does not exist",
    ),
    ("no class", pod("pod", "c"), [claim("c", {"class": ""})], "SchedulerError", "request r0: unsupported "
"request type"),
    ("unknown request", pod("pod", "c"), [claim("c", {"empty": True})], "Unschedulable",
     "resource claim ns/c, request r0: unknown request type"),
    (
        "selector error",
        pod("pod", "c"),
        [claim("c", {"when": ['device.attributes["gpu.example.com"].x == 1']})],
        "SchedulerError",
        "claim ns/c: selector #0 on device gpu.example.com/n1/d0: CEL runtime error: no such key: x. consider using "
        "CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pod_", "claims", "reason", "message"), [case[1:] for case in BLOCKED], ids=[case[0] for case in BLOCKED]
)
def test_claims_that_block_everywhere(pod_: Pod, claims: list[ResourceClaim], reason: str, message: str) -> None:
    assert refused(place(pod_, cluster(["n1"], claims))) == (reason, message)


def test_generated_claim_of_this_pod_is_used_and_unneeded_entry_skipped() -> None:
    mine = templated([{"name": "entry", "resourceClaimName": "c"}])
    assert placed(place(mine, cluster(["n1"], [owned("c", "uid-pod")]))) == ("n1", {"c": ["r0 n1/d0"]})
    assert placed(place(templated([{"name": "entry"}]), cluster(["n1"], []))) == ("n1", {})


def test_an_earlier_alternative_on_a_later_node_wins() -> None:
    wanted = claim("c", {"first": [{"when": ['device.attributes["gpu.example.com"].m == 1']}, {}]})
    slices = [
        build.slice_({"name": name, "pool": name, "node": name, "devices": [{"name": "d0", "attributes": {"m": m}}]})
        for name, m in (("n1", 2), ("n2", 1), ("n3", 1))
    ]
    assert placed(place(pod("pod", "c"), cluster(["n1", "n2", "n3"], [wanted], slices))) == (
        "n2",
        {"c": ["r0/s0 n2/d0"]},
    )


def test_a_claim_named_by_two_entries_is_allocated_once() -> None:
    assert placed(place(pod("pod", "c", "c"), cluster(["n1"], [claim("c")]))) == ("n1", {"c": ["r0 n1/d0"]})


def test_an_allocated_claim_has_its_devices_and_gives_exactly_them_back() -> None:
    model = cluster(["n1"], [claim("c"), claim("d")])
    first = place(pod("pod", "c"), model)
    assert isinstance(first, Placement)
    (allocation,) = first.allocations
    allocated = model.changed([with_status(allocation.claim, {"allocation": allocation.result.to_wire()})])
    assert refused(place(pod("pod2", "d"), allocated)) == (
        "Unschedulable",
        "0/1 nodes are available: 1 cannot allocate all claims.",
    )
    assert placed(place(pod("pod2", "c"), allocated)) == ("n1", {})
    assert placed(place(pod("pod2", "d"), allocated.changed([allocation.claim]))) == ("n1", {"d": ["r0 n1/d0"]})


def test_prioritized_list_off() -> None:
    outcome = place(
        pod("pod", "c"), cluster(["n1"], [claim("c", {"first": [{}]})]), FitOptions(Features(prioritized_list=False))
    )
    message = "resource claim ns/c, request r0: has subrequests, but the DRAPrioritizedList feature is disabled"
    assert refused(outcome) == ("Unschedulable", message)


def test_node_error_leaves_other_nodes() -> None:
    slices = [
        build.slice_({"name": "a", "pool": "a", "node": "n1", "count": 2, "devices": ["d0"]}),
        build.slice_({"name": "b", "pool": "b", "node": "n2", "devices": ["d0"]}),
    ]
    model = cluster(["n1", "n2"], [claim("c", {"all": True})], slices)
    assert placed(place(pod("pod", "c"), model)) == ("n2", {"c": ["r0 b/d0"]})
    message = (
        "claim ns/c, request r0: asks for all devices, but resource pool gpu.example.com/a is currently being updated"
    )
    assert refused(place(pod("pod", "c"), model, only_node="n1")) == (
        "Unschedulable",
        f"0/1 nodes are available: 1 {message}.",
    )
