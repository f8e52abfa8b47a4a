"""The embedded cluster with the control plane's loops as a target of scenarios, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import count
from typing import Any, Final, Protocol

from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.feature_gates import FeatureGates
from virt_dra.api.meta import ObjectMeta, TypedObject, format_time
from virt_dra.api.reading.scheme import all_kinds, read_object
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.wire import Json, WireError
from virt_dra.cluster.kinds import resource_of
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.embedded import strict_cluster
from virt_dra.cluster.memory.names import random_suffixes
from virt_dra.cluster.port import BadRequest, NotFound
from virt_dra.cluster.refusals import patched_shape
from virt_dra.cluster.requester import Requester
from virt_dra.controllers.loops.context import ControlLoop, LoopContext, LoopTimers
from virt_dra.simulator.control_plane import CLASSIC_PLANES, LOOPS, AmbientSources, LoopKind, control_plane
from virt_dra.simulator.scenario.normal_form import RawState
from virt_dra.simulator.scenario.player import Play
from virt_dra.simulator.scenario.scenario import PLAY, ActingUser, ObjectPlace, Scenario
from virt_dra.simulator.scenario.symbols import NoSuchSymbol, ObjectLog
from virt_dra.simulator.virtual_time import run_virtually, virtual_now

_KINDS: Final = {(kind.API_VERSION, kind.KIND): kind for kind in all_kinds()}
_SEED: Final = 20_261_122
REQUEST_SECONDS: Final = 0.005
"""How long a request takes."""
POD_BACKOFF: Final = 1.0
"""Seconds that a pod waits in the scheduler's back-off, always (docs/spec/scenarios.md)."""


class ScenarioPlane(Protocol):
    """The kinds, rules and loops of a release in the embedded cluster."""

    def cluster(
        self, clock: Callable[[], datetime], names: Callable[[], str], uids: Callable[[], str]
    ) -> MemoryCluster: ...

    def loops(self) -> Iterable[tuple[str, Callable[[LoopContext], ControlLoop]]]: ...

    def drive(self, driver: str, settings: Json) -> None: ...

    def type_of(self, api_version: str, kind: str) -> type[TypedObject]: ...

    def read(self, raw: Json) -> TypedObject:
        """The object in a JSON value. Raises :class:`WireError`."""

    def write(self, obj: TypedObject) -> Json: ...

    async def patch(
        self, cluster: MemoryCluster, kind: type[TypedObject], name: str, namespace: str, patch: Json, subresource: str
    ) -> None:
        """Patches an object. Raises :class:`WireError`, :class:`ApiError`."""


