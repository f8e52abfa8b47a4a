"""The loop of the operator: a change of anything is mapped to the VMIs that it concerns, and each of these is put right, one at a time.

Nothing is remembered that a restart may not forget: what is to be done follows from the informers' stores alone. What was planned from
objects that have changed meanwhile is refused by their resourceVersion, and planned again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, Protocol
from uuid import uuid4

from virt_dra.api.core_v1 import Node, ObjectReference, Pod
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.scheme import KINDS
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.cluster.port import Cluster
from virt_dra.cluster.watching.backoff import backoff
from virt_dra.cluster.watching.event_recorder import EventRecorder
from virt_dra.cluster.watching.informer import Informer, InformerObserver
from virt_dra.cluster.watching.work_queue import QueueObserver, WorkQueue
from virt_dra.controllers.beside_kubevirt import reconcile as beside_kubevirt
from virt_dra.controllers.devices.options import DEFAULTS, Began, ResolutionOptions, as_stated
from virt_dra.controllers.events import Event
from virt_dra.controllers.operator.affected_vmis import INDEXES, WatchedSources, affected_by_vm
from virt_dra.controllers.operator.explainer import Explainer, Stores
from virt_dra.controllers.operator.explanation_worker import ExplanationWorker, ThreadExplanationWorker
from virt_dra.controllers.operator.transforms import trimmed, trimmed_where_read_only
from virt_dra.controllers.reconciled import Reconciled
from virt_dra.controllers.standalone import reconcile as standalone
from virt_dra.controllers.standalone import vm_lifecycle
from virt_dra.controllers.writes import WRITE_REFUSED

log = logging.getLogger(__name__)

LAUNCHERS: Final = "kubevirt.io=virt-launcher"
"""Of all pods, only these are followed."""
COMPONENT: Final = "virt-dra-operator"

Result = Literal["unchanged", "written", "outdated", "refused", "gone"]

_OUTDATED_SECONDS: Final = (0.05, 5.0)
"""First and longest requeue delay of a VMI whose plan was made of outdated objects, unless an informer delivers the new ones sooner. While
a watch is down that may take long."""
_REFUSED_SECONDS: Final = (1.0, 300.0)
"""Until what was refused is tried again: rights may be granted, and an API server that has just started refuses what it will allow."""
_REMEMBERED: Final = 4096
_MISSING_SECONDS: Final = (3.0, 60.0)
"""After so long it is said what hasn't been read yet, and then again."""


class LoopObserver(InformerObserver, QueueObserver, Protocol):
    """Who watches the loop (metrics). Must not raise."""

    def reconciled(self, result: str, seconds: float) -> None:
        """A VMI was reconciled."""

    def published(self, seconds: float) -> None:
        """All addresses of a VMI are published, so long after we learned of its last claim's allocation."""


@dataclass(frozen=True)
class LoopSettings:
    """``namespace``: of VMIs, "" for all. ``instance``: which replica this is, for Events. ``standalone``: there is no KubeVirt, and
    this is how its part is played."""

    namespace: str = ""
    instance: str = COMPONENT
    workers: int = 16
    resolution: ResolutionOptions = DEFAULTS
    standalone: standalone.StandaloneSettings | None = None


