"""The operator's controller: informers, a map from watch events to VMIs, a work queue, workers that reconcile. It is
level-triggered: what to write follows from the stores alone, so nothing is lost in a restart."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Protocol

from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.expansion import PROFILE_LABEL
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.cluster.port import Cluster
from virt_dra.cluster.watching.event_recorder import EventRecorder
from virt_dra.cluster.watching.informer import Informer
from virt_dra.controllers.beside_kubevirt import reconcile as beside_kubevirt
from virt_dra.controllers.devices.options import DEFAULTS, ResolutionOptions
from virt_dra.controllers.keyed_loop import Ambient, KeyedLoop, KeyedLoopObserver, Result
from virt_dra.controllers.operator.affected_vmis import INDEXES, WatchedSources, affected_by_vm
from virt_dra.controllers.operator.explainer import Explainer, Stores
from virt_dra.controllers.operator.explanation_worker import ExplanationWorker
from virt_dra.controllers.operator.profile_fit import profile_key, with_status
from virt_dra.controllers.reconciled import NOTHING, Reconciled
from virt_dra.controllers.standalone import reconcile as standalone
from virt_dra.controllers.standalone import vm_lifecycle
from virt_dra.controllers.transforms import trimmed, trimmed_where_read_only
from virt_dra.controllers.writes import WRITE_REFUSED, PatchStatus, write

log = logging.getLogger(__name__)

LAUNCHERS: Final = "kubevirt.io=virt-launcher"
"""The label selector of the pods that are watched."""
COMPONENT: Final = "virt-dra-operator"

PROFILE_SECONDS: Final = 60.0
"""Pause until a profile's status is computed again, whatever has changed meanwhile."""
_ALLOCATION_TIMES: Final = 4096
"""Limit of the VMIs whose time of allocation is kept for the metric."""


class LoopObserver(KeyedLoopObserver, Protocol):
    """The metrics of the loop. Must not raise."""

    def published(self, seconds: float) -> None:
        """All addresses of a VMI were published. ``seconds``: since the watch event of its last claim's allocation."""


@dataclass(frozen=True)
class LoopSettings:
    """``namespace``: of VMIs, "" for all. ``instance``: the replica's name, for Events. ``standalone``: None beside
    KubeVirt."""

    namespace: str = ""
    instance: str = COMPONENT
    workers: int = 16
    resolution: ResolutionOptions = DEFAULTS
    standalone: standalone.StandaloneSettings | None = None


