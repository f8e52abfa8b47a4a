"""Crashes between any two writes, lost answers and conflicting writers: the end is as if nothing had happened (C-18.5,
C-18.8)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

import pytest

from tests.classic.lab import FakeDriver, Lab, claim, loops_of, new_lab, pod, resource_class, template
from tests.sampling import sample
from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import ObjectT
from virt_dra.api.wire import Json
from virt_dra.classic.objects import PodSchedulingContext
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import counted_suffixes
from virt_dra.cluster.port import Conflict, Listed, Unavailable, WatchEvent
from virt_dra.simulator.control_plane import AmbientSources, control_plane
from virt_dra.simulator.virtual_time import run_virtually, virtual_now

GPU, NET = "gpu.example.com", "net.example.com"
NEVER = 10**6


class Disturbed:
    """A cluster whose writes may be cut off. ``crash_after``: so many writes succeed, all later ones hang, and
    ``crashed`` is set. ``chance`` decides which writes are refused as conflicts, get lost, or take effect while their
    answer is lost."""

    def __init__(
        self, cluster: MemoryCluster, *, crash_after: int = NEVER, chance: random.Random | None = None
    ) -> None:
        self._cluster = cluster
        self._left = crash_after
        self._chance = chance
        self.crashed = asyncio.Event()
        self.writes = 0

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        return await self._cluster.get(kind, name, namespace)

    async def list(
        self, kind: type[ObjectT], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listed[ObjectT]:
        return await self._cluster.list(kind, namespace, labels=labels, fields=fields)

    def watch(
        self, kind: type[ObjectT], namespace: str = "", *, resource_version: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent[ObjectT]]:
        return self._cluster.watch(kind, namespace, resource_version=resource_version, labels=labels, fields=fields)

    async def create(self, obj: ObjectT) -> ObjectT:
        after = await self._before()
        return after(await self._cluster.create(obj))

    async def update(self, obj: ObjectT) -> ObjectT:
        after = await self._before()
        return after(await self._cluster.update(obj))

    async def update_status(self, obj: ObjectT) -> ObjectT:
        after = await self._before()
        return after(await self._cluster.update_status(obj))

    async def patch(
        self, kind: type[ObjectT], name: str, namespace: str = "", *, merge: dict[str, Any] | None = None,
        operations: Sequence[dict[str, Any]] | None = None, subresource: Literal["", "status"] = "",
    ) -> ObjectT:  # fmt: skip
        after = await self._before()
        return after(
            await self._cluster.patch(
                kind, name, namespace, merge=merge, operations=operations, subresource=subresource
            )
        )

    async def delete(
        self,
        kind: type[ObjectT],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        after = await self._before()
        await self._cluster.delete(
            kind, name, namespace, uid=uid, resource_version=resource_version, grace_seconds=grace_seconds
        )
        after(Pod())

    async def bind(self, pod: Pod, node: str) -> None:
        after = await self._before()
        await self._cluster.bind(pod, node)
        after(pod)

    async def _before(self) -> _After:
        self.writes += 1
        self._left -= 1
        if self._left < 0:
            self.crashed.set()
            await asyncio.Event().wait()
        fate = self._chance.random() if self._chance is not None else 1.0
        if fate < 0.1:
            raise Conflict(
                "the object has been modified; please apply your changes to the latest version and try again"
            )
        if fate < 0.2:
            raise Unavailable("connection refused")
        return _After(lost=fate < 0.3)


class _After:
    def __init__(self, *, lost: bool) -> None:
        self._lost = lost

    def __call__(self, answer: ObjectT) -> ObjectT:
        if self._lost:
            raise Unavailable("connection reset by peer")
        return answer


async def _begin(lab: Lab) -> None:
    await lab.create(resource_class("gpu", GPU), resource_class("net", NET), claim("n", "net"), template("t", "gpu"))
    await lab.create(pod("p", "n", templates=["t"]))


async def _check_running(lab: Lab, gpu: FakeDriver, net: FakeDriver) -> None:
    """The pod runs where both have devices, each claim is allocated once and reserved for it."""
    assert (await lab.pod("p")).spec.node_name == "n2"
    claims = await lab.claims()
    assert len(claims) == 2
    assert all(
        claim.status.allocation is not None and [c.name for c in claim.status.reserved_for] == ["p"] for claim in claims
    )
    assert (gpu.free, net.free) == ({"n1": 1, "n2": 0}, {"n2": 0, "n3": 1})


async def _check_released(lab: Lab, gpu: FakeDriver, net: FakeDriver) -> None:
    """After the pod: the generated claim is gone, the other one free, no finalizer and no scheduling context is
    left."""
    await lab.cluster.delete(Pod, "p", "lab", grace_seconds=0)
    await lab.calm(1)
    (left,) = await lab.claims()
    assert (left.name, left.status.to_wire(), left.metadata.finalizers) == ("n", {}, ())
    assert await lab.contexts() == []
    assert (gpu.free, net.free) == ({"n1": 1, "n2": 1}, {"n2": 1, "n3": 1})


def _drivers() -> tuple[FakeDriver, FakeDriver]:
    return FakeDriver(GPU, {"n1": 1, "n2": 1}), FakeDriver(NET, {"n2": 1, "n3": 1})


def _sources() -> AmbientSources:
    return AmbientSources(virtual_now, counted_suffixes(), lambda: 0.5)


def _crash_after(writes: int) -> bool:
    """A whole life with a crash of everything after so many writes, and a new start. False if there were fewer
    writes."""

    async def main() -> bool:
        lab = await new_lab()
        gpu, net = _drivers()
        disturbed = Disturbed(lab.cluster, crash_after=writes)
        finished = False
        async with control_plane(disturbed, _sources(), loops=loops_of((gpu, net))):
            await _begin(lab)
            for _ in range(60):
                await asyncio.sleep(1)
                if disturbed.crashed.is_set():
                    break
            else:
                await lab.finish("p")
                finished = True
                await asyncio.sleep(60)
        async with control_plane(lab.cluster, _sources(), loops=loops_of((gpu, net))):
            await lab.calm()
            if not finished:
                await _check_running(lab, gpu, net)
                await lab.finish("p")
                await lab.calm()
            await _check_released(lab, gpu, net)
        return disturbed.crashed.is_set()

    return run_virtually(main())


def test_a_crash_between_any_two_writes_leaves_nothing_behind() -> None:
    """C-18.5: drivers, scheduler and claim controller start again with the objects alone."""
    crashes = 0
    while _crash_after(crashes):
        crashes += 1
    assert crashes > 20


@pytest.mark.slow(seconds=0.2)
@pytest.mark.parametrize("seed", range(60))
def test_refused_lost_and_unanswered_writes_change_nothing_in_the_end(seed: int) -> None:
    """C-18.5.4: conflicts are retried; three of ten writes fail in one way or another."""

    async def main() -> None:
        lab = await new_lab()
        gpu, net = _drivers()
        disturbed = Disturbed(lab.cluster, chance=random.Random(seed))
        async with control_plane(disturbed, _sources(), loops=loops_of((gpu, net))):
            await _begin(lab)
            await lab.calm(1200)
            await _check_running(lab, gpu, net)
            await lab.finish("p")
            await lab.calm(1200)
            await _check_released(lab, gpu, net)

    run_virtually(main())


def test_a_foreign_writer_of_the_context_loses_nothing_and_wins_nothing() -> None:
    """C-18.5.4: another driver's entry stays when ours is written, whoever comes first."""

    async def main() -> None:
        lab = await new_lab()
        gpu, net = _drivers()
        async with control_plane(lab.cluster, _sources(), loops=loops_of((gpu,))):
            await _begin(lab)
            await lab.calm(5)
            (context,) = await lab.contexts()
            assert {claim.name for claim in context.status.resource_claims} == {"t"}
            entries = [
                {"name": "n", "unsuitableNodes": ["n3"]},
                *(claim.to_wire() for claim in context.status.resource_claims),
            ]
            merge = {"status": {"resourceClaims": entries}}
            await lab.cluster.patch(PodSchedulingContext, "p", "lab", merge=merge, subresource="status")
            gpu.free["n1"] = 0
            await lab.calm(40)
            (context,) = await lab.contexts()
            assert context.unsuitable("n") == frozenset({"n3"})
        async with control_plane(lab.cluster, _sources(), loops=loops_of((gpu, net))):
            await lab.calm(120)
            assert (await lab.cluster.get(Pod, "p", "lab")).spec.node_name == "n2"

    run_virtually(main())


