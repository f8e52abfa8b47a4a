"""Devices that use the node's own resources (C-8): what scenarios can't show, since the API server refuses it."""

from __future__ import annotations

from typing import Any

import pytest

from devtools.allocator import build
from tests.scheduling.build import pod
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim, ResourceSlice
from virt_dra.scheduling.dynamic_resources.node_allocatable import MappingDevices, Taken, claim_statuses, shortages
from virt_dra.scheduling.framework.refusals import AttemptError

Json = dict[str, Any]
NODE = build.node("n1")


def _slice(resources: Json, **device: Any) -> ResourceSlice:
    return build.slice_(
        {"pool": "n1", "node": "n1", "devices": [{"name": "d0", "nodeAllocatableResources": resources, **device}]}
    )


def _taken(**result: Any) -> Taken:
    wire = {"request": "r0", "driver": build.DRIVER, "pool": "n1", "device": "d0", **result}
    allocation = AllocationResult.from_wire({"devices": {"results": [wire]}})
    return Taken(build.claim({"name": "k", "requests": [{}]}), allocation)


def test_a_capacity_key_needs_consumed_capacity() -> None:
    """C-8.2: without it the attempt ends in an error."""
    devices = MappingDevices([_slice({"cpu": {"mapping": {"capacityKey": "cores", "capacityMultiplier": "1"}}})])
    with pytest.raises(AttemptError) as error:
        claim_statuses(pod(), {}, [_taken()], devices, NODE)
    assert str(error.value) == (
        "claim ns/k, device d0: ConsumedCapacity is nil, but Capacity key 'cores' "
        "is set in NodeAllocatableResources for resource cpu"
    )


def test_a_key_that_was_not_consumed_contributes_nothing() -> None:
    """C-8.2"""
    devices = MappingDevices([_slice({"cpu": {"mapping": {"capacityKey": "cores"}}})])
    assert claim_statuses(pod(), {}, [_taken(consumedCapacity={"other": "3"})], devices, NODE) == ()


def test_a_device_that_is_gone_is_an_error() -> None:
    """C-8.2: devices of a claim are looked up, and must be there."""
    devices = MappingDevices([_slice({"cpu": {"mapping": {"deviceMultiplier": "1"}}})])
    with pytest.raises(AttemptError) as error:
        claim_statuses(pod(), {}, [_taken(device="d1")], devices, NODE)
    assert (
        str(error.value)
        == "claim ns/k, device d1, driver gpu.example.com: device d1 not found in pool n1 for driver gpu.example.com"
    )


def test_devices_of_other_nodes_do_not_count() -> None:
    """C-8.2: a node's slices are those that it reaches."""
    devices = MappingDevices([_slice({"cpu": {"mapping": {"deviceMultiplier": "1"}}})])
    allocation = _taken().allocation
    assert devices.concern(allocation, NODE)
    assert not devices.concern(allocation, build.node("n2"))
    assert devices.maps(allocation)
    assert not MappingDevices([_slice({})]).any


@pytest.mark.parametrize(
    ("requests", "texts", "resolvable"),
    [
        ({"cpu": 3000}, (), True),
        ({"cpu": 3001}, ("Insufficient cpu",), True),
        ({"cpu": 4001, "memory": 1}, ("Insufficient cpu",), False),
        ({"memory": 2**31, "ephemeral-storage": 5}, ("Insufficient memory", "Insufficient ephemeral-storage"), False),
        ({"hugepages-2Mi": 1}, ("Insufficient hugepages-2Mi",), False),
        ({"example.com/gpu": 9}, (), True),
    ],
)
def test_what_a_node_has_too_little_of(requests: dict[str, int], texts: tuple[str, ...], resolvable: bool) -> None:
    """C-8.5: evicting pods helps unless the whole node has too little."""
    node = build.node({"name": "n1", "status": {"allocatable": {"cpu": "4", "memory": "1Gi"}}})
    assert shortages(requests, node, {"cpu": 1000}) == (texts, resolvable)


def test_a_claim_is_the_one_of_its_entry() -> None:
    """C-8.3: containers that name the entry, init containers first."""
    containers = [{"name": "a", "resources": {"claims": [{"name": "e"}]}}, {"name": "b"}]
    init = [{"name": "i", "resources": {"claims": [{"name": "e"}]}}]
    asking = pod(spec={"containers": containers, "initContainers": init})
    devices = MappingDevices([_slice({"memory": {"overhead": {"perContainer": "1Mi"}}})])
    claim: ResourceClaim = _taken().claim
    (status,) = claim_statuses(asking, {"e": claim.metadata.uid}, [_taken()], devices, NODE)
    assert (status.resource_claim_name, status.containers) == ("k", ("i", "a"))
