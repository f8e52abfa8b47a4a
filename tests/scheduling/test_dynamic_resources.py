"""The plugin DynamicResources in scheduling cycles: what it decides, reserves and refuses (C-5, C-6, C-9). No
cluster."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from virt_dra.allocator import Features
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from virt_dra.scheduling.dynamic_resources.binding_conditions import BindingDeadline
from virt_dra.scheduling.dynamic_resources.claim_cache import ClaimCache
from virt_dra.scheduling.dynamic_resources.device_ledger import DeviceLedger, Published
from virt_dra.scheduling.dynamic_resources.plugin import (
    DeviceAttempt,
    DeviceOptions,
    DynamicResources,
    FilterTimer,
    GroupAllocations,
)
from virt_dra.scheduling.dynamic_resources.pod_devices import DeviceLimits
from virt_dra.scheduling.framework.cycle import FoundNode, NotFitting, SchedulingCycle, remedies
from virt_dra.scheduling.framework.node_table import NodeTable
from virt_dra.scheduling.framework.refusals import AttemptError

DRIVER = "gpu.example.com"
PLAIN = DeviceOptions()
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def device_slice(node: str, *devices: dict[str, Any]) -> ResourceSlice:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": list(devices)}
    return ResourceSlice.from_wire({"metadata": {"name": node}, "spec": spec})


def claim(name: str, *, device_class: str = "gpu", **status: Any) -> ResourceClaim:
    request = {"name": "r", "exactly": {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}}
    metadata = {"name": name, "namespace": "lab", "uid": f"uid-{name}", "resourceVersion": "1"}
    return ResourceClaim.from_wire(
        {"metadata": metadata, "spec": {"devices": {"requests": [request]}}, "status": status}
    )


def pod(name: str, *claims: str) -> Pod:
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    return Pod.from_wire(
        {"metadata": {"name": name, "namespace": "lab", "uid": f"uid-{name}"}, "spec": {"resourceClaims": entries}}
    )


class Scheduler:
    """One plugin over some nodes."""

    def __init__(
        self, slices: Sequence[ResourceSlice], claims: Sequence[ResourceClaim], options: DeviceOptions = PLAIN
    ) -> None:
        classes = [DeviceClass.from_wire({"metadata": {"name": "gpu"}})]
        self.ledger = DeviceLedger(lambda: Published(slices, classes))
        self.claims = ClaimCache(self.ledger.claim_changed)
        for claim in claims:
            self.claims.seen(claim)
        self.plugin = DynamicResources(self.claims, self.ledger, lambda key: (), options)
        table = NodeTable()
        for name in sorted({slice_.spec.node_name or "" for slice_ in slices}):
            table.put(Node.from_wire({"metadata": {"name": name}}))
        self.cycle = SchedulingCycle((self.plugin,), table)

    def found(self, pod: Pod) -> tuple[FoundNode, DeviceAttempt]:
        outcome = self.cycle.find(pod)
        assert isinstance(outcome, FoundNode)
        attempt = outcome.parts[0].attempt
        assert isinstance(attempt, DeviceAttempt)
        attempt.reserve(outcome.node)
        return outcome, attempt

    def refused(self, pod: Pod) -> NotFitting:
        outcome = self.cycle.find(pod)
        assert isinstance(outcome, NotFitting)
        return outcome


def devices(attempt: DeviceAttempt) -> dict[str, list[str]]:
    return {
        key: [result.device for result in allocation.devices.results] for key, allocation in attempt.reserved.items()
    }


def test_what_is_reserved_is_in_flight_and_in_use_for_the_next_pod() -> None:
    """C-5.9, C-4.4: no API call is needed for that; unreserving is the exact reverse."""
    world = Scheduler([device_slice("n1", {"name": "d0"})], [claim("c"), claim("d")])
    _, attempt = world.found(pod("p", "c"))
    assert devices(attempt) == {"lab/c": ["d0"]}
    assert world.ledger.in_flight("uid-c") is not None
    assert world.refused(pod("q", "d")).diagnosis.message == "0/1 nodes are available: 1 cannot allocate all claims."
    busy = "0/1 nodes are available: resource claim lab/c is in the process of being allocated."
    assert world.refused(pod("r", "c")).diagnosis.message == busy
    attempt.unreserve()
    assert devices(world.found(pod("q", "d"))[1]) == {"lab/d": ["d0"]}


def test_a_pod_without_claims_isnt_the_plugins_business() -> None:
    """C-5.10: it takes no part, so nothing is written before the binding either."""
    world = Scheduler([device_slice("n1")], [])
    outcome = world.cycle.find(pod("p"))
    assert isinstance(outcome, FoundNode)
    assert outcome.parts == ()


@pytest.mark.parametrize(("features", "message"), [(Features(), None), (Features(device_taints=False), "d0")])
def test_the_allocator_has_the_features_of_the_gates(features: Features, message: str | None) -> None:
    """C-5.3."""
    tainted = {"name": "d0", "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    world = Scheduler([device_slice("n1", tainted)], [claim("c")], DeviceOptions(lambda: DeviceLimits(features)))
    if message is None:
        world.refused(pod("p", "c"))
    else:
        assert devices(world.found(pod("p", "c"))[1]) == {"lab/c": [message]}


def test_binding_conditions_of_a_device_are_copied_into_its_allocation() -> None:
    """C-6.1."""
    published = {"name": "d0", "bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
    _, attempt = Scheduler([device_slice("n1", published)], [claim("c")]).found(pod("p", "c"))
    (result,) = attempt.reserved["lab/c"].devices.results
    assert (result.binding_conditions, result.binding_failure_conditions) == (("Attached",), ("Broken",))


def allocated(node: str, *, at: str = "2026-11-22T12:00:00Z", reserved: Sequence[str] = ()) -> dict[str, Any]:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": "d0", "bindingConditions": ["Attached"]}
    consumers = [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in reserved]
    selector = {"nodeSelectorTerms": [term]}
    return {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": selector, "allocationTimestamp": at},
        "reservedFor": consumers,
    }


@pytest.mark.parametrize(
    ("reserved", "deallocated"), [((), True), (("p",), True), (("q",), False), (("p", "q"), False)]
)
def test_only_a_claim_that_nobody_else_uses_is_deallocated(reserved: Sequence[str], *, deallocated: bool) -> None:
    """C-5.6, C-5.7, C-6.5: its devices didn't become ready in time."""
    binding = BindingDeadline(NOW + timedelta(seconds=601), timedelta(seconds=600))
    options = DeviceOptions(lambda: DeviceLimits(binding=binding))
    world = Scheduler([device_slice("n1", {"name": "d0"})], [claim("c", **allocated("n1", reserved=reserved))], options)
    outcome = world.refused(pod("p", "c"))
    assert outcome.diagnosis.message == "0/1 nodes are available: 1 resourceclaim not available on the node."
    assert [remedy.deallocate for remedy in remedies(outcome)] == ([world.claims["lab/c"]] if deallocated else [])


