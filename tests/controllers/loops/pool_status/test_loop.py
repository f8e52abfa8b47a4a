"""The loop of pool status on the embedded cluster under virtual time (C-12)."""

from __future__ import annotations

from typing import Any

from tests.controllers.loops.loop_world import LoopWorld, play
from tests.controllers.loops.taint_eviction.objects import DRIVER, gpus, rule
from virt_dra.api.feature_gates import FeatureGates
from virt_dra.api.resource_v1 import ResourcePoolStatusRequest, ResourcePoolStatusRequestStatus, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import NotFound, Unavailable
from virt_dra.simulator.control_plane import LOOPS

LOOP = "pool status"
GATES = FeatureGates(resource_pool_status=True)
HOUR = 3600.0


def request(name: str = "request", **spec: Json) -> ResourcePoolStatusRequest:
    return ResourcePoolStatusRequest.from_wire({"metadata": {"name": name}, "spec": {"driver": DRIVER, **spec}})


async def status(world: LoopWorld, name: str = "request") -> ResourcePoolStatusRequestStatus | None:
    return (await world.cluster.get(ResourcePoolStatusRequest, name)).status


async def is_there(world: LoopWorld, name: str = "request") -> bool:
    try:
        await status(world, name)
    except NotFound:
        return False
    return True


def test_a_request_is_answered_once() -> None:
    """C-12.1: what changes later doesn't change the answer."""

    async def story(world: LoopWorld) -> None:
        await world.create(gpus({"gpu-0": [], "gpu-1": []}))
        await world.create(rule(effect="NoSchedule", selector={"device": "gpu-1"}))
        await world.create(request())
        await world.calm()
        first = await status(world)
        assert first is not None
        (pool,) = first.pools
        assert (pool.total_devices, pool.available_devices, pool.unavailable_devices, pool.node_name) == (
            2,
            1,
            1,
            "node-a",
        )
        await world.cluster.delete(ResourceSlice, "slice")
        await world.calm(60)
        assert await status(world) == first
        assert world.metrics.counters == {"resourcepoolstatusrequest_controller_requests_processed_total": 1}

    play(story, LOOP, gates=GATES)


def test_a_pool_that_becomes_complete_in_time_is_answered() -> None:
    """C-12.4: five more attempts within 155 ms."""

    async def story(world: LoopWorld) -> None:
        half = gpus({"gpu-0": []})
        await world.create(half.with_(spec=half.spec.with_(pool=half.spec.pool.with_(resource_slice_count=2))))
        await world.create(request())
        await world.calm(0.1)
        assert await status(world) is None
        other = gpus({"gpu-1": []}, "other")
        await world.create(other.with_(spec=other.spec.with_(pool=other.spec.pool.with_(resource_slice_count=2))))
        await world.calm()
        answered = await status(world)
        assert answered is not None
        assert answered.pools[0].total_devices == 2

    play(story, LOOP, gates=GATES)


def test_a_request_about_an_incomplete_pool_stays_without_an_answer_for_a_day() -> None:
    """C-12.4, C-12.9, C-20.10: until it is changed; then it is deleted unanswered."""

    async def story(world: LoopWorld) -> None:
        half = gpus({"gpu-0": []})
        stored = await world.create(half.with_(spec=half.spec.with_(pool=half.spec.pool.with_(resource_slice_count=2))))
        await world.create(request(), request("touched"))
        await world.calm(60)
        await world.cluster.update(stored.with_(spec=half.spec))
        await world.calm(60)
        assert [await status(world, name) for name in ("request", "touched")] == [None, None]
        await world.cluster.patch(ResourcePoolStatusRequest, "touched", merge={"metadata": {"labels": {"a": "b"}}})
        await world.calm()
        assert await status(world, "touched") is not None
        await world.calm(23.9 * HOUR)
        assert await is_there(world)
        await world.calm(0.5 * HOUR)
        assert not await is_there(world)

    play(story, LOOP, gates=GATES)


def test_an_answered_request_is_deleted_after_an_hour() -> None:
    """C-12.9: looked for every ten minutes."""

    async def story(world: LoopWorld) -> None:
        await world.create(request())
        await world.calm(HOUR)
        assert await is_there(world)
        await world.calm(601)
        assert not await is_there(world)

    play(story, LOOP, gates=GATES)


class Refusing:
    """A cluster that doesn't take the first statuses."""

    def __init__(self, cluster: MemoryCluster, times: int) -> None:
        self._cluster, self._times = cluster, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def update_status(self, obj: Any) -> Any:
        if self._times:
            self._times -= 1
            raise Unavailable("later")
        return await self._cluster.update_status(obj)


def test_a_status_that_cant_be_written_is_tried_five_times_more() -> None:
    """C-12.1, C-2.7: the sixth failure is the last."""

    async def story(world: LoopWorld) -> bool:
        await world.create(request())
        await world.calm(60)
        return await status(world) is not None

    assert play(story, LOOP, gates=GATES, between=lambda cluster: Refusing(cluster, 5))
    assert not play(story, LOOP, gates=GATES, between=lambda cluster: Refusing(cluster, 6))


def test_the_loop_runs_only_with_its_gate() -> None:
    """C-2.1: DRAResourcePoolStatus, which is off; eviction with DRADeviceTaints, which is on."""
    runs = {loop.name: loop.runs for loop in LOOPS}
    assert (runs[LOOP](FeatureGates()), runs[LOOP](GATES)) == (False, True)
    assert (
        runs["device taint eviction"](FeatureGates()),
        runs["device taint eviction"](FeatureGates(device_taints=False)),
    ) == (
        True,
        False,
    )
