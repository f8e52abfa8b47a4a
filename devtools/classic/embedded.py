"""The embedded cluster with ``virt_dra.classic`` as a target, under virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any

from devtools.classic.scenario import CALM, COMPARED, DRIVER, PLAY, ClassicScenario, Refusal, play
from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.api.wire import Json
from virt_dra.classic.control_plane import ClassicControlPlane
from virt_dra.classic.driver import AllocationRefused, DriverSettings, PendingClaim, on_node
from virt_dra.classic.driver_controller import DriverController
from virt_dra.classic.objects import KINDS, ClassicAllocation, ClassicClaim
from virt_dra.classic.release import ClassicRelease
from virt_dra.classic.rules import classic_cluster
from virt_dra.classic.versions import read_classic, write_classic
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import counted_suffixes
from virt_dra.cluster.port import ApiError, NotFound
from virt_dra.controllers.loops.context import LoopTimers
from virt_dra.simulator.control_plane import AmbientSources, LoopKind, control_plane
from virt_dra.simulator.virtual_time import run_virtually, virtual_now

_KINDS: tuple[type[TypedObject], ...] = (Pod, Node, unknown_kind("v1", "Event"), *KINDS)
_TYPES = {kind.KIND: kind for kind in _KINDS}


class ScriptedDriver:
    """Does what the settings say, as tools/control-plane/kubernetes-*/driver does."""

    name = DRIVER

    def __init__(self, release: ClassicRelease) -> None:
        """``release``: 1.31 has no handles."""
        self._handles = release.minor < 31
        self.settings: Json = {}
        self._held: dict[str, str] = {}

    def _left(self, node: str) -> int:
        devices: int = (self.settings.get("devices") or {}).get(node, 0)
        return devices - list(self._held.values()).count(node)

    def _fail(self, what: str) -> None:
        if self.settings.get(what):
            raise AllocationRefused(self.settings[what])

    async def class_parameters(self, resource_class: object) -> None:
        self._fail("classParameters")

    async def claim_parameters(self, claim: ClassicClaim, resource_class: object, class_parameters: object) -> None:
        self._fail("claimParameters")

    async def allocate(
        self, claims: Sequence[PendingClaim], node: str
    ) -> Sequence[ClassicAllocation | AllocationRefused]:
        return [self._allocate(pending.claim.metadata.uid, node) for pending in claims]

    def _allocate(self, uid: str, node: str) -> ClassicAllocation | AllocationRefused:
        if self.settings.get("allocate"):
            return AllocationRefused(self.settings["allocate"])
        if uid not in self._held:
            nodes = [node] if node else sorted(self.settings.get("devices") or {})
            free = next((name for name in nodes if self._left(name) > 0), None)
            if free is None:
                return AllocationRefused("no device left")
            self._held[uid] = free
        held = self._held[uid]
        allocation = on_node(DRIVER, f"device on {held}", held, shareable=bool(self.settings.get("shareable")))
        return allocation if self._handles else allocation.without("resource_handles")

    async def deallocate(self, claim: ClassicClaim) -> None:
        self._fail("deallocate")
        self._held.pop(claim.metadata.uid, None)

    async def unsuitable_nodes(
        self, pod: Pod, claims: Sequence[PendingClaim], nodes: Sequence[str]
    ) -> Sequence[Collection[str]]:
        self._fail("unsuitableNodes")
        held = [self._held.get(pending.claim.metadata.uid) for pending in claims]
        wanted = held.count(None)
        bad = [node for node in nodes if any(at not in (None, node) for at in held) or wanted > self._left(node)]
        return [bad for _ in claims]


def play_embedded(scenario: ClassicScenario) -> Json:
    """Our answer."""
    return run_virtually(_play(scenario))


async def _play(scenario: ClassicScenario) -> Json:
    uids = count(1)
    cluster = classic_cluster(virtual_now, counted_suffixes(), lambda: f"00000000-0000-4000-8000-{next(uids):012x}")
    await cluster.create(Namespace.from_wire({"metadata": {"name": PLAY}}))
    release = ClassicRelease(int(scenario.release.split(".")[1]))
    driver = ScriptedDriver(release)
    settings = DriverSettings(release=release)
    loops = (
        LoopKind("classic", lambda context: ClassicControlPlane(context, release)),
        LoopKind("driver", lambda context: DriverController(context, driver, settings)),
    )
    sources = AmbientSources(virtual_now, counted_suffixes(), lambda: 0.5)
    timers = LoopTimers(pod_initial_backoff=1.0, pod_max_backoff=1.0)
    async with control_plane(cluster, sources, timers=timers, loops=loops):
        return await play(scenario, EmbeddedTarget(cluster, driver, scenario.api_version))


class EmbeddedTarget:
    """Implements :class:`devtools.classic.scenario.Target`."""

    def __init__(self, cluster: MemoryCluster, driver: ScriptedDriver, api_version: str) -> None:
        self._cluster, self._driver, self._version = cluster, driver, api_version

    def drive(self, settings: Json) -> None:
        self._driver.settings = settings

    async def apply(self, raw: Json) -> Refusal | None:
        rest = {name: value for name, value in raw.items() if name != "status"}
        kind, name, namespace = _TYPES[raw["kind"]], raw["metadata"]["name"], raw["metadata"].get("namespace", "")
        try:
            try:
                stored = await self._cluster.get(kind, name, namespace)
            except NotFound:
                stored = await self._cluster.create(read_classic(rest))
            else:
                if rest.keys() - {"apiVersion", "kind", "metadata"} or len(raw["metadata"]) > 2:
                    stored = await self._cluster.update(read_classic(_merged(self._written(stored), rest)))
            if "status" in raw:
                changed = _merged(self._written(stored), {"status": raw["status"]})
                await self._cluster.update_status(read_classic(changed))
        except ApiError as error:
            return Refusal(error.status, str(error))
        finally:
            await asyncio.sleep(0.005)
        return None

    async def delete(self, kind: str, name: str, *, at_once: bool = False) -> Refusal | None:
        namespace = PLAY if _TYPES[kind].NAMESPACED else ""
        try:
            await self._cluster.delete(_TYPES[kind], name, namespace, grace_seconds=0 if at_once else None)
        except ApiError as error:
            return Refusal(error.status, str(error))
        return None

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def settle(self) -> None:
        loop = asyncio.get_running_loop()
        end, seen, since = loop.time() + 60, "", loop.time()
        while loop.time() < end and loop.time() - since < CALM:
            now = json.dumps([await self._listed(kind) for kind in COMPARED])
            if now != seen:
                seen, since = now, loop.time()
            await self.wait(0.2)

    async def objects(self) -> Mapping[str, Sequence[Json]]:
        return {kind: await self._listed(kind) for kind in (*COMPARED, "Event")}

    async def _listed(self, kind: str) -> Sequence[Json]:
        return [self._written(obj) for obj in (await self._cluster.list(_TYPES[kind], PLAY)).items]

    def _written(self, obj: TypedObject) -> Json:
        return write_classic(obj, self._version) if isinstance(obj, KINDS) else obj.to_wire()


def _merged(value: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, member in patch.items():
        if member is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), member)
    return merged
