"""The keeper's loop: informers, a queue of VMs, and workers that plan and write."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.keeping.claims import kept_entries, other_consumers
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.cluster.port import Cluster, NotFound
from virt_dra.cluster.watching.event_recorder import EventRecorder
from virt_dra.cluster.watching.informer import Informer
from virt_dra.controllers.events import Event
from virt_dra.controllers.keeping.gathering import INDEXES, TRANSFORMS, KeeperStores
from virt_dra.controllers.keeping.plan import KeepingInputs, KeepingPlan, plan
from virt_dra.controllers.keeping.unused_time import UnusedTime
from virt_dra.controllers.keyed_loop import Ambient, KeyedLoop, KeyedLoopObserver, Result
from virt_dra.controllers.loops.claims.releasing import is_done
from virt_dra.controllers.loops.taint_eviction.taints import AllocatedTaints
from virt_dra.controllers.writes import write

log = logging.getLogger(__name__)

COMPONENT: Final = "virt-dra-keeper"
_PODS: Final = "pods"
_ENDED_SECONDS: Final = 30.0
"""How often pods among the consumers are looked at where nobody else removes those that have ended."""


class KeeperObserver(KeyedLoopObserver, Protocol):
    """The metrics of the loop. Must not raise."""

    def released(self, reason: str) -> None:
        """A claim was released."""


@dataclass(frozen=True)
class KeeperSettings:
    """``namespace``: of VMs, "" for all. ``instance``: the replica's name, for Events. ``removes_ended_pods``: as the
    claim controllers of Kubernetes 1.34 and 1.35 don't where a VM is a consumer (P-4)."""

    namespace: str = ""
    instance: str = COMPONENT
    workers: int = 4
    removes_ended_pods: bool = False


