"""The scheduler's loop on the embedded cluster, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.controllers.loops.loop_world import EVENT, LoopWorld, play
from tests.controllers.loops.test_scheduler import GPU, claim, node, slice_
from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.memory.cluster import MemoryCluster

NOT_HELPFUL = "Preemption is not helpful for scheduling"


def unpreempted(nodes: int) -> str:
    return f"preemption: 0/{nodes} nodes are available: {nodes} {NOT_HELPFUL}."


def pod(name: str, *claims: str, **spec: Any) -> Pod:
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    given = {"resourceClaims": entries, "containers": [{"name": "c", "image": "i"}], **spec}
    return Pod.from_wire({"metadata": {"name": name, "namespace": "lab"}, "spec": given})


@dataclass
class World:
    memory: MemoryCluster

    async def add(self, *objects: TypedObject) -> None:
        for obj in objects:
            await self.memory.create(obj)

    async def pod(self, name: str) -> Pod:
        return await self.memory.get(Pod, name, "lab")

    async def claim(self, name: str) -> ResourceClaim:
        return await self.memory.get(ResourceClaim, name, "lab")

    async def condition(self, name: str) -> tuple[str, str, str] | None:
        """PodScheduled of a pod: status, reason and message."""
        conditions = [
            condition for condition in (await self.pod(name)).status.conditions if condition.type == "PodScheduled"
        ]
        return (conditions[0].status, conditions[0].reason or "", conditions[0].message or "") if conditions else None

    async def reasons(self, name: str) -> set[str]:
        """Of the pod's Events."""
        events = (await self.memory.list(EVENT, "lab")).items
        return {event.to_wire()["reason"] for event in events if event.to_wire()["involvedObject"]["name"] == name}

    async def nodes(self, *names: str) -> list[str | None]:
        return [(await self.pod(name)).spec.node_name for name in names]

    async def device(self, name: str) -> str | None:
        allocation = (await self.claim(name)).status.allocation
        return allocation.devices.results[0].device if allocation is not None else None


def played(scenario: Callable[[World], Awaitable[None]], *objects: TypedObject) -> None:
    """Run a scenario on a cluster with a device class and these objects."""

    async def story(loops: LoopWorld) -> None:
        world = World(loops.cluster)
        await world.add(GPU, *objects)
        await scenario(world)

    play(story, "scheduler")


async def seconds(number: float) -> None:
    await asyncio.sleep(number)


def test_a_pod_gets_a_node_and_its_claim_devices_and_reservation() -> None:
    """C-5.11, C-21.1, C-21.2."""

    async def scenario(world: World) -> None:
        await world.add(pod("p", "c"))
        await seconds(1)
        assert await world.nodes("p") == ["n1"]
        bound = await world.claim("c")
        assert bound.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
        assert [consumer.name for consumer in bound.status.reserved_for] == ["p"]
        assert bound.status.allocation is not None
        assert bound.status.allocation.allocation_timestamp is not None
        assert await world.condition("p") == ("True", "", "")
        assert await world.reasons("p") == {"Scheduled"}

    played(scenario, node("n1"), slice_("n1", 1), claim("c"))


def test_a_pod_that_fits_nowhere_says_so_and_is_scheduled_when_a_slice_comes() -> None:
    """C-4.6: a slice that is added wakes pods."""

    async def scenario(world: World) -> None:
        await world.add(pod("p", "c"))
        await seconds(1)
        text = f"0/2 nodes are available: 2 cannot allocate all claims. {unpreempted(2)}"
        assert await world.condition("p") == ("False", "Unschedulable", text)
        assert await world.reasons("p") == {"FailedScheduling"}
        await world.add(slice_("n2", 1))
        await seconds(3)
        assert await world.nodes("p") == ["n2"]

    played(scenario, node("n1"), node("n2"), claim("c"))


def test_a_pod_whose_claim_is_missing_has_neither_condition_nor_event() -> None:
    """C-5.1: held back at PreEnqueue."""

    async def scenario(world: World) -> None:
        await world.add(pod("p", "c"))
        await seconds(400)
        assert await world.condition("p") is None
        assert await world.reasons("p") == set()
        await world.add(claim("c"))
        await seconds(1)
        assert await world.nodes("p") == ["n1"]

    played(scenario, node("n1"), slice_("n1", 1))


def test_without_nodes_a_pod_is_tried_again_after_a_back_off() -> None:
    async def scenario(world: World) -> None:
        await world.add(pod("p"))
        await seconds(1)
        assert await world.condition("p") == ("False", "Unschedulable", "no nodes available to schedule pods")
        await world.add(node("n1"))
        await seconds(20)
        assert await world.nodes("p") == ["n1"]

    played(scenario)


def test_a_missing_device_class_refuses_the_pod_everywhere() -> None:
    """C-5.2 item 5."""

    async def scenario(world: World) -> None:
        wanting = claim("c").to_wire()
        wanting["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "none"
        await world.add(ResourceClaim.from_wire(wanting), pod("p", "c"))
        await seconds(1)
        text = f"0/1 nodes are available: request r: device class none does not exist. {unpreempted(1)}"
        assert await world.condition("p") == ("False", "Unschedulable", text)

    played(scenario, node("n1"), slice_("n1", 1))


def test_a_broken_selector_is_an_error_of_the_scheduler() -> None:
    """C-5.5: an error aborts the attempt on all nodes."""

    async def scenario(world: World) -> None:
        await world.add(claim("c", expression='device.attributes["gpu.example.com"].other == "A"'), pod("p", "c"))
        await seconds(1)
        condition = await world.condition("p")
        assert condition is not None
        assert condition[:2] == ("False", "SchedulerError")
        assert condition[2].startswith('running "DynamicResources" filter plugin: ')

    played(scenario, node("n1"), slice_("n1", 1))


def test_the_pod_of_higher_priority_goes_first() -> None:
    async def scenario(world: World) -> None:
        await world.add(pod("low", "c", priority=1), pod("high", "d", priority=2))
        await seconds(1)
        assert await world.nodes("low", "high") == [None, "n1"]

    played(scenario, node("n1"), slice_("n1", 1), claim("c"), claim("d"))


def test_pods_with_gates_and_of_other_schedulers_are_left_alone() -> None:
    async def scenario(world: World) -> None:
        await world.add(
            pod("gated", schedulingGates=[{"name": "example.com/wait"}]), pod("other", schedulerName="another")
        )
        await seconds(10)
        assert await world.nodes("gated", "other") == [None, None]
        assert await world.reasons("gated") == set()
        await world.memory.patch(Pod, "gated", "lab", merge={"spec": {"schedulingGates": None}})
        await seconds(10)
        assert await world.nodes("gated", "other") == ["n1", None]

    played(scenario, node("n1"))


def test_a_claim_on_another_node_is_deallocated_for_its_only_pod() -> None:
    """C-5.6: what the pod's node selector excludes is given back, then allocated anew."""

    async def scenario(world: World) -> None:
        await world.add(pod("first", "c"))
        await seconds(1)
        assert await world.nodes("first") == ["n1"]
        await world.memory.delete(Pod, "first", "lab")
        held = await world.claim("c")
        await world.memory.update_status(held.with_(status=held.status.with_(reserved_for=())))
        await world.add(pod("second", "c", nodeSelector={"which": "two"}))
        await seconds(5)
        assert await world.nodes("second") == ["n2"]

    two = node("n2")
    played(
        scenario,
        node("n1"),
        two.with_(metadata=two.metadata.with_(labels={"which": "two"})),
        slice_("n1", 1),
        slice_("n2", 1),
        claim("c"),
    )
