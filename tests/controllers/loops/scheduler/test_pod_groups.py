"""Pod groups: scheduled together or not at all, with claims that they share (C-9), in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.controllers.loops.loop_world import LoopWorld, play
from tests.controllers.loops.scheduler.test_scheduler_loop import World, pod, seconds
from tests.controllers.loops.test_scheduler import GPU, claim, node, slice_
from virt_dra.api.core_v1 import Pod
from virt_dra.api.feature_gates import PLAIN
from virt_dra.api.meta import TypedObject
from virt_dra.api.scheduling_v1 import PodGroup
from virt_dra.scheduling.framework.group_cycle import GroupSize

GATES = replace(PLAIN, generic_workload=True, workload_resource_claims=True)
REJECTED = "pod group is unschedulable"
NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"


def gang(count: int, *claims: str) -> PodGroup:
    entries = [{"name": name, "resourceClaimName": name} for name in claims]
    policy: dict[str, Any] = {"gang": {"minCount": count}} if count else {"basic": {}}
    return PodGroup.from_wire(
        {"metadata": {"name": "g", "namespace": "lab"}, "spec": {"schedulingPolicy": policy, "resourceClaims": entries}}
    )


def member(name: str, *claims: str) -> Pod:
    return pod(name, *claims, schedulingGroup={"podGroupName": "g"})


def played(scenario: Callable[[World], Awaitable[None]], *objects: TypedObject) -> None:
    async def story(loops: LoopWorld) -> None:
        world = World(loops.cluster)
        await world.add(GPU, *objects)
        await scenario(world)

    play(story, "scheduler", gates=GATES)


async def group_condition(world: World) -> tuple[str, str, str]:
    condition = (await world.memory.get(PodGroup, "g", "lab")).status.conditions[0]
    return condition.status, condition.reason, condition.message


def test_all_pods_of_a_group_share_its_claim_and_bind() -> None:
    """C-9.1, C-9.2, C-20.2: with ours all members bind in the first attempt, and the claim is reserved for the group
    once."""

    async def scenario(world: World) -> None:
        names = [f"p{number}" for number in range(5)]
        await world.add(gang(5, "c"), *(member(name, "c") for name in names))
        await seconds(1)
        assert await world.nodes(*names) == ["n1"] * 5
        reserved = (await world.claim("c")).status.reserved_for
        assert [(consumer.api_group, consumer.resource, consumer.name) for consumer in reserved] == [
            ("scheduling.k8s.io", "podgroups", "g")
        ]
        assert await group_condition(world) == ("True", "Scheduled", "")
        for name in names:
            assert await world.reasons(name) == {"Scheduled"}

    played(scenario, node("n1"), slice_("n1", 1), claim("c"))


def test_a_gang_waits_until_enough_of_its_pods_are_there() -> None:
    """C-9.1: held back at PreEnqueue."""

    async def scenario(world: World) -> None:
        await world.add(member("p0", "c"))
        await seconds(5)
        await world.add(gang(2, "c"))
        await seconds(5)
        assert await world.nodes("p0") == [None]
        assert await world.condition("p0") is None
        await world.add(member("p1", "c"))
        await seconds(5)
        assert await world.nodes("p0", "p1") == ["n1", "n1"]

    played(scenario, node("n1"), slice_("n1", 1), claim("c"))


def test_none_is_bound_if_not_enough_fit_and_nothing_stays_in_use() -> None:
    """C-9.1, C-9.4."""

    async def scenario(world: World) -> None:
        await world.add(gang(3), *(member(f"p{number}", name) for number, name in enumerate("cde")))
        await seconds(1)
        missing = "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining"
        text = f"{missing}, {NO_VICTIMS}"
        assert await world.condition("p0") == ("False", "Unschedulable", f"{REJECTED}, {text}")
        assert await world.condition("p1") == (
            "False",
            "Unschedulable",
            "0/1 nodes are available: 1 cannot allocate all claims.",
        )
        assert await world.condition("p2") == ("False", "Unschedulable", missing)
        assert await group_condition(world) == ("False", "Unschedulable", text)
        await world.add(pod("alone", "f"))
        await seconds(1)
        assert await world.nodes("alone") == ["n1"]  # the group holds no device
        await world.add(node("n2"), slice_("n2", 3))
        await seconds(30)
        assert await world.nodes("p0", "p1", "p2") == ["n2"] * 3
        assert await group_condition(world) == ("True", "Scheduled", "")

    played(scenario, node("n1"), slice_("n1", 1), *(claim(name) for name in "cdef"))


def test_a_group_that_is_no_gang_schedules_what_fits() -> None:
    async def scenario(world: World) -> None:
        await world.add(gang(0), member("p0", "c"), member("p1", "d"))
        await seconds(1)
        assert await world.nodes("p0", "p1") == ["n1", None]
        assert await world.condition("p1") == (
            "False",
            "Unschedulable",
            "0/1 nodes are available: 1 cannot allocate all claims.",
        )

    played(scenario, node("n1"), slice_("n1", 1), claim("c"), claim("d"))


@pytest.mark.parametrize(
    ("remaining", "found", "text", "possible"),
    [
        (3, 0, "minCount (3) is not yet satisfied: 0 scheduled, 3 remaining", True),
        (1, 1, "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining", False),
        (0, 3, "", True),
    ],
)
def test_what_a_gang_misses(remaining: int, found: int, text: str, *, possible: bool) -> None:
    """C-9.1."""
    assert GroupSize(3, 0).missing(remaining, found) == (text, possible)
