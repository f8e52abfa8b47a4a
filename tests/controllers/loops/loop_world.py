"""An embedded cluster under virtual time on which some loops of a control plane run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from itertools import count
from typing import TypeVar

from virt_dra.api.core_v1 import Namespace
from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.api.meta import ObjectT
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.api.wire import Json
from virt_dra.cel.validation import compiled_rules
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import counted_suffixes
from virt_dra.cluster.memory.rules import KindRules
from virt_dra.cluster.port import Cluster
from virt_dra.simulator.control_plane import LOOPS, AmbientSources, control_plane
from virt_dra.simulator.virtual_time import run_virtually, virtual_now

T = TypeVar("T")

EVENT = unknown_kind("v1", "Event")


class RecordedMetrics:
    """Metrics as they are now: counters by name, the last gauge, all observations."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.gauges: dict[str, float] = {}
        self.observations: dict[str, list[float]] = {}

    def count(self, name: str, by: float = 1.0, **labels: str) -> None:
        self.counters[name] += int(by)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        self.gauges[name] = value

    def observe(self, name: str, value: float, **labels: str) -> None:
        self.observations.setdefault(name, []).append(value)


def virtual_cluster(gates: FeatureGates = PLAIN, *, graceful: bool = False) -> MemoryCluster:
    """Its clock is the running loop's, names and UIDs are counted. ``graceful``: pods on nodes stay until they are
    deleted with grace 0."""
    uids = count(1)
    return MemoryCluster(
        virtual_now,
        counted_suffixes(),
        lambda: f"00000000-0000-4000-8000-{next(uids):012x}",
        admission=KindRules(compiled_rules(gates)),
        graceful_deletion=graceful,
    )


class LoopWorld:
    """The cluster of a test. ``cluster``: as the loops see it, the same or something between."""

    def __init__(self, cluster: MemoryCluster, metrics: RecordedMetrics) -> None:
        self.cluster = cluster
        self.metrics = metrics

    async def create(self, *objects: ObjectT) -> ObjectT:
        """Create objects with their status; the last one as stored."""
        stored = None
        for obj in objects:
            metadata = obj.metadata.without("uid")
            stored = await self.cluster.create(obj.with_(metadata=metadata))
            status: Json = obj.to_wire().get("status", {})
            if status:
                stored = await self.cluster.patch(
                    type(obj), obj.name, obj.namespace, merge={"status": status}, subresource="status"
                )
        assert stored is not None
        return stored

    async def events(self) -> list[tuple[str, str, str, str]]:
        """``(Kind/name, type, reason, message)`` of each, in the order of their names."""
        events = []
        for event in (await self.cluster.list(EVENT)).items:
            wire = event.to_wire()
            about = wire["involvedObject"]
            events.append((f"{about['kind']}/{about['name']}", wire["type"], wire["reason"], wire["message"]))
        return events

    async def calm(self, seconds: float = 1.5) -> None:
        """Let cluster time pass."""
        await asyncio.sleep(seconds)


def play(
    story: Callable[[LoopWorld], Awaitable[T]],
    *names: str,
    gates: FeatureGates = PLAIN,
    between: Callable[[MemoryCluster], Cluster] = lambda cluster: cluster,
    options: Mapping[str, object] = {},
    graceful: bool = False,
) -> T:
    """Run a story while the loops of these names run. ``between``: what the loops have for a cluster."""

    async def main() -> T:
        world = LoopWorld(virtual_cluster(gates, graceful=graceful), RecordedMetrics())
        await world.cluster.create(Namespace.from_wire({"metadata": {"name": "lab"}}))
        names_of_events = counted_suffixes()
        sources = AmbientSources(virtual_now, names_of_events, lambda: 0.5)
        chosen = tuple(loop for loop in LOOPS if loop.name in names)
        assert len(chosen) == len(names), f"no such loop among {names}"
        async with AsyncExitStack() as ending:
            await ending.enter_async_context(
                control_plane(
                    between(world.cluster), sources, gates=gates, metrics=world.metrics, loops=chosen, options=options
                )
            )
            return await story(world)

    return run_virtually(main())
