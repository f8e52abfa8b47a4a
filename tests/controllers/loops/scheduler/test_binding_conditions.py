"""Binding conditions: a pod waits for its devices while others go on (C-6), in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controllers.loops.scheduler.test_scheduler_loop import World, played, pod, seconds
from tests.controllers.loops.test_scheduler import DRIVER, claim, node
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.scheduling.dynamic_resources.binding_conditions import BindingFailed, ready, summary

FABRIC = {"bindingConditions": ["Attached", "Powered"], "bindingFailureConditions": ["Broken"]}


def conditional_slice(name: str, devices: int) -> ResourceSlice:
    published = [{"name": f"d{i}", "attributes": {"model": {"string": "A"}}, **FABRIC} for i in range(devices)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return ResourceSlice.from_wire(
        {"metadata": {"name": name}, "spec": {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": published}}
    )


def reported(device: str, pool: str, **conditions: str) -> dict[str, Any]:
    at = "2026-11-22T12:00:00Z"
    listed = [
        {"type": name, "status": status, "reason": "Reported", "message": f"{name} it is", "lastTransitionTime": at}
        for name, status in conditions.items()
    ]
    return {"driver": DRIVER, "pool": pool, "device": device, "conditions": listed}


async def report(world: World, **conditions: str) -> None:
    """The driver reports about the device of claim c."""
    claim = await world.claim("c")
    assert claim.status.allocation is not None
    result = claim.status.allocation.devices.results[0]
    merge = {"status": {"devices": [reported(result.device, result.pool, **conditions)]}}
    await world.memory.patch(ResourceClaim, "c", "lab", merge=merge, subresource="status")


def test_the_pod_is_bound_when_all_conditions_are_true_and_others_do_not_wait() -> None:
    """C-6.4, C-6.5."""

    async def scenario(world: World) -> None:
        await world.add(pod("p", "c"))
        await seconds(20)
        assert await world.nodes("p") == [None]
        assert await world.reasons("p") == {"BindingConditionsPending"}
        await world.add(pod("other", "d"))
        await seconds(1)
        assert await world.nodes("other") == [None]  # waits for its own device, on the second
        await report(world, Attached="True")
        await seconds(10)
        assert await world.nodes("p") == [None]
        await report(world, Attached="True", Powered="True")
        await seconds(6)
        assert await world.nodes("p") == ["n1"]
        assert await world.reasons("p") == {"BindingConditionsPending", "Scheduled"}

    played(scenario, node("n1"), conditional_slice("n1", 2), claim("c"), claim("d"))


def test_after_ten_minutes_the_claim_is_deallocated_and_allocated_again() -> None:
    """C-6.3, C-6.4, C-6.5."""

    async def scenario(world: World) -> None:
        await world.add(pod("p", "c"))
        await seconds(599)
        assert await world.condition("p") is None
        before = await world.claim("c")
        await seconds(1.5)
        text = 'running PreBind plugin "DynamicResources": device binding timeout: context deadline exceeded'
        assert await world.condition("p") == ("False", "SchedulerError", text)
        assert (await world.claim("c")).status.reserved_for == ()
        await seconds(10)
        again = await world.claim("c")
        assert before.status.allocation is not None
        assert again.status.allocation is not None
        assert again.status.allocation.allocation_timestamp != before.status.allocation.allocation_timestamp
        condition = await world.condition("p")
        assert condition is not None
        assert condition[2].startswith(
            "0/1 nodes are available: 1 resourceclaim not available on the node. "
            "deallocation of ResourceClaim completed, preemption: "
        )

    played(scenario, node("n1"), conditional_slice("n1", 1), claim("c"))


def test_a_failure_condition_ends_the_wait() -> None:
    """C-6.2, C-6.4: Unreserve takes the reservation back, the next attempt deallocates."""

    async def scenario(world: World) -> None:
        await world.add(pod("p", "c"))
        await seconds(1)
        await report(world, Broken="True")
        await seconds(4.5)
        text = (
            'running PreBind plugin "DynamicResources": device binding failed: '
            'claim=c, reason=Reported, message="Broken it is"'
        )
        assert await world.condition("p") == ("False", "SchedulerError", text)
        await seconds(5)
        assert (await world.claim("c")).status.devices == ()
        await report(world, Attached="True", Powered="True")
        await seconds(10)
        assert await world.nodes("p") == ["n1"]

    played(scenario, node("n1"), conditional_slice("n1", 1), claim("c"))


def test_a_pod_that_is_deleted_while_it_waits_leaves_nothing_reserved() -> None:
    """C-22.2."""

    async def scenario(world: World) -> None:
        await world.add(pod("p", "c"))
        await seconds(1)
        await world.memory.delete(type(pod("p")), "p", "lab")
        await report(world, Attached="True", Powered="True")
        await seconds(10)
        assert (await world.claim("c")).status.reserved_for == ()
        await world.add(pod("q", "c"))
        await seconds(5)
        assert await world.nodes("q") == ["n1"]

    played(scenario, node("n1"), conditional_slice("n1", 1), claim("c"))


def allocated(*devices: dict[str, Any]) -> ResourceClaim:
    results = [{"request": "r", "driver": DRIVER, "pool": "n1", "device": f"d{i}", **FABRIC} for i in range(2)]
    status = {"allocation": {"devices": {"results": results}}, "devices": list(devices)}
    return ResourceClaim.from_wire({"metadata": {"name": "c", "namespace": "lab"}, "status": status})


READY = {"Attached": "True", "Powered": "True"}


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ((), False),
        ((reported("d0", "n1", **READY),), False),
        ((reported("d0", "n1", **READY), reported("d1", "n1", **READY)), True),
        ((reported("d0", "n1", Attached="True", Powered="False"), reported("d1", "n1", **READY)), False),
        ((reported("d0", "n2", **READY), reported("d1", "n1", **READY)), False),
        ((reported("d1", "n1", Broken="True"),), False),  # the first one isn't ready, which hides it
        ((reported("d0", "n1", **READY), reported("d1", "n1", **READY, Broken="False")), True),
    ],
)
def test_a_claim_is_ready_when_every_device_is(devices: tuple[dict[str, Any], ...], *, expected: bool) -> None:
    """C-6.2."""
    assert ready(allocated(*devices)) is expected


def test_a_failure_of_the_first_device_that_is_not_ready_is_an_error() -> None:
    """C-6.2."""
    with pytest.raises(
        BindingFailed, match=r'^device binding failed: claim=c, reason=Reported, message="Broken it is"$'
    ):
        ready(allocated(reported("d0", "n1", **READY), reported("d1", "n1", Broken="True")))


def test_an_unallocated_claim_is_not_ready() -> None:
    """C-6.2."""
    assert not ready(ResourceClaim())


def test_the_log_says_what_is_missing() -> None:
    """C-6.7."""
    claim = allocated(reported("d0", "n1", Attached="True", Broken="True"))
    assert summary([claim]) == (
        f"<driver={DRIVER}, pool=n1> d0 failed=[Broken] pending=[Powered]; "
        f"<driver={DRIVER}, pool=n1> d1 pending=[Attached,Powered]"
    )


def test_devices_stay_in_flight_until_the_whole_wait_is_over() -> None:
    """C-5.13, C-5.14: claims are written first, then the conditions are awaited, and only then the pod is bound."""

    async def scenario(world: World) -> None:
        await world.add(pod("p", "c"))
        await seconds(2)
        waiting = await world.claim("c")
        assert [consumer.name for consumer in waiting.status.reserved_for] == ["p"]
        assert await world.nodes("p") == [None]
        await world.add(pod("q", "d"))
        await seconds(2)
        assert (await world.claim("d")).status.allocation is None  # the only device isn't given twice
        await report(world, Attached="True", Powered="True")
        await seconds(6)
        assert await world.nodes("p", "q") == ["n1", None]

    played(scenario, node("n1"), conditional_slice("n1", 1), claim("c"), claim("d"))