class PresentPlane:
    """Implements :class:`ScenarioPlane` for the present release, whose gates a scenario sets."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates

    def cluster(
        self, clock: Callable[[], datetime], names: Callable[[], str], uids: Callable[[], str]
    ) -> MemoryCluster:
        return strict_cluster(clock, names, uids, self._gates)

    def loops(self) -> Iterable[tuple[str, Callable[[LoopContext], ControlLoop]]]:
        return ((kind.name, kind.make) for kind in LOOPS if kind.runs(self._gates))

    def drive(self, driver: str, settings: Json) -> None:
        raise AssertionError("reading refuses drivers of the present release")

    def type_of(self, api_version: str, kind: str) -> type[TypedObject]:
        return type_of(api_version, kind)

    def read(self, raw: Json) -> TypedObject:
        return read_object(raw)

    def write(self, obj: TypedObject) -> Json:
        return _as_served(obj)

    async def patch(
        self, cluster: MemoryCluster, kind: type[TypedObject], name: str, namespace: str, patch: Json, subresource: str
    ) -> None:
        part: Any = subresource
        await cluster.patch(kind, name, namespace, merge=patch, subresource=part)


def play_embedded(scenario: Scenario) -> Json:
    """The answer of the embedded cluster, in virtual time. Raises :class:`NoSuchSymbol`."""
    return performed(scenario).answer()


def performed(scenario: Scenario) -> Play:
    """The whole play on the embedded cluster, with its raw states."""
    return run_virtually(_play(scenario))


async def _play(scenario: Scenario) -> Play:
    missing: NoSuchSymbol | None = None
    async with embedded_target(scenario) as target:
        play = Play(scenario, target)
        try:
            await play.perform()
        except NoSuchSymbol as error:  # raised below: the loops' TaskGroup would wrap it
            missing = error
    if missing is not None:
        raise missing
    return play


@asynccontextmanager
async def embedded_target(scenario: Scenario) -> AsyncIterator[EmbeddedTarget]:
    """A new cluster for a scenario, with its gates, timers and namespace; on an event loop with virtual time."""
    chance = random.Random(_SEED)
    numbers = count(1)
    plane: ScenarioPlane = (
        CLASSIC_PLANES[scenario.kubernetes](scenario.drivers) if scenario.kubernetes else PresentPlane(scenario.gates)
    )
    cluster = plane.cluster(
        virtual_now, random_suffixes(chance), lambda: f"00000000-0000-4000-8000-{next(numbers):012x}"
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
    target = EmbeddedTarget(cluster, plane, scenario, virtual_now)
    running = tuple(LoopKind(name, make) for name, make in plane.loops())
    async with asyncio.TaskGroup() as group:
        watches = [group.create_task(target.follow(kind)) for kind in scenario.compared]
        async with control_plane(cluster, sources, gates=scenario.gates, timers=timers, loops=running):
            yield target
        for watch in watches:
            watch.cancel()


class EmbeddedTarget:
    """Implements :class:`virt_dra.simulator.scenario.player.ScenarioTarget`."""

    def __init__(
        self, cluster: MemoryCluster, plane: ScenarioPlane, scenario: Scenario, clock: Callable[[], datetime]
    ) -> None:
        self._cluster, self._plane, self._clock = cluster, plane, clock
        self._kinds = {
            kind: plane.type_of(version, kind)
            for kind, version in scenario.api_versions.items()
            if kind in scenario.compared
        }
        self.log = ObjectLog()
        self.step = -1
        self._last_change = 0.0

    async def follow(self, kind: str) -> None:
        """Log every change of a kind, until cancelled."""
        async for event in self._cluster.watch(self._kinds[kind], resource_version="0"):
            self._last_change = self.now()
            raw = event.object.to_wire()
            self.log.see(kind, raw, self.step)
            if event.type == "DELETED":
                self.log.lose(raw["metadata"]["uid"], self.step)

    # --- requests -----------------------------------------------------------------------------------------------------

    async def get(self, place: ObjectPlace) -> Json | None:
        try:
            kind = self._plane.type_of(place.api_version, place.kind)
            return (await self._cluster.get(kind, place.name, place.namespace)).to_wire()
        except NotFound:
            return None

    async def create(self, raw: Json, user: ActingUser | None) -> None:
        async with self._as(user) as cluster:
            created = await cluster.create(self._read(raw))
        if isinstance(created, Node):  # admission has marked it as not ready
            await self._cluster.patch(Node, created.name, merge={"spec": {"taints": raw.get("spec", {}).get("taints")}})

    async def patch(self, place: ObjectPlace, patch: Json, *, subresource: str, user: ActingUser | None) -> None:
        async with self._as(user) as cluster:
            kind = self._plane.type_of(place.api_version, place.kind)
            try:
                await self._plane.patch(cluster, kind, place.name, place.namespace, patch, subresource)
            except WireError as error:
                raise patched_shape(resource_of(kind), place.name, error) from None

    async def delete(self, place: ObjectPlace, grace: int | None, user: ActingUser | None) -> None:
        async with self._as(user) as cluster:
            kind = self._plane.type_of(place.api_version, place.kind)
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

    def drive(self, driver: str, settings: Json) -> None:
        self._plane.drive(driver, settings)

    def _read(self, raw: Json) -> TypedObject:
        """The object in a JSON value. Raises :class:`BadRequest` for one that doesn't have the shape of its kind."""
        try:
            return self._plane.read(raw)
        except WireError as error:
            raise BadRequest(
                f"{raw.get('kind')} in version {str(raw.get('apiVersion'))!r} cannot be handled: {error}"
            ) from None

    # --- what there is ------------------------------------------------------------------------------------------------

    async def state(self) -> RawState:
        objects = {
            kind: tuple(self._plane.write(obj) for obj in (await self._cluster.list(stored)).items)
            for kind, stored in self._kinds.items()
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
    """The object as an API server writes it: with all conditions of a device's status."""
    raw = obj.to_wire()
    if isinstance(obj, ResourceClaim):
        for device in raw.get("status", {}).get("devices", ()):
            device.setdefault("conditions", None)
    return raw