@pytest.mark.parametrize("seed", range(sample(12)))
def test_pods_that_compete_for_devices_of_two_drivers_all_run_in_the_end(seed: int) -> None:
    """C-18.8: eight pods, room for two at a time, failing writes: none starves, nothing is held twice, nothing
    leaks."""

    async def main() -> None:
        lab = await new_lab()
        gpu, net = FakeDriver(GPU, {"n1": 1, "n2": 1}), FakeDriver(NET, {"n1": 1, "n2": 1, "n3": 2})
        disturbed = Disturbed(lab.cluster, chance=random.Random(seed))
        async with control_plane(disturbed, _sources(), loops=loops_of((gpu, net))):
            await lab.create(
                resource_class("gpu", GPU), resource_class("net", NET), template("g", "gpu"), template("n", "net")
            )
            names = [f"p{number}" for number in range(8)]
            await lab.create(*(pod(name, templates=["g", "n"]) for name in names))
            for _ in range(60):
                await lab.calm(60)
                running = [
                    stored
                    for stored in [await lab.pod(name) for name in names]
                    if stored.spec.node_name and stored.status.phase == "Pending"
                ]
                assert len(running) <= 2
                for stored in running:
                    await lab.finish(stored.name)
            assert {(await lab.pod(name)).status.phase for name in names} == {"Succeeded"}
            assert await lab.claims() == []
            assert (gpu.held, net.held) == ({}, {})

    run_virtually(main())