class KeepingLoop(KeyedLoop):
    """The keeper; a key is the namespace and name of a VM."""

    def __init__(self, cluster: Cluster, settings: KeeperSettings, ambient: Ambient, observer: KeeperObserver) -> None:
        events = EventRecorder(cluster, COMPONENT, settings.instance, clock=ambient.now, suffixes=ambient.suffix)
        super().__init__(ambient, observer, events, settings.workers)
        self._cluster, self._settings, self._observer = cluster, settings, observer
        self._said: dict[str, frozenset[Event]] = {}
        """What lasts and was said of a VM, so that it is said once."""
        self._unused = UnusedTime(ambient.monotonic)
        vms = self._informer(VirtualMachine)
        vmis = self._informer(VirtualMachineInstance)
        claims = self._informer(ResourceClaim)
        templates = self._informer(ResourceClaimTemplate)
        nodes = self._informer(Node, everywhere=True)
        slices = self._informer(ResourceSlice, everywhere=True)
        rules = self._informer(DeviceTaintRule, everywhere=True, optional=True)
        policies = self._informer(KeepPolicy, optional=True)
        self._informers = (vms, vmis, claims, templates, nodes, slices, rules, policies)
        self._stores = KeeperStores(
            vms.store, vmis.store, claims.store, templates.store, nodes.store, policies.store, AllocatedTaints()
        )
        for informer in self._informers:
            informer.on_change(self._changed)

    def _informer(self, kind: type[Any], *, everywhere: bool = False, optional: bool = False) -> Informer[Any]:
        return Informer(
            self._cluster, kind, "" if everywhere else self._settings.namespace, indexes=INDEXES.get(kind),
            transform=TRANSFORMS.get(kind), optional=optional, observer=self._observer,
            clock=self._ambient.monotonic, chance=self._ambient.chance,
        )  # fmt: skip

    def kept_devices(self) -> dict[tuple[str, str], float]:
        """Devices of kept claims, by namespace and whether their VM is stopped (``unused``)."""
        return self._unused.devices()

    def unused_device_seconds(self) -> dict[str, float]:
        """How long stopped VMs have kept devices since the process began, by namespace."""
        return self._unused.device_seconds()

    def _all_keys(self) -> Iterable[str]:
        stores = self._stores
        keeping = {vmi.key for vmi in stores.vmis.values() if kept_entries(vmi)}
        return sorted(keeping | {vm.key for vm in stores.vms.values()} | set(stores.vm_keys_of_claims()))

    def _changed(self, old: TypedObject | None, new: TypedObject | None) -> None:
        if isinstance(old, ResourceClaim) or isinstance(new, ResourceClaim):
            self._unused.claim_changed(*(state if isinstance(state, ResourceClaim) else None for state in (old, new)))
        for key in self._stores.affected(old, new):
            self._requeue(key, 0.0)

    async def _reconcile(self, key: str) -> tuple[Result, float | None]:
        now = self._ambient.now()
        inputs = await self._without_ended(self._stores.inputs(key, now))
        planned = plan(inputs)
        if planned.takes_away:
            inputs = await self._without_ended(await self._stores.certain_inputs(self._cluster, key, now))
            planned = plan(inputs)
        self._say(key, planned.standing)
        self._retries[key] = self._retries.get(key, 0) + 1
        written, stale, refused = await self._apply(key, inputs, planned)
        if stale or refused:
            return ("refused" if refused else "outdated"), self._retry_after(key, refused=refused)
        del self._retries[key]
        if inputs.vm is None and not inputs.claims:
            self._said.pop(key, None)
            return "gone", None
        again = max((planned.requeue_at - now).total_seconds(), 0.0) if planned.requeue_at is not None else None
        if self._settings.removes_ended_pods and any(other_consumers(claim) for claim in inputs.claims):
            again = min(again, _ENDED_SECONDS) if again is not None else _ENDED_SECONDS
        return ("written" if written else "unchanged"), again

    async def _apply(self, key: str, inputs: KeepingInputs, planned: KeepingPlan) -> tuple[int, bool, bool]:
        """Write claim by claim: a refused one doesn't keep the others. The number written, and whether any was stale,
        refused."""
        written, stale, refused = 0, False, False
        for claim in planned.claims:
            about = inputs.vm or inputs.claims[0]
            result = await write(self._cluster, claim.actions, about)
            stale |= result.stale
            if result.refused:
                refused = True
                # The first refusal may come from an API server that hasn't loaded our permissions yet.
                if self._retries[key] > 1:
                    self._emit(result.refused)
                    self._emit(_on_instance(result.refused, inputs))
            if result.done:
                written += len(claim.actions)
                self._emit(claim.events)
                if claim.released:
                    self._observer.released(claim.released)
                    fields = {"vm": key, "reason": claim.released}
                    log.info("released", extra={"fields": fields})
        return written, stale, refused

    def _say(self, key: str, standing: tuple[Event, ...]) -> None:
        before = self._said.get(key, frozenset())
        self._emit(event for event in standing if event not in before)
        if standing:
            self._said[key] = frozenset(standing)
        else:
            self._said.pop(key, None)

    async def _without_ended(self, inputs: KeepingInputs) -> KeepingInputs:
        """The inputs with the consumers that are pods which have ended, where the keeper removes these (P-4)."""
        if not self._settings.removes_ended_pods:
            return inputs
        ended = set()
        for claim in inputs.claims:
            for consumer in other_consumers(claim):
                if consumer.api_group or consumer.resource != _PODS:
                    continue
                try:
                    pod = await self._cluster.get(Pod, consumer.name, claim.namespace)
                except NotFound:
                    ended.add(consumer.uid)
                else:
                    if pod.metadata.uid != consumer.uid or is_done(pod):
                        ended.add(consumer.uid)
        return replace(inputs, ended=frozenset(ended))


def _on_instance(refused: Iterable[Event], inputs: KeepingInputs) -> list[Event]:
    """The same Events about the VMI, where people look for why it doesn't start (P-12)."""
    vmi = inputs.vmi
    if vmi is None:
        return []
    return [replace(event, kind=vmi.KIND, name=vmi.name, uid=vmi.metadata.uid) for event in refused]