def test_a_claim_whose_time_is_not_over_is_used() -> None:
    """C-6.3."""
    binding = BindingDeadline(NOW + timedelta(seconds=600), timedelta(seconds=600))
    options = DeviceOptions(lambda: DeviceLimits(binding=binding))
    world = Scheduler([device_slice("n1", {"name": "d0"})], [claim("c", **allocated("n1"))], options)
    assert world.found(pod("p", "c"))[0].node == "n1"


def test_a_search_that_takes_too_long_ends_the_attempt() -> None:
    """C-5.5, C-20.5: one slow node aborts the attempt of the pod."""
    moments = count()
    timer = FilterTimer(lambda: NOW + timedelta(seconds=next(moments)), timedelta(seconds=0.5))
    selecting = claim("c").to_wire()
    selecting["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [
        {"cel": {"expression": "device.driver != ''"}}
    ]
    options = DeviceOptions(timer=timer)
    world = Scheduler([device_slice("n1", {"name": "d0"})], [ResourceClaim.from_wire(selecting)], options)
    with pytest.raises(AttemptError) as raised:
        world.cycle.find(pod("p", "c"))
    assert (
        str(raised.value) == 'running "DynamicResources" filter plugin: node n1: timed out trying to allocate devices'
    )


def test_pods_of_a_group_adopt_what_others_were_given_in_the_order_of_their_claims() -> None:
    """C-9.1, C-9.3, C-20.1: an adopted allocation before a new one isn't swapped with it."""
    world = Scheduler([device_slice("n1", {"name": "d0"}, {"name": "d1"})], [claim("shared"), claim("own")])
    world.plugin.group = GroupAllocations()
    _, first = world.found(pod("p", "shared"))
    _, second = world.found(pod("q", "shared", "own"))
    assert devices(first) == {"lab/shared": ["d0"]}
    assert devices(second) == {"lab/shared": ["d0"], "lab/own": ["d1"]}
    first.unreserve()
    assert world.ledger.in_flight("uid-shared") is not None
    second.unreserve()
    assert world.ledger.in_flight("uid-shared") is None


@pytest.mark.parametrize(
    ("device_class", "message"),
    [
        ("", 'running PreFilter plugin "DynamicResources": request r: unsupported request type'),
        ("none", "0/1 nodes are available: request r: device class none does not exist."),
    ],
)
def test_requests_are_checked_before_any_node(device_class: str, message: str) -> None:
    """C-5.2."""
    world = Scheduler([device_slice("n1")], [claim("c", device_class=device_class)])
    try:
        text = world.refused(pod("p", "c")).diagnosis.message
    except AttemptError as error:
        text = str(error)
    assert text == message
