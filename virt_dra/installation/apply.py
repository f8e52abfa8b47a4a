"""Applies an installation, in order, and waits until it works. :mod:`virt_dra.installation.plan` decides what is
applied and removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Literal

from virt_dra.api.reading.namespaces import is_namespaced
from virt_dra.api.wire import Json
from virt_dra.cluster.port import NotFound
from virt_dra.installation.plan import KINDS, Choices, ObjectKey, possible_namespaces, stale
from virt_dra.installation.refusals import keeps_namespace
from virt_dra.installation.rollout import condition_holds, pod_troubles, rollout
from virt_dra.installation.survey import CRD, OURS, Objects, Survey, get_or_none

FIELD_MANAGER: Final = "virt-dra-install"
_POLL_SECONDS: Final = 0.5

Emit = Callable[[str], None]
ChangeResult = Literal["created", "changed", "unchanged", "removed", "kept"]


class NotReady(Exception):
    """Time ran out. ``waiting``: one sentence for each thing that was still awaited."""

    def __init__(self, waiting: Sequence[str]) -> None:
        super().__init__("; ".join(waiting))
        self.waiting = tuple(waiting)


@dataclass
class ChangeReport:
    """The changes made so far, in order; each is emitted when it is made."""

    emit: Emit
    done: list[tuple[ChangeResult, ObjectKey]] = field(default_factory=list)

    def add(self, result: ChangeResult, key: ObjectKey) -> None:
        self.done.append((result, key))
        self.emit(f"{key}: {result}")


async def ours(cluster: Objects, namespace: str) -> tuple[Json, ...]:
    """All objects with our label: cluster-scoped ones, and those in the namespace and in those of parts."""

    async def of_kind(kind: str, api_version: str) -> tuple[Json, ...]:
        places = possible_namespaces(namespace) if is_namespaced(api_version, kind) else ("",)
        try:
            listed = [await cluster.list_raw(api_version, kind, place, labels=OURS) for place in places]
        except NotFound:
            return ()  # this cluster doesn't serve the kind
        return tuple(chain.from_iterable(listed))

    listed = await asyncio.gather(*(of_kind(kind, api_version) for kind, api_version in KINDS.items()))
    return tuple(obj for objects in listed for obj in objects)


async def install(
    cluster: Objects,
    objects: Sequence[Json],
    seen: Survey,
    choices: Choices,
    report: ChangeReport,
    deadline: WaitDeadline,
) -> None:
    """Apply all objects in order, then remove stale ones. Raises :class:`NotReady` and the port's exceptions."""
    waiting_for_crds: list[ObjectKey] = []
    for obj in objects:
        key = ObjectKey.from_object(obj)
        if key.kind == "Namespace" and keeps_namespace(seen, key):
            report.add("kept", key)
            continue
        if key.kind != "CustomResourceDefinition" and waiting_for_crds:
            await _established(cluster, waiting_for_crds, deadline)
            waiting_for_crds = []
        applied = await cluster.apply(obj, field_manager=FIELD_MANAGER, force=True)
        before = seen.there.get(key)
        versions = {obj["metadata"].get("resourceVersion") for obj in (before or applied, applied)}
        report.add("created" if before is None else "unchanged" if len(versions) == 1 else "changed", key)
        if key.kind == "CustomResourceDefinition":
            waiting_for_crds.append(key)
    for key in stale(await ours(cluster, choices.namespace), objects):
        await remove(cluster, key, report)


async def remove(cluster: Objects, key: ObjectKey, report: ChangeReport) -> None:
    """Delete one object, if it exists."""
    try:
        await cluster.delete_raw(KINDS[key.kind], key.kind, key.name, key.namespace)
    except NotFound:
        return
    report.add("removed", key)


class WaitDeadline:
    """The time limit for all waiting of one command. ``now`` and ``sleep`` are parameters, so that tests needn't
    wait."""

    def __init__(
        self, seconds: float, now: Callable[[], float], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._now, self._sleep = now, sleep
        self._end = now() + seconds

    async def until(self, waiting: Callable[[], Awaitable[Sequence[str]]], emit: Emit | None = None) -> None:
        """Poll until ``waiting`` returns nothing; new sentences of it are emitted. Raises :class:`NotReady`."""
        previous: Sequence[str] = ()
        while True:
            left = await waiting()
            if not left:
                return
            if emit is not None:
                for sentence in left:
                    if sentence not in previous:
                        emit(f"waiting: {sentence}")
            previous = left
            if self._now() >= self._end:
                raise NotReady(left)
            await self._sleep(_POLL_SECONDS)


async def _established(cluster: Objects, keys: Iterable[ObjectKey], deadline: WaitDeadline) -> None:
    keys = tuple(keys)

    async def waiting() -> list[str]:
        crds = [(key, await get_or_none(cluster, *CRD, key.name)) for key in keys]
        missing = (key for key, crd in crds if crd is None or not condition_holds(crd, "Established"))
        return [f"{key} isn't established yet" for key in missing]

    await deadline.until(waiting)


async def wait_for_workloads(cluster: Objects, keys: Iterable[ObjectKey], deadline: WaitDeadline, emit: Emit) -> None:
    """Wait until every Deployment and DaemonSet has rolled out. Raises :class:`NotReady`, with the reasons why pods
    aren't ready, too."""
    keys = tuple(keys)

    async def waiting() -> list[str]:
        workloads = [(key, await object_of(cluster, key)) for key in keys]
        return [sentence for key, workload in workloads if (sentence := rollout(key, workload))]

    try:
        await deadline.until(waiting, emit)
    except NotReady as error:
        pods = await pods_in(cluster, {key.namespace for key in keys})
        raise NotReady((*error.waiting, *(sentence for pod in pods for sentence in pod_troubles(pod)))) from None


async def object_of(cluster: Objects, key: ObjectKey) -> Json | None:
    """None if it doesn't exist."""
    return await get_or_none(cluster, KINDS[key.kind], key.kind, key.name, key.namespace)


async def pods_in(cluster: Objects, namespaces: Iterable[str]) -> list[Json]:
    """Our pods."""
    return [pod for namespace in namespaces for pod in await cluster.list_raw("v1", "Pod", namespace, labels=OURS)]
