"""Single stories on the embedded cluster that histories reach seldom, with the device at every turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from devtools.keeping.world import NAMESPACE, VMS, World
from virt_dra.api.core_v1 import Namespace
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.model.claim_nodes import claim_node
from virt_dra.model.keep_ends import LEASE_OVER, NODE_LOST
from virt_dra.simulator.virtual_time import VirtualLoop

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

Story = Callable[[World], Awaitable[None]]


async def device(world: World) -> tuple[str, str]:
    """The node and the device that VM b has or keeps; empty without."""
    claims = {claim.name: claim for claim in (await world.cluster.list(ResourceClaim, NAMESPACE)).items}
    claim = claims.get("b-gpu")
    if claim is None or claim.status.allocation is None:
        return "", ""
    return claim_node(claim), claim.status.allocation.devices.results[0].device


async def runs(world: World) -> bool:
    vmis = (await world.cluster.list(VirtualMachineInstance, NAMESPACE)).items
    return any(vmi.name == "b" and vmi.status.phase == "Running" for vmi in vmis)


async def node_is_deleted(world: World) -> None:
    """Started before its time is over, the VM waits for its node, and starts elsewhere then."""
    for other in ("a", "c"):
        await world.delete(VirtualMachine, other)
    await world.wait(MINUTE)
    node, _ = await device(world)
    world.metrics.reasons.clear()
    await world.start("b", runs=False)
    await world.wait(MINUTE)
    await world.remove_node(node)
    await world.wait(MINUTE)
    await world.start("b", runs=True)
    await world.wait(28 * MINUTE)
    assert ((await device(world))[0], await runs(world), world.metrics.reasons) == (node, False, [])
    await world.wait(10 * MINUTE)
    elsewhere, _ = await device(world)
    assert elsewhere not in ("", node)
    assert (await runs(world), world.metrics.reasons) == (True, [NODE_LOST])


async def keeper_is_away_for_a_day(world: World) -> None:
    """Nobody gets the device meanwhile, though the lease is over; then it is released."""
    await world.start("b", runs=False)
    await world.wait(MINUTE)
    kept = await device(world)
    world.stop_keeper()
    await world.thieves(3)
    await world.wait(DAY)
    assert await device(world) == kept != ("", "")
    world.start_keeper()
    await world.wait(2 * MINUTE)
    assert (await device(world), world.metrics.reasons) == (("", ""), [LEASE_OVER])


async def two_keepers(world: World) -> None:
    """Two at once, as for a moment when the leader changes."""
    second = asyncio.create_task(world._kept_running(world._keeper))
    kept = await device(world)
    await world.thieves(3)
    for _ in range(20):
        await world.start("b", runs=False)
        await world.wait(20.0)
        await world.start("b", runs=True)
        await world.wait(20.0)
        assert await device(world) == kept != ("", "")
    await world.start("b", runs=False)
    await world.wait(2 * HOUR + 2 * MINUTE)
    assert (await device(world), world.metrics.reasons) == (("", ""), [LEASE_OVER])
    second.cancel()


async def namespace_is_deleted(world: World) -> None:
    """With a VM that keeps its device, and two that run."""
    await world.start("b", runs=False)
    await world.wait(MINUTE)
    await world.cluster.delete(Namespace, NAMESPACE)
    await world.wait(10 * MINUTE)
    kinds = (Namespace, VirtualMachine, VirtualMachineInstance, ResourceClaim)
    assert [obj.name for kind in kinds for obj in (await world.cluster.list(kind)).items] == []


STORIES: tuple[Story, ...] = (node_is_deleted, keeper_is_away_for_a_day, two_keepers, namespace_is_deleted)


@pytest.mark.parametrize("standalone", [False, True])
@pytest.mark.parametrize("story", STORIES)
def test_a_story(story: Story, standalone: bool) -> None:
    async def played() -> None:
        world = World(7, standalone=standalone, old=False)
        async with world.running():
            for name in VMS:
                await world.create(name, keeps=True, own=False, starts=True)
            await world.wait(MINUTE)
            await story(world)
            assert world.judge.problems == []

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(played())
