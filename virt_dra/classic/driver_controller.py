"""The controller that a classic driver runs on: it calls the author's three functions and writes what they say
(C-18.5).

A loop over keys: claims and scheduling contexts, each retried with back-off. Before it acts it reads the object anew,
so that a stale informer leads to no action; upstream's library remembers what it wrote for 60 s instead. All writes
carry the resourceVersion.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from virt_dra.api.core_v1 import Pod, reference_to
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.classic.driver import AllocationRefused, ClassicDriver, DriverSettings, ParametersReader, PendingClaim
from virt_dra.classic.driver_plans import (
    AllocateNow,
    AnyClass,
    Deallocate,
    DriverClaimPlan,
    Nothing,
    Unprotect,
    claims_to_allocate,
    class_names,
    deallocated,
    is_left_over,
    is_of_pod,
    nodes_to_ask_about,
    plan_claim,
    truncated,
    wants_answers,
    with_answers,
    with_finalizer,
    without_finalizer,
)
from virt_dra.classic.objects import (
    ClassicAllocation,
    ClassicClaim,
    ClassicDeviceClass,
    ParametersReference,
    PodSchedulingContext,
    ResourceClass,
    driver_finalizer,
)
from virt_dra.classic.pod_claims import PodClaim, is_reserved, with_consumer
from virt_dra.cluster.port import ApiError, NotFound
from virt_dra.cluster.watching.work_queue import WorkQueue
from virt_dra.controllers.events import shortened
from virt_dra.controllers.loops.context import LoopContext

log = logging.getLogger(__name__)

FAILED = "Failed"
"""The reason of all Events of the framework."""

CONFIG_MAP = unknown_kind("v1", "ConfigMap")


class DriverKey(NamedTuple):
    """An object that the controller looks after."""

    kind: Literal["claim", "schedulingCtx"]
    namespace: str
    name: str


class DriverFault(ApiError):
    """An attempt failed; an Event said so. The key is tried again with back-off."""


class DriverController:
    """Implements :class:`ControlLoop` for one driver."""

    def __init__(self, context: LoopContext, driver: ClassicDriver, settings: DriverSettings | None = None) -> None:
        self._cluster = context.cluster
        self._driver = driver
        self._settings = settings or DriverSettings()
        self._finalizer = driver_finalizer(driver.name)
        self._releasing: set[str] = set()
        """UIDs of claims whose deallocation has begun and whose finalizer isn't removed yet."""
        self._fixed = self._settings.release.fixed_claim_names
        self._events = context.recorder(driver.name)
        self._queue: WorkQueue[DriverKey] = WorkQueue(chance=context.chance)
        self._claims = context.informers.of(ClassicClaim)
        self._contexts = context.informers.of(PodSchedulingContext)
        self._classes = context.informers.of(ResourceClass)
        self._device_classes = context.informers.of(ClassicDeviceClass)
        self._by_class = f"claims by class, of {driver.name}"
        self._claims.store.add_index(self._by_class, class_names)
        self._claims.on_change(lambda old, new: self._enqueue("claim", new))
        self._contexts.on_change(lambda old, new: self._enqueue("schedulingCtx", new))
        self._classes.on_change(self._class_changed)
        self._kinds = {
            (_group(kind.API_VERSION), kind.KIND): kind for kind in (CONFIG_MAP, *self._settings.parameter_kinds)
        }

    async def run(self) -> None:
        """See :class:`ControlLoop`."""
        for claim in sorted(self._claims.store.values(), key=lambda claim: claim.key):
            if is_left_over(claim, self._driver.name):
                await self._clean_up(claim)
        await self._queue.run(self._work, workers=self._settings.workers)

    def _enqueue(self, kind: Literal["claim", "schedulingCtx"], obj: TypedObject | None) -> None:
        if obj is not None:
            self._queue.add(DriverKey(kind, obj.namespace, obj.name))

    def _class_changed(self, old: ResourceClass | None, new: ResourceClass | None) -> None:
        """A class that appears or changes its driver may make claims this driver's."""
        for claim in self._claims.store.by_index(self._by_class, new.name) if new is not None else ():
            self._enqueue("claim", claim)

    async def _work(self, key: DriverKey) -> float | None:
        if key.kind == "claim":
            return await self._sync_claim(key)
        return await self._sync_context(key)

    def _class_of(self, claim: ClassicClaim) -> AnyClass | None:
        names = class_names(claim)
        if claim.spec.controller is not None:
            return self._device_classes.store.get(names[0]) if names else None
        return self._classes.store.get(names[0])

    # --- claims ---

    async def _sync_claim(self, key: DriverKey) -> float | None:
        stored = self._claims.store.get(key.name, key.namespace)
        if stored is None:
            return None
        if self._finalizer not in stored.metadata.finalizers:
            self._releasing.discard(stored.metadata.uid)
        plan = self._plan(stored)
        if not isinstance(plan, Nothing):
            try:
                claim = await self._cluster.get(ClassicClaim, key.name, key.namespace)
            except NotFound:
                return None
            plan = self._plan(claim)
        match plan:
            case Unprotect():
                await self._unprotect(claim)
            case Deallocate():
                await self._deallocate(claim)
            case AllocateNow(resource_class=cls):
                pending = await self._resolved((PodClaim("", claim),), cls)
                await self._allocate(pending, "", None)
            case Nothing(retry=reason) if reason:
                return self._settings.recheck
        return None

    def _plan(self, claim: ClassicClaim) -> DriverClaimPlan:
        return plan_claim(claim, self._class_of, self._driver.name, releasing=claim.metadata.uid in self._releasing)

    async def _deallocate(self, claim: ClassicClaim) -> None:
        self._releasing.add(claim.metadata.uid)
        try:
            await self._driver.deallocate(claim)
        except Exception as error:
            self._report(claim, f"deallocate: {error}")
            raise DriverFault(str(error)) from error
        if deallocated(claim) != claim:
            claim = await self._cluster.update_status(deallocated(claim))
        await self._unprotect(claim)

    async def _clean_up(self, claim: ClassicClaim) -> None:
        """End what a process that crashed had begun with a claim: nothing is in progress yet, so it can't be an
        allocation of ours."""
        try:
            await self._deallocate(claim)
        except ApiError as error:
            message = "claim %s keeps the finalizer of %s until it is used or deleted: %s"
            log.warning(message, claim.key, self._driver.name, error)

    async def _unprotect(self, claim: ClassicClaim) -> None:
        await self._cluster.update(without_finalizer(claim, self._finalizer))
        self._releasing.discard(claim.metadata.uid)

    async def _allocate(self, pending: Sequence[PendingClaim], node: str, pod: Pod | None) -> None:
        """Finalizers first, then the author's function, then one status write for each claim (C-18.5.2). Raises
        DriverFault."""
        protected = [
            pending_claim
            if self._finalizer in pending_claim.claim.metadata.finalizers
            else await self._protect(pending_claim)
            for pending_claim in pending
        ]
        try:
            answers = await self._driver.allocate(protected, node)
            if len(answers) != len(protected):
                raise AllocationRefused(f"the driver answered for {len(answers)} claims of {len(protected)}")
        except Exception as error:
            for pending_claim in protected:
                self._report(pending_claim.claim, f"allocate: {error}")
            raise DriverFault(str(error)) from error
        failures: list[Exception] = []
        for pending_claim, answer in zip(protected, answers, strict=True):
            try:
                if isinstance(answer, AllocationRefused):
                    raise answer
                await self._cluster.update_status(self._allocated(pending_claim.claim, answer, pod))
            except Exception as error:  # noqa: BLE001 - one claim's failure must not keep the others from being recorded; all are raised
                self._report(pending_claim.claim, f"allocate: {error}")
                failures.append(error)
        if failures:
            raise DriverFault("; ".join(map(str, failures))) from failures[0]

    async def _protect(self, pending: PendingClaim) -> PendingClaim:
        claim = await self._cluster.update(with_finalizer(pending.claim, self._finalizer))
        return replace(pending, claim=claim)

    def _allocated(self, claim: ClassicClaim, allocation: ClassicAllocation, pod: Pod | None) -> ClassicClaim:
        claim = claim.with_(status=claim.status.with_(driver_name=self._driver.name, allocation=allocation))
        reserves = pod is not None and self._settings.reserves and not is_reserved(claim, pod)
        return with_consumer(claim, pod) if pod is not None and reserves else claim

    # --- scheduling contexts ---

    async def _sync_context(self, key: DriverKey) -> float | None:
        """Answer about nodes, and allocate for the selected one (C-18.5.3). Returns when to look again."""
        stored = self._contexts.store.get(key.name, key.namespace)
        if stored is None or not wants_answers(stored):
            return None
        try:
            context = await self._cluster.get(PodSchedulingContext, key.name, key.namespace)
            pod = await self._cluster.get(Pod, key.name, key.namespace)
        except NotFound:
            return None
        if not wants_answers(context) or not is_of_pod(context, pod):
            return None
        claims = claims_to_allocate(pod, self._stored_claim, self._class_of, self._driver.name, fixed=self._fixed)
        if not claims:
            return self._settings.recheck
        unallocated: list[PodClaim] = []
        for pod_claim in claims:
            claim = await self._cluster.get(ClassicClaim, pod_claim.claim.name, pod_claim.claim.namespace)
            if claim.status.allocation is None and claim.metadata.deletion_timestamp is None:
                unallocated.append(PodClaim(pod_claim.entry, claim))
        pending = await self._resolved(unallocated)
        unsuitable = await self._unsuitable(pod, pending, nodes_to_ask_about(context))
        selected = context.spec.selected_node
        if pending and selected and not any(selected in nodes for nodes in unsuitable.values()):
            await self._allocate(pending, selected, pod)
        if nodes_to_ask_about(context):
            answered = with_answers(context, {entry: truncated(nodes, selected) for entry, nodes in unsuitable.items()})
            if answered is not context:
                await self._cluster.update_status(answered)
        return self._settings.recheck

    def _stored_claim(self, namespace: str, name: str) -> ClassicClaim | None:
        return self._claims.store.get(name, namespace)

    async def _unsuitable(
        self, pod: Pod, pending: Sequence[PendingClaim], nodes: Sequence[str]
    ) -> Mapping[str, frozenset[str]]:
        """Entry -> the nodes that its driver excludes, of those asked about."""
        if not nodes or not pending:
            return {}
        try:
            answers = await self._driver.unsuitable_nodes(pod, pending, nodes)
            if len(answers) != len(pending):
                raise DriverFault(f"the driver answered for {len(answers)} claims of {len(pending)}")
        except Exception as error:
            for pending_claim in pending:
                self._report(pending_claim.claim, f"unsuitable nodes: {error}")
            raise DriverFault(str(error)) from error
        asked = frozenset(nodes)
        return {
            pending_claim.entry: asked.intersection(answer)
            for pending_claim, answer in zip(pending, answers, strict=True)
        }

    # --- parameters ---

    async def _resolved(self, claims: Sequence[PodClaim], cls: AnyClass | None = None) -> list[PendingClaim]:
        """The claims with class and parameters. Raises :class:`DriverFault` for parameters that can't be read (Event on
        the claim)."""
        resolved = []
        for pod_claim in claims:
            claim, claim_class = pod_claim.claim, cls or self._class_of(pod_claim.claim)
            try:
                of_class, of_claim = await self._parameters(claim, claim_class)
            except Exception as error:
                self._report(claim, f"parameters: {error}")
                raise DriverFault(str(error)) from error
            resolved.append(PendingClaim(claim, claim_class, pod_claim.entry, of_class, of_claim))
        return resolved

    async def _parameters(self, claim: ClassicClaim, claim_class: AnyClass | None) -> tuple[object, object]:
        if isinstance(self._driver, ParametersReader):
            of_class = await self._driver.class_parameters(claim_class)
            return of_class, await self._driver.claim_parameters(claim, claim_class, of_class)
        reference = claim_class.parameters_ref if isinstance(claim_class, ResourceClass) else None
        of_class = None if reference is None else await self._object(reference, reference.namespace)
        mine = claim.spec.parameters_ref
        return of_class, None if mine is None else await self._object(mine, claim.namespace)

    async def _object(self, reference: ParametersReference, namespace: str) -> TypedObject:
        kind = self._kinds.get((reference.api_group, reference.kind))
        if kind is None:
            named = f"{reference.kind}.{reference.api_group}" if reference.api_group else reference.kind
            raise DriverFault(f"parameters of kind {named} are not known to this driver")
        return await self._cluster.get(kind, reference.name, namespace)

    def _report(self, claim: ClassicClaim, message: str) -> None:
        self._events.record(reference_to(claim), "Warning", FAILED, shortened(message))


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
