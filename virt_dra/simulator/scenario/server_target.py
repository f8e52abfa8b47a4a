"""A real API server as a target of scenarios: impersonation, symbols by watches, cleaned afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Final

from virt_dra.api.core_v1 import Namespace
from virt_dra.api.meta import ObjectMeta, TypedObject, format_time
from virt_dra.api.wire import Json
from virt_dra.cluster.kinds import resource_of
from virt_dra.cluster.kube import paths
from virt_dra.cluster.kube.cluster import KubeCluster
from virt_dra.cluster.kube.decoding import parsed
from virt_dra.cluster.kube.raw import MERGE_PATCH
from virt_dra.cluster.kube.transport import KubeRequest
from virt_dra.cluster.port import AlreadyExists, ApiError, Gone, NotFound
from virt_dra.cluster.requester import Requester
from virt_dra.simulator.scenario.embedded_target import type_of
from virt_dra.simulator.scenario.normal_form import RawState
from virt_dra.simulator.scenario.scenario import (
    CLUSTER_SCOPED,
    PLAY,
    ActingUser,
    ObjectPlace,
    Scenario,
    namespaces_made,
)
from virt_dra.simulator.scenario.symbols import ObjectLog

CLEAN_SECONDS: Final = 30.0
"""How long objects that were deleted may take to go."""
_POLL: Final = 0.1
_WITHOUT: Final = (
    "Node", "Pod", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass", "DeviceTaintRule",
    "ResourcePoolStatusRequest", "ResourceQuota", "PodGroup", "ResourceClass", "PodSchedulingContext",
    "ResourceClassParameters", "ResourceClaimParameters",
)  # fmt: skip
"""Kinds of which a cluster must have no objects before a scenario; those afterwards are its own."""
_BY_NAME: Final = ("PriorityClass", "ClusterRole", "ClusterRoleBinding")
"""Cluster-scoped kinds of which every cluster has objects: only those that the scenario names are its own."""


class NotEmpty(RuntimeError):
    """The cluster has objects that would be part of the states."""


class NoDriver(RuntimeError):
    """The scenario has drivers that nobody runs."""


class LeftBehind(RuntimeError):
    """Objects of a scenario that could not be taken away."""


@asynccontextmanager
async def server_target(
    cluster: KubeCluster, scenario: Scenario, drive: Callable[[str, Json], None] | None = None
) -> AsyncIterator[ServerTarget]:
    """The cluster, made ready for a scenario, and cleaned afterwards. ``drive`` gives settings to a classic driver that
    runs there. Raises :class:`NotEmpty`, :class:`NoDriver`, or :class:`LeftBehind` afterwards."""
    if scenario.drivers and drive is None:
        raise NoDriver(
            f"drivers: {', '.join(scenario.drivers)} would have to run on that cluster, and only the embedded cluster "
            "can start it as described; play the scenario without --live, or leave drivers out and start your own there"
        )
    present = await _objects(cluster, scenario)
    if present:
        shown = ", ".join(f"{kind} {name}" for kind, name in present[:5]) + (" …" if len(present) > 5 else "")
        raise NotEmpty(
            f"the cluster must be empty for scenarios, and has {shown}; make "
            "cluster KUBEVIRT=none starts one of its own"
        )
    made = await _namespace(cluster, scenario)
    target = ServerTarget(cluster, scenario, drive)
    try:
        async with asyncio.TaskGroup() as group:
            watches = [group.create_task(target.follow(kind)) for kind in scenario.compared]
            yield target
            for watch in watches:
                watch.cancel()
    finally:
        await _clean(cluster, scenario, remove_play=made)


class ServerTarget:
    """Implements :class:`virt_dra.simulator.scenario.player.ScenarioTarget`."""

    def __init__(
        self, cluster: KubeCluster, scenario: Scenario, drive: Callable[[str, Json], None] | None = None
    ) -> None:
        self._cluster, self._scenario, self._drive = cluster, scenario, drive
        self.log = ObjectLog()
        self.step = -1
        self._last_change = time.monotonic()

    async def follow(self, kind: str) -> None:
        """Log every change of a kind, until cancelled."""
        kind_type = type_of(self._scenario.api_versions[kind], kind)
        while True:
            try:
                async for event in self._cluster.watch(kind_type, resource_version="0"):
                    if event.type == "BOOKMARK":
                        continue
                    self._last_change = time.monotonic()
                    raw = event.object.to_wire()
                    self.log.see(kind, raw, self.step)
                    if event.type == "DELETED":
                        self.log.lose(raw["metadata"]["uid"], self.step)
            except NotFound:
                return  # not served, with these gates
            except Gone:
                continue

    # --- requests -----------------------------------------------------------------------------------------------------

    async def get(self, place: ObjectPlace) -> Json | None:
        path = _path(place)
        try:
            return parsed(await self._cluster.transport.request(KubeRequest("GET", path, verb="get")))
        except NotFound:
            return None

    async def create(self, raw: Json, user: ActingUser | None) -> None:
        resource = resource_of(type_of(raw["apiVersion"], raw["kind"]))
        path = paths.collection(resource, raw["metadata"].get("namespace", ""))
        await self._sent(KubeRequest("POST", path, body=raw, verb="create", repeatable=False), user)
        if raw["kind"] == "Node":
            taints = raw.get("spec", {}).get("taints")
            node = ObjectPlace(raw["apiVersion"], "Node", raw["metadata"]["name"], "")
            await self.patch(node, {"spec": {"taints": taints}}, subresource="", user=None)

    async def patch(self, place: ObjectPlace, patch: Json, *, subresource: str, user: ActingUser | None) -> None:
        path = _path(place, subresource)
        await self._sent(KubeRequest("PATCH", path, (), patch, MERGE_PATCH, verb="patch"), user)

    async def delete(self, place: ObjectPlace, grace: int | None, user: ActingUser | None) -> None:
        path = _path(place)
        seconds = {} if grace is None else {"gracePeriodSeconds": grace}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", **seconds}
        await self._sent(KubeRequest("DELETE", path, body=options, verb="delete"), user)

    async def bind(self, pod: str, namespace: str, node: str, user: ActingUser | None) -> None:
        path = paths.item(resource_of(type_of("v1", "Pod")), namespace, pod, "binding")
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        await self._sent(KubeRequest("POST", path, body=body, verb="create", repeatable=False), user)

    async def _sent(self, request: KubeRequest, user: ActingUser | None) -> None:
        cluster = (
            self._cluster if user is None else self._cluster.acting_as(Requester(user.name, user.groups, user.extra))
        )
        await cluster.transport.request(request)

    def drive(self, driver: str, settings: Json) -> None:
        if self._drive is not None:
            self._drive(driver, settings)

    # --- what there is ------------------------------------------------------------------------------------------------

    async def state(self) -> RawState:
        objects = {
            kind: await _listed(self._cluster, kind, self._scenario.api_versions[kind])
            for kind in self._scenario.compared
        }
        events = await _listed(self._cluster, "Event", "v1")
        return RawState(objects, events)

    def now(self) -> float:
        return time.monotonic()

    def text_now(self) -> str:
        return format_time(datetime.now(UTC))

    @property
    def last_change(self) -> float:
        return self._last_change


def _path(place: ObjectPlace, subresource: str = "") -> str:
    return paths.item(resource_of(type_of(place.api_version, place.kind)), place.namespace, place.name, subresource)


async def _listed(cluster: KubeCluster, kind: str, api_version: str) -> tuple[Json, ...]:
    """All objects of a kind, empty if it isn't served."""
    resource = resource_of(type_of(api_version, kind))
    head = {"apiVersion": resource.api_version, "kind": kind}
    try:
        path = paths.collection(resource, "")
        answer = parsed(await cluster.transport.request(KubeRequest("GET", path, verb="list")))
    except NotFound:
        return ()
    return tuple({**head, **raw} for raw in answer.get("items") or ())


