"""The scheduler's loop when a write fails, conflicts, or the scheduler ends between two writes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.controllers.loops.loop_world import virtual_cluster
from tests.controllers.loops.scheduler.test_scheduler_loop import World, pod, seconds
from tests.controllers.loops.test_scheduler import GPU, claim, node, slice_
from virt_dra.api.core_v1 import Namespace, Pod, ResourceRequirements
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import counted_suffixes
from virt_dra.cluster.port import Conflict, Unavailable
from virt_dra.controllers.loops.scheduler.loop import SchedulerLoop
from virt_dra.simulator.control_plane import AmbientSources, LoopKind, control_plane
from virt_dra.simulator.virtual_time import run_virtually, virtual_now

ONE = {"example.com/gpu": "1"}
WRITES = ("create", "update", "update_status", "patch", "bind")


class Failing:
    """A cluster whose n-th write of the scheduler fails, before or after it took effect. Events don't count."""

    def __init__(self, memory: MemoryCluster, number: int, error: type[Exception], *, after: bool) -> None:
        self._memory, self._left, self._error, self._after = memory, number, error, after
        self.failed = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._memory, name)
        if name not in WRITES:
            return method

        async def write(first: Any, *given: Any, **options: Any) -> Any:
            if getattr(first, "KIND", "") not in ("Pod", "ResourceClaim"):
                return await method(first, *given, **options)
            self._left -= 1
            if self._left != 0:
                return await method(first, *given, **options)
            self.failed = True
            if self._after:
                await method(first, *given, **options)
            raise self._error("try again")

        return write


async def scheduler(cluster: Any) -> None:
    sources = AmbientSources(virtual_now, counted_suffixes(), lambda: 0.5)
    async with control_plane(cluster, sources, loops=(LoopKind("scheduler", SchedulerLoop),)):
        await asyncio.sleep(1000)


async def prepared() -> World:
    world = World(virtual_cluster())
    await world.add(Namespace.from_wire({"metadata": {"name": "lab"}}), GPU, node("n1"), slice_("n1", 3))
    await world.add(claim("c"), claim("d"), claim("e"), pod("p", "c", "d"), pod("q", "c"), pod("r", "e"))
    return world


async def check(world: World) -> None:
    """All have what they want, and nothing is held twice."""
    assert await world.nodes("p", "q", "r") == ["n1"] * 3
    assert sorted([str(await world.device(name)) for name in "cde"]) == ["d0", "d1", "d2"]
    assert [await world.condition(name) for name in "pqr"] == [("True", "", "")] * 3
    assert sorted(consumer.name for consumer in (await world.claim("c")).status.reserved_for) == ["p", "q"]
    assert [consumer.name for consumer in (await world.claim("d")).status.reserved_for] == ["p"]


@pytest.mark.parametrize(("error", "after"), [(Conflict, False), (Unavailable, False), (Unavailable, True)])
@pytest.mark.parametrize("number", range(1, 11))
def test_a_write_that_fails_is_repeated_until_all_is_as_undisturbed(
    number: int, error: type[Exception], *, after: bool
) -> None:
    """C-5.12, C-5.15, C-22.3."""

    async def main() -> None:
        world = await prepared()
        failing = Failing(world.memory, number, error, after=after)
        running = asyncio.create_task(scheduler(failing))
        await seconds(400)
        assert failing.failed
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await check(world)

    run_virtually(main())


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, 11))
def test_a_scheduler_that_ends_between_two_writes_has_a_successor(number: int, *, after: bool) -> None:
    """C-22.3, C-22.15."""

    async def main() -> None:
        world = await prepared()
        with pytest.raises(BaseExceptionGroup):
            await scheduler(Failing(world.memory, number, RuntimeError, after=after))
        running = asyncio.create_task(scheduler(world.memory))
        await seconds(400)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await check(world)

    run_virtually(main())


def test_a_pod_that_was_bound_keeps_its_claims_however_long_nobody_answers() -> None:
    """C-20.23, C-7.7: a binding whose answer is lost, and then the reads that ask for it: it counts as what it is."""

    class Mute(Failing):
        """No answer to the binding, nor to ten reads of a pod."""

        def __init__(self, memory: MemoryCluster) -> None:
            super().__init__(memory, 0, Unavailable, after=True)
            self.unanswered = 0

        def __getattr__(self, name: str) -> Any:
            method = getattr(self._memory, name)

            async def bind(pod: Pod, node: str) -> None:
                await method(pod, node)
                self.unanswered = 10
                raise Unavailable("unexpected EOF")

            async def get(*given: Any) -> Any:
                if self.unanswered:
                    self.unanswered -= 1
                    raise Unavailable("unexpected EOF")
                return await method(*given)

            return {"bind": bind, "get": get}.get(name, method)

    async def story() -> None:
        cluster = virtual_cluster()
        world = World(cluster)
        await world.add(
            Namespace.from_wire({"metadata": {"name": "lab"}}),
            GPU,
            node("n1"),
            slice_("n1", 1),
            claim("c"),
            pod("p", "c"),
        )
        running = asyncio.ensure_future(scheduler(Mute(cluster)))
        await asyncio.sleep(100)
        running.cancel()
        assert await world.nodes("p") == ["n1"]
        assert [consumer.name for consumer in (await world.claim("c")).status.reserved_for] == ["p"]
        assert await world.condition("p") == ("True", "", "")

    run_virtually(story())


def test_a_special_claim_that_was_made_without_an_answer_is_used() -> None:
    """C-20.24, C-7.6: no second one is made while the watch doesn't show the first."""

    class Deaf:
        """The creation of a claim is stored, and answered with an error; watches of claims say nothing afterwards."""

        def __init__(self, memory: MemoryCluster) -> None:
            self._memory, self.made = memory, 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._memory, name)

        async def create(self, obj: Any) -> Any:
            created = await self._memory.create(obj)
            if isinstance(obj, ResourceClaim):
                self.made += 1
                if self.made == 1:
                    raise Unavailable("unexpected EOF")
            return created

        async def watch(self, kind: Any, *given: Any, **options: Any) -> Any:
            async for event in self._memory.watch(kind, *given, **options):
                while kind is ResourceClaim and self.made < 2 and asyncio.get_running_loop().time() < 50:
                    await asyncio.sleep(1)
                yield event

    async def story() -> None:
        cluster = virtual_cluster()
        world = World(cluster)
        serving = GPU.with_(spec=GPU.spec.with_(extended_resource_name="example.com/gpu"))
        asking = pod("p")
        container = asking.spec.containers[0].with_(
            resources=ResourceRequirements.from_wire({"requests": ONE, "limits": ONE})
        )
        await world.add(Namespace.from_wire({"metadata": {"name": "lab"}}), serving, node("n1"), slice_("n1", 2))
        await world.add(asking.with_(spec=asking.spec.with_(containers=(container,))))
        running = asyncio.ensure_future(scheduler(Deaf(cluster)))
        await asyncio.sleep(100)
        running.cancel()
        assert await world.nodes("p") == ["n1"]
        assert len((await cluster.list(ResourceClaim, "lab")).items) == 1

    run_virtually(story())
