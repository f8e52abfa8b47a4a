"""The embedded cluster with the control plane's loops as a target of scenarios; under virtual time a play takes
milliseconds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import count
from typing import Any, Final

from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.meta import ObjectMeta, TypedObject, format_time
from virt_dra.api.reading.scheme import all_kinds, read_object
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.wire import Json, WireError
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.embedded import strict_cluster
from virt_dra.cluster.memory.names import random_suffixes
from virt_dra.cluster.port import BadRequest, NotFound
from virt_dra.cluster.requester import Requester
from virt_dra.controllers.loops.context import LoopTimers
from virt_dra.simulator.control_plane import LOOPS, AmbientSources, LoopKind, control_plane
from virt_dra.simulator.scenario.normal_form import RawState
from virt_dra.simulator.scenario.player import Play
from virt_dra.simulator.scenario.scenario import COMPARED, PLAY, ActingUser, ObjectPlace, Scenario, api_version_of
from virt_dra.simulator.scenario.symbols import ObjectLog
from virt_dra.simulator.virtual_time import run_virtually, virtual_now

_KINDS: Final = {(kind.API_VERSION, kind.KIND): kind for kind in all_kinds()}
_SEED: Final = 20_261_122
REQUEST_SECONDS: Final = 0.005
"""How long a request takes."""
POD_BACKOFF: Final = 1.0
"""Seconds that a pod waits in the scheduler's back-off, always (docs/spec/scenarios.md)."""


def play_embedded(scenario: Scenario, loops: tuple[LoopKind, ...] = LOOPS) -> Json:
    """The answer of the embedded cluster, in virtual time. Raises :class:`NoSuchSymbol`."""
    return run_virtually(_play(scenario, loops))


async def _play(scenario: Scenario, loops: tuple[LoopKind, ...]) -> Json:
    async with embedded_target(scenario, loops) as target:
        return await Play(scenario, target).perform()


@asynccontextmanager
async def embedded_target(scenario: Scenario, loops: tuple[LoopKind, ...] = LOOPS) -> AsyncIterator[EmbeddedTarget]:
    """A new cluster for a scenario, with its gates, timers and namespace; on an event loop with virtual time."""
    chance = random.Random(_SEED)
    numbers = count(1)
    cluster = strict_cluster(
        virtual_now, random_suffixes(chance), lambda: f"00000000-0000-4000-8000-{next(numbers):012x}", scenario.gates
    )
    labels = {"kubernetes.io/metadata.name": PLAY, **scenario.namespace_labels}
    await cluster.create(Namespace(metadata=ObjectMeta(name=PLAY, labels=labels)))
    timers = LoopTimers(
        binding_timeout=scenario.timers.get("bindingTimeout", LoopTimers.binding_timeout),
        filter_timeout=scenario.timers.get("filterTimeout", LoopTimers.filter_timeout),
        pod_initial_backoff=POD_BACKOFF,
        pod_max_backoff=POD_BACKOFF,
    )
    sources = AmbientSources(virtual_now, random_suffixes(chance), chance.random)
    target = EmbeddedTarget(cluster, virtual_now)
    async with asyncio.TaskGroup() as group:
        watches = [group.create_task(target.follow(kind)) for kind in COMPARED]
        async with control_plane(cluster, sources, gates=scenario.gates, timers=timers, loops=loops):
            yield target
        for watch in watches:
            watch.cancel()


class EmbeddedTarget:
    """Implements :class:`virt_dra.simulator.scenario.player.ScenarioTarget`."""

    def __init__(self, cluster: MemoryCluster, clock: Callable[[], datetime]) -> None:
        self._cluster, self._clock = cluster, clock
        self.log = ObjectLog()
        self.step = -1
        self._last_change = 0.0

    async def follow(self, kind: str) -> None:
        """Log every change of a kind, until cancelled."""
        async for event in self._cluster.watch(type_of(api_version_of({"kind": kind}), kind), resource_version="0"):
            self._last_change = self.now()
            raw = event.object.to_wire()
            self.log.see(kind, raw, self.step)
            if event.type == "DELETED":
                self.log.lose(raw["metadata"]["uid"], self.step)

    # --- requests -----------------------------------------------------------------------------------------------------

    async def get(self, place: ObjectPlace) -> Json | None:
        try:
            return (
                await self._cluster.get(type_of(place.api_version, place.kind), place.name, place.namespace)
            ).to_wire()
        except NotFound:
            return None

    async def create(self, raw: Json, user: ActingUser | None) -> None:
        async with self._as(user) as cluster:
            created = await cluster.create(_read(raw))
        if isinstance(created, Node):  # admission has marked it as not ready
            await self._cluster.patch(Node, created.name, merge={"spec": {"taints": raw.get("spec", {}).get("taints")}})

    async def patch(self, place: ObjectPlace, patch: Json, *, subresource: str, user: ActingUser | None) -> None:
        part: Any = subresource
        async with self._as(user) as cluster:
            kind = type_of(place.api_version, place.kind)
            await cluster.patch(kind, place.name, place.namespace, merge=patch, subresource=part)

    async def delete(self, place: ObjectPlace, grace: int | None, user: ActingUser | None) -> None:
        async with self._as(user) as cluster:
            kind = type_of(place.api_version, place.kind)
            await cluster.delete(kind, place.name, place.namespace, grace_seconds=grace)

    async def bind(self, pod: str, namespace: str, node: str, user: ActingUser | None) -> None:
        async with self._as(user) as cluster:
            await cluster.bind(Pod(metadata=ObjectMeta(name=pod, namespace=namespace)), node)

    @asynccontextmanager
    async def _as(self, user: ActingUser | None) -> AsyncIterator[MemoryCluster]:
        """The cluster for a user. A request takes time, as on a network, so that loops see it before the next."""
        try:
            yield (
                self._cluster
                if user is None
                else self._cluster.acting_as(Requester(user.name, user.groups, user.extra))
            )
        finally:
            await asyncio.sleep(REQUEST_SECONDS)

    # --- what there is ------------------------------------------------------------------------------------------------

    async def state(self) -> RawState:
        objects = {
            kind: tuple(
                _as_served(obj)
                for obj in (await self._cluster.list(type_of(api_version_of({"kind": kind}), kind))).items
            )
            for kind in COMPARED
        }
        events = (await self._cluster.list(unknown_kind("v1", "Event"))).items
        return RawState(objects, tuple(event.to_wire() for event in events))

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def text_now(self) -> str:
        return format_time(self._clock())

    @property
    def last_change(self) -> float:
        return self._last_change


def type_of(api_version: str, kind: str) -> type[TypedObject]:
    """The class of a kind: a typed one, or one that stands for a kind without a type."""
    return _KINDS.get((api_version, kind)) or unknown_kind(api_version, kind)


def _as_served(obj: TypedObject) -> Json:
    """As an API server writes it: the conditions of a device's status are always there."""
    raw = obj.to_wire()
    if isinstance(obj, ResourceClaim):
        for device in raw.get("status", {}).get("devices", ()):
            device.setdefault("conditions", None)
    return raw


def _read(raw: Json) -> TypedObject:
    """Raises :class:`BadRequest` for what has not the shape of its kind."""
    try:
        return read_object(raw)
    except WireError as error:
        raise BadRequest(
            f"{raw.get('kind')} in version {str(raw.get('apiVersion'))!r} cannot be handled: {error}"
        ) from None