class InstanceLoop(KeyedLoop):
    """The operator's loop; a key is the namespace and name of a VMI, and of its VM."""

    def __init__(
        self,
        cluster: Cluster,
        settings: LoopSettings,
        ambient: Ambient,
        observer: LoopObserver,
        explanation_worker: ExplanationWorker,
    ) -> None:
        """``explanation_worker``: explains why pods wait."""
        events = EventRecorder(cluster, COMPONENT, settings.instance, clock=ambient.now, suffixes=ambient.suffix)
        super().__init__(ambient, observer, events, settings.workers)
        self._cluster, self._settings, self._observer = cluster, settings, observer
        self._resolution = replace(settings.resolution, count_from=ambient.count_from)
        own = settings.standalone
        self._standalone = (
            replace(own, resolution=replace(own.resolution, count_from=ambient.count_from)) if own is not None else None
        )
        self._vmis = self._informer(VirtualMachineInstance, optional=True)
        self._pods = self._informer(Pod, labels=LAUNCHERS)
        self._claims = self._informer(ResourceClaim)
        self._slices = self._informer(ResourceSlice, everywhere=True)
        self._rules = self._informer(DeviceTaintRule, everywhere=True, optional=True)
        self._devices = self._informer(VirtualMachineInstanceDevices, optional=settings.standalone is not None)
        self._vms = self._informer(VirtualMachine, optional=settings.standalone is None)
        self._classes = self._informer(DeviceClass, everywhere=True)
        self._profiles = self._informer(DeviceProfile, everywhere=True, optional=True)
        self._namespaces = self._informer(Namespace, everywhere=True)
        self._templates = self._informer(ResourceClaimTemplate, labels=PROFILE_LABEL)
        self._informers = (
            self._vms, self._vmis, self._pods, self._claims, self._slices, self._rules, self._classes, self._devices,
            self._profiles, self._namespaces, self._templates,
        )  # fmt: skip
        self._sources = WatchedSources(
            self._vms.store,
            self._vmis.store,
            self._pods.store,
            self._claims.store,
            self._slices.store,
            self._rules.store,
            self._classes.store,
            self._devices.store,
            self._profiles.store,
            self._namespaces.store,
            self._templates.store,
        )
        self._nodes = self._informer(Node, everywhere=True)
        stores = Stores(
            self._nodes.store, self._claims.store, self._slices.store, self._classes.store, self._rules.store
        )
        self._explainer = Explainer(stores, ambient.now, ambient.monotonic, self._requeue, explanation_worker)
        self._allocated_at: OrderedDict[str, float] = OrderedDict()
        self._kubevirts = self._informer(KubeVirt, everywhere=True, optional=True)
        self._kubevirts.on_change(self._kubevirt_changed)
        for informer in self._informers:
            informer.on_change(self._changed)
        self._informers += (
            self._nodes,
            *((self._kubevirts,) if settings.standalone is not None else ()),
        )

    def _informer(
        self, kind: type[Any], *, labels: str = "", everywhere: bool = False, optional: bool = False
    ) -> Informer[Any]:
        return Informer(
            self._cluster, kind, "" if everywhere else self._settings.namespace, labels=labels,
            indexes=INDEXES.get(kind), transform=trimmed_where_read_only if self._settings.standalone else trimmed,
            optional=optional, observer=self._observer,
            clock=self._ambient.monotonic, chance=self._ambient.chance,
        )  # fmt: skip

    # --- metrics ---

    def devices_by_state(self) -> dict[str, float]:
        return dict(
            Counter(
                device.state
                for devices_object in self._devices.store.values()
                for device in devices_object.status.devices
            )
        )

    def vmis_by_path(self) -> dict[str, float]:
        paths = (
            path
            for devices_object in self._devices.store.values()
            for path in (devices_object.status.integration_paths or "none").split(",")
        )
        return dict(Counter(path.strip() for path in paths))

    # --- reconciling ---

    def _kubevirt_changed(self, old: KubeVirt | None, new: KubeVirt | None) -> None:
        """Resumes standalone mode without a KubeVirt object; while one exists nothing is written: its VMs are
        KubeVirt's."""
        if new is not None and old is None:
            log.error(
                "KubeVirt %s exists: standalone mode is paused until it is deleted; use mode beside-kubevirt", new.key
            )
        elif new is None and not self._kubevirts.store:
            log.info("the last KubeVirt object was deleted: standalone mode resumes")
            self._enqueue_all()

    def _all_keys(self) -> Iterable[str]:
        profiles = (profile_key(profile.name) for profile in self._profiles.store.values())
        return (*sorted({obj.key for obj in (*self._vmis.store.values(), *self._vms.store.values())}), *profiles)

    def _beside_workers(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (self._explainer.run(),)

    def _changed(self, old: TypedObject | None, new: TypedObject | None) -> None:
        """The event handler of the informers whose objects a reconcile reads: queue the VMIs that a change affects."""
        keys = self._sources.affected(old, new)
        if self._settings.standalone is not None:
            keys |= affected_by_vm(old, new)
        if self._queue is None:
            return
        changed = old or new
        if isinstance(changed, DeviceProfile) and _generation(old) != _generation(new):
            self._queue.add(profile_key(changed.name))
        if isinstance(new, ResourceClaim) and new.status.allocation is not None and _unallocated(old):
            for key in keys:
                self._allocated_at[key] = self._ambient.monotonic()
                self._allocated_at.move_to_end(key)
            while len(self._allocated_at) > _ALLOCATION_TIMES:
                self._allocated_at.popitem(last=False)
        for key in keys:
            self._queue.add(key)

    async def _reconcile(self, key: str) -> tuple[Result, float | None]:
        if self._settings.standalone is not None and self._kubevirts.store:
            return "unchanged", None
        now = self._ambient.now()
        if key.startswith("/"):
            return await self._reconcile_profile(key)
        if self._standalone is None:
            explain, align = self._explainer.condition_for, self._explainer.alignment_for
            done = await beside_kubevirt.reconcile(
                self._sources, self._cluster, key, now, self._resolution, explain, align
            )
        else:
            done = await self._reconcile_standalone(key, now, self._standalone)
        for problem in done.problems:
            fields = {"vmi": key, "reason": problem.reason, "about": problem.subject, "why": problem.message}
            log.info("metadata not filled in", extra={"fields": fields})
        refused = any(event.reason == WRITE_REFUSED for event in done.events)
        retries = self._retries[key] = self._retries.get(key, 0) + 1
        # The first refusal may come from an API server that hasn't loaded our permissions yet.
        self._emit(event for event in done.events if retries > 1 or event.reason != WRITE_REFUSED)
        if done is NOTHING:
            self._explainer.forget(key)
            self._allocated_at.pop(key, None)
            del self._retries[key]
            return "gone", None
        if refused or done.stale:
            return ("refused" if refused else "outdated"), self._retry_after(key, refused=refused)
        del self._retries[key]
        if done.written:
            self._observe_publication(key)
        requeue_after = max((done.requeue_at - now).total_seconds(), 0.0) if done.requeue_at is not None else None
        return ("written" if done.written else "unchanged"), requeue_after

    async def _reconcile_profile(self, key: str) -> tuple[Result, float | None]:
        """Write the status of a profile: who asks for it, and where it fits."""
        profile = self._profiles.store.get(key.removeprefix("/"))
        if profile is None:
            self._explainer.forget(key)
            self._retries.pop(key, None)
            return "gone", None
        fit = self._explainer.fit_of(profile)
        if fit is None:
            return "unchanged", None
        patch = PatchStatus.between(profile, with_status(profile, self._sources.users_of(profile.name), fit))
        done = await write(self._cluster, (patch,) if patch.changes else (), profile)
        if not done.done:
            for event in done.refused:
                log.warning("%s", event.message, extra={"fields": {"profile": profile.name}})
            self._retries[key] = self._retries.get(key, 0) + 1
            return ("refused" if done.refused else "outdated"), self._retry_after(key, refused=bool(done.refused))
        self._retries.pop(key, None)
        return ("written" if patch.changes else "unchanged"), PROFILE_SECONDS

    async def _reconcile_standalone(
        self, key: str, now: datetime, settings: standalone.StandaloneSettings
    ) -> Reconciled:
        """Reconcile the VMI, then the VM of its name if there is one."""
        namespace, _, name = key.rpartition("/")
        vm = self._vms.store.get(name, namespace)
        done = await standalone.reconcile(
            self._sources, self._cluster, key, now, settings, self._explainer.condition_for,
            self._explainer.alignment_for,
        )  # fmt: skip
        if vm is None:
            return done
        return done.combined_with(
            await vm_lifecycle.reconcile(vm, self._sources, self._cluster, now, self._ambient.count_from)
        )

    def _observe_publication(self, key: str) -> None:
        allocated_at = self._allocated_at.pop(key, None)
        if allocated_at is not None:
            self._observer.published(self._ambient.monotonic() - allocated_at)


def _generation(obj: TypedObject | None) -> int | None:
    return None if obj is None else obj.metadata.generation


def _unallocated(old: TypedObject | None) -> bool:
    return not isinstance(old, ResourceClaim) or old.status.allocation is None