async def _objects(cluster: KubeCluster, scenario: Scenario) -> list[tuple[str, str]]:
    versions = scenario.api_versions
    kinds = [kind for kind in _WITHOUT if kind in versions]
    return [(kind, _key(raw)) for kind in kinds for raw in await _listed(cluster, kind, versions[kind])]


def _key(raw: Json) -> str:
    metadata = raw["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


async def _namespace(cluster: KubeCluster, scenario: Scenario) -> bool:
    """Make the namespace ``play`` with the scenario's labels; False if it was there."""
    labels = {"kubernetes.io/metadata.name": PLAY, **scenario.namespace_labels}
    try:
        await cluster.create(Namespace(metadata=ObjectMeta(name=PLAY, labels=labels)))
    except AlreadyExists:
        namespace = await cluster.get(Namespace, PLAY)
        dropped = dict.fromkeys(namespace.metadata.labels.keys() - labels.keys())
        await cluster.patch(Namespace, PLAY, merge={"metadata": {"labels": {**dropped, **labels}}})
        return False
    return True


# --- cleaning -----------------------------------------------------------------------------------------------------


async def _clean(cluster: KubeCluster, scenario: Scenario, *, remove_play: bool) -> None:
    """Take away what the scenario made and what came of it. Raises :class:`LeftBehind`."""
    spaces = [*namespaces_made(scenario), PLAY]
    end = time.monotonic() + CLEAN_SECONDS
    while True:
        left = await _delete_all(cluster, scenario, spaces)
        if not left:
            break
        if time.monotonic() > end:
            shown = ", ".join(f"{kind} {key}" for kind, key in left)
            raise LeftBehind(f"could not be removed from the cluster: {shown}")
        await asyncio.sleep(_POLL)
    for namespace in spaces if remove_play else spaces[:-1]:
        await _end_namespace(cluster, namespace)


async def _delete_all(cluster: KubeCluster, scenario: Scenario, spaces: Iterable[str]) -> list[tuple[str, str]]:
    """Delete everything, without grace and finalizers. Returns what is still there."""
    named = {(obj["kind"], obj["metadata"]["name"]) for obj in scenario.applied}
    left: list[tuple[str, str]] = []
    versions = scenario.api_versions
    namespaced = [kind for kind in versions if kind not in CLUSTER_SCOPED]
    for kind in (*namespaced, *sorted((CLUSTER_SCOPED & versions.keys()) - {"Namespace"})):
        for raw in await _listed(cluster, kind, versions[kind]):
            metadata = raw["metadata"]
            own = (
                metadata.get("namespace") in spaces
                if kind in namespaced
                else kind in _WITHOUT or (kind, metadata["name"]) in named
            )
            if own and (kind, metadata["name"]) not in _EVERYWHERE:
                left.append((kind, _key(raw)))
                await _delete(cluster, kind, raw)
    for namespace in spaces:
        events = paths.collection(resource_of(type_of("v1", "Event")), namespace)
        with suppress(NotFound):
            await cluster.transport.request(KubeRequest("DELETE", events, verb="deletecollection"))
    return left


_EVERYWHERE: Final = (("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default"))
"""What controllers put into every namespace, again and again."""


async def _delete(cluster: KubeCluster, kind: str, raw: Json) -> None:
    metadata = raw["metadata"]
    kind_type: type[TypedObject] = type_of(raw["apiVersion"], kind)
    path = paths.item(resource_of(kind_type), metadata.get("namespace", ""), metadata["name"])
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    with suppress(NotFound):
        await cluster.transport.request(KubeRequest("DELETE", path, body=options, verb="delete"))
        if metadata.get("finalizers"):
            patch = {"metadata": {"finalizers": None}}
            await cluster.transport.request(KubeRequest("PATCH", path, (), patch, MERGE_PATCH, verb="patch"))


async def _end_namespace(cluster: KubeCluster, name: str) -> None:
    """Delete an emptied namespace; where no controller finishes that, it is finished here."""
    path = paths.item(resource_of(Namespace), "", name)
    with suppress(NotFound):
        await cluster.transport.request(KubeRequest("DELETE", path, verb="delete"))
        raw = parsed(await cluster.transport.request(KubeRequest("GET", path, verb="get")))
        raw["spec"] = {"finalizers": []}
        with suppress(ApiError):  # a namespace controller was quicker
            await cluster.transport.request(KubeRequest("PUT", f"{path}/finalize", body=raw, verb="update"))