class InstanceLoop:
    """:meth:`follow` and :meth:`work` run side by side; ``work`` may be cancelled and begun again (a lease that comes and goes)."""

    def __init__(
        self,
        cluster: Cluster,
        settings: LoopSettings,
        now: Callable[[], datetime],
        observer: LoopObserver,
        examiner: ExplanationWorker | None = None,
        began: Began = as_stated,
    ) -> None:
        """``examiner``: of pods that wait; without one a thread does it, for whoever explains what is his own."""
        self._cluster, self._settings, self._now, self._observer = cluster, settings, now, observer
        self._began = began
        self._resolution = replace(settings.resolution, began=began)
        own = settings.standalone
        self._standalone = replace(own, resolution=replace(own.resolution, began=began)) if own is not None else None
        self._vmis = self._informer(VirtualMachineInstance, optional=True)
        self._pods = self._informer(Pod, labels=LAUNCHERS)
        self._claims = self._informer(ResourceClaim)
        self._slices = self._informer(ResourceSlice, everywhere=True)
        self._rules = self._informer(DeviceTaintRule, everywhere=True, optional=True)
        self._devices = self._informer(VirtualMachineInstanceDevices, optional=settings.standalone is not None)
        self._vms = self._informer(VirtualMachine)
        self._informers: tuple[Informer[Any], ...] = (
            self._vmis, self._pods, self._claims, self._slices, self._rules, self._devices,
            *((self._vms,) if settings.standalone is not None else ()),
        )  # fmt: skip
        self._sources = WatchedSources(
            self._vmis.store, self._pods.store, self._claims.store, self._slices.store, self._rules.store, self._devices.store
        )
        self._nodes = self._informer(Node, everywhere=True)
        self._classes = self._informer(DeviceClass, everywhere=True)
        stores = Stores(self._nodes.store, self._claims.store, self._slices.store, self._classes.store, self._rules.store)
        self._explainer = Explainer(stores, now, self._again, examiner or ThreadExplanationWorker())
        self._queue: WorkQueue[str] | None = None
        self._in_work: dict[str, float] = {}
        self._vain: dict[str, int] = {}
        """Backoff: how often in a row a VMI was reconciled on outdated objects or refused."""
        self._allocated_at: OrderedDict[str, float] = OrderedDict()
        self._events = EventRecorder(cluster, COMPONENT, settings.instance, clock=now, suffixes=lambda: uuid4().hex[:16])
        self._kubevirts = self._informer(KubeVirt, everywhere=True, optional=True)
        self._kubevirts.on_change(self._kubevirt_changed)
        self.stopping = False
        self._ended = asyncio.Event()
        for informer in self._informers:
            informer.on_change(self._changed)
        self._informers += (self._nodes, self._classes, *((self._kubevirts,) if settings.standalone is not None else ()))

    def _informer(self, kind: type[Any], *, labels: str = "", everywhere: bool = False, optional: bool = False) -> Informer[Any]:
        return Informer(
            self._cluster, kind, "" if everywhere else self._settings.namespace, labels=labels, indexes=INDEXES.get(kind),
            transform=trimmed_where_read_only if self._settings.standalone else trimmed, optional=optional, observer=self._observer,
        )  # fmt: skip

    # --- running ---

    async def follow(self) -> None:
        """Keeps the stores up to date, for ever."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run(), name=f"informer {informer.kind.KIND}")
            group.create_task(self._tell_what_is_missing(), name="missing kinds")

    async def _tell_what_is_missing(self) -> None:
        pause, again = _MISSING_SECONDS
        while True:
            await asyncio.sleep(pause)
            missing = self.unsynced()
            if not missing:
                return
            served = not any(informer.not_served for informer in self._informers if not informer.has_synced)
            # A large cluster takes its time to read.
            log.log(logging.INFO if served else logging.ERROR, "nothing can be done yet: waiting for %s", "; ".join(missing))
            pause = again

    async def work(self) -> None:
        """Once all stores are synced, reconcile every VMI, and then those that a change concerns; until cancelled or stopped.

        A fault of the program beside the work on VMIs ends it, and is raised (in a group).
        """
        for informer in self._informers:
            await informer.synced()
        queue = self._queue = WorkQueue[str](observer=self._observer)
        self._ended.clear()
        self._add_all()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._events.run(), name="events")
                explaining = group.create_task(self._explainer.run(), name="explainer")
                await queue.run(self._look_at, workers=self._settings.workers)
                explaining.cancel()
                self._events.close()
        finally:
            self._queue = None
            self._ended.set()

    async def settled(self) -> None:
        """Return when every kind has been listed and the queue is empty; where another replica leads it always is."""
        for informer in self._informers:
            await informer.synced()
        await asyncio.sleep(0)  # the work begins
        if self._queue is not None:
            await self._queue.idle()

    async def stop(self) -> None:
        """No further VMI is begun; returns when those in work are done and what was said of them is written."""
        self.stopping = True
        if self._queue is not None:
            self._queue.close()
            await self._ended.wait()

    # --- what others ask ---

    def unsynced(self) -> tuple[str, ...]:
        """The kinds of which no whole list has been read yet, and what to do about it."""
        return tuple(_missing(informer) for informer in self._informers if not informer.has_synced)

    def longest_work(self) -> float:
        """Seconds since the oldest reconcile that is still running began."""
        began = min(self._in_work.values(), default=None)
        return 0.0 if began is None else time.monotonic() - began

    def devices_by_state(self) -> dict[str, float]:
        return dict(Counter(device.state for each in self._devices.store.values() for device in each.status.devices))

    def vmis_by_path(self) -> dict[str, float]:
        paths = (path for each in self._devices.store.values() for path in (each.status.integration_paths or "none").split(","))
        return dict(Counter(path.strip() for path in paths))

    def informer_ages(self) -> dict[str, float]:
        return {informer.kind.KIND: informer.age for informer in self._informers}

    # --- reconciling ---

    def _kubevirt_changed(self, old: KubeVirt | None, new: KubeVirt | None) -> None:
        """Standalone nothing is written while there is a KubeVirt object: its VMs have an owner."""
        if new is not None and old is None:
            log.error("KubeVirt %s is there: standalone mode does nothing as long as it is; use beside-kubevirt", new.key)
        elif new is None and not self._kubevirts.store:
            log.info("no KubeVirt is there any more: standalone mode goes on")
            self._add_all()

    def _add_all(self) -> None:
        for key in sorted({obj.key for obj in (*self._vmis.store.values(), *self._vms.store.values())}):
            self._again(key, 0.0)

    def _again(self, key: str, seconds: float) -> None:
        if self._queue is None:
            return
        if seconds > 0:
            self._queue.add_after(key, seconds)
        else:
            self._queue.add(key)

    def _changed(self, old: TypedObject | None, new: TypedObject | None) -> None:
        keys = self._sources.concerned(old, new)
        if self._settings.standalone is not None:
            keys |= affected_by_vm(old, new)
        if self._queue is None:
            return
        if isinstance(new, ResourceClaim) and new.status.allocation is not None and _unallocated(old):
            for key in keys:
                self._allocated_at[key] = time.monotonic()
                self._allocated_at.move_to_end(key)
            while len(self._allocated_at) > _REMEMBERED:
                self._allocated_at.popitem(last=False)
        for key in keys:
            self._queue.add(key)

    async def _look_at(self, key: str) -> float | None:
        """Reconcile one VMI. Returns the seconds after which to requeue it even without a change."""
        began = self._in_work[key] = time.monotonic()
        try:
            result, again = await self._reconcile(key)
        finally:
            del self._in_work[key]
        seconds = time.monotonic() - began
        self._observer.reconciled(result, seconds)
        log.debug("looked at", extra={"fields": {"vmi": key, "result": result, "seconds": round(seconds, 4)}})
        return again

    async def _reconcile(self, key: str) -> tuple[Result, float | None]:
        if self._settings.standalone is not None and self._kubevirts.store:
            return "unchanged", None
        now, options, own = self._now(), self._resolution, self._standalone
        if own is None:
            done = await beside_kubevirt.reconcile(self._sources, self._cluster, key, now, options, self._explainer.told)
        else:
            done = await self._reconcile_standalone(key, now, own)
        for problem in done.problems:
            log.info(
                "not filled in", extra={"fields": {"vmi": key, "reason": problem.reason, "about": problem.subject, "why": problem.message}}
            )
        refused = any(event.reason == WRITE_REFUSED for event in done.events)
        vain = self._vain[key] = self._vain.get(key, 0) + 1
        # A first refusal may be an API server's that doesn't know our rights yet.
        self._tell(event for event in done.events if vain > 1 or event.reason != WRITE_REFUSED)
        if done is beside_kubevirt.NOTHING:
            self._explainer.forget(key)
            self._allocated_at.pop(key, None)
            del self._vain[key]
            return "gone", None
        if refused or done.again:
            first, longest = _REFUSED_SECONDS if refused else _OUTDATED_SECONDS
            return ("refused" if refused else "outdated"), backoff(vain, random.random(), first=first, longest=longest)
        del self._vain[key]
        if done.written:
            self._measure(key)
        again = max((done.look_again - now).total_seconds(), 0.0) if done.look_again is not None else None
        return ("written" if done.written else "unchanged"), again

    async def _reconcile_standalone(self, key: str, now: datetime, settings: standalone.StandaloneSettings) -> Reconciled:
        """The VM of that name, if there is one, and then its VMI."""
        namespace, _, name = key.rpartition("/")
        vm = self._vms.store.get(name, namespace)
        done = await standalone.reconcile(self._sources, self._cluster, key, now, settings, self._explainer.told)
        if vm is None:
            return done
        return done.and_(await vm_lifecycle.reconcile(vm, self._sources, self._cluster, now, self._began))

    def _measure(self, key: str) -> None:
        """How long a published address took, if nothing of it is missing. What was written may not have come back yet."""
        learned = self._allocated_at.pop(key, None)
        if learned is not None:
            self._observer.published(time.monotonic() - learned)

    def _tell(self, events: Iterable[Event]) -> None:
        for event in events:
            reference = ObjectReference(
                api_version=_API_VERSIONS.get(event.kind, ""), kind=event.kind, namespace=event.namespace, name=event.name, uid=event.uid
            )
            self._events.record(reference, event.type, event.reason, event.message)


_API_VERSIONS: Final[Mapping[str, str]] = {kind.KIND: kind.API_VERSION for kind in KINDS}


def _missing(informer: Informer[Any]) -> str:
    """What keeps an informer from its first list."""
    kind: str = informer.kind.KIND
    group_version: str = informer.kind.API_VERSION
    if not informer.not_served:
        return kind
    ours = group_version.startswith(("virt-dra.io/", "kubevirt.io/"))
    advice = "virt-dra install applies its CustomResourceDefinition" if ours else "is the cluster's version at least 1.34?"
    return f"{kind} ({group_version}), which the cluster doesn't serve: {advice}"


def _unallocated(old: TypedObject | None) -> bool:
    return not isinstance(old, ResourceClaim) or old.status.allocation is None