def _asking_for(cpu: str) -> list[Json]:
    """The containers of a pod that requests so many processors; a node of the lab has 64."""
    return [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]


class _Unanswered(Disturbed):
    """The first binding takes effect, and is seen by informers, but neither it nor the question about it is
    answered."""

    silent = False
    asked = 0

    async def bind(self, pod: Pod, node: str) -> None:
        await super().bind(pod, node)
        self.asked += 1
        if self.asked == 1:
            self.silent = True
            await asyncio.sleep(1)
            raise Unavailable("connection reset by peer")

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        if self.silent:
            self.silent = False
            raise Unavailable("connection refused")
        return await super().get(kind, name, namespace)


def test_a_pod_that_was_bound_without_an_answer_keeps_its_room() -> None:
    """C-18.6: another pod isn't put beside it."""

    async def main() -> None:
        lab = await new_lab(1)
        disturbed = _Unanswered(lab.cluster)
        async with control_plane(disturbed, _sources(), loops=loops_of(())):
            containers = _asking_for("40")
            await lab.create(pod("p", containers=containers))
            await lab.calm(10)
            await lab.create(pod("q", containers=containers))
            await lab.calm(10)
            assert (await lab.pod("p")).spec.node_name == "n1"
            assert (await lab.pod("q")).spec.node_name is None
            assert (await lab.waits("q")).startswith("0/1 nodes are available: 1 Insufficient cpu.")

    run_virtually(main())


@pytest.mark.parametrize("seed", range(sample(3)))
def test_failing_writes_never_overfill_a_node(seed: int) -> None:
    """C-18.6: ten pods come to two nodes with room for three each, and leave again: all of them run in the end."""

    async def main() -> None:
        lab = await new_lab(2)
        gpu = FakeDriver(GPU, {"n1": 9, "n2": 9})
        disturbed = Disturbed(lab.cluster, chance=random.Random(seed))
        async with control_plane(disturbed, _sources(), loops=loops_of((gpu,))):
            await lab.create(resource_class("gpu", GPU), template("g", "gpu"))
            names = [f"p{number}" for number in range(10)]
            await lab.create(*(pod(name, templates=["g"], containers=_asking_for("20")) for name in names))
            finished: set[str] = set()
            for _ in range(40):
                await lab.calm(60)
                running = [name for name in names if name not in finished and (await lab.pod(name)).spec.node_name]
                nodes = [(await lab.pod(name)).spec.node_name for name in running]
                assert max((nodes.count(node) for node in nodes), default=0) <= 3
                for name in running[:2]:
                    await lab.finish(name)
                    finished.add(name)
            assert finished == set(names)

    run_virtually(main())
