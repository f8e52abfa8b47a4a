"""The controller that a classic driver runs on: it calls the author's three functions and writes what they say
(C-18.5).

A loop over claims and scheduling contexts. Before it acts it reads the object anew, so that a stale informer leads to
no action (upstream's library remembers what it wrote for 60 s). All writes carry the resourceVersion.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    nodes_to_ask_about,
    plan_claim,
    truncated,
    wants_answers,
    with_answers,
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
from virt_dra.classic.pod_claims import MissingClaim, PodClaim, is_reserved, with_consumer
from virt_dra.cluster.port import ApiError, NotFound
from virt_dra.cluster.watching.informer import Informer
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
    """An attempt failed: the text is for an Event on the claim or context. It is tried again with back-off."""


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
        informer: Informer[ClassicClaim] | Informer[PodSchedulingContext]
        informer = self._claims if key.kind == "claim" else self._contexts
        stored = informer.store.get(key.name, key.namespace)
        if stored is None:
            return None
        try:
            if isinstance(stored, ClassicClaim):
                return await self._sync_claim(stored)
            return await self._sync_context(stored)
        except ApiError as error:
            self._report(stored, str(error))
            raise

    def _class_of(self, claim: ClassicClaim, name: str = "") -> AnyClass | None:
        """The claim's class of a name; its first one if that is empty."""
        names = (name,) if name else class_names(claim)
        if claim.spec.controller is not None:
            return self._device_classes.store.get(names[0]) if names else None
        return self._classes.store.get(names[0])

    # --- claims ---

    async def _sync_claim(self, stored: ClassicClaim) -> float | None:
        if self._finalizer not in stored.metadata.finalizers:
            self._releasing.discard(stored.metadata.uid)
        plan = self._plan(stored)
        if not isinstance(plan, Nothing):
            try:
                claim = await self._cluster.get(ClassicClaim, stored.name, stored.namespace)
            except NotFound:
                return None
            plan = self._plan(claim)
        match plan:
            case Unprotect():
                await self._unprotect(claim)
            case Deallocate():
                await self._deallocate(claim)
            case AllocateNow(resource_class=cls):
                pending = await self._resolved(PodClaim("", claim), cls)
                for _, text in await self._allocate([pending], "", None):
                    raise DriverFault(f"allocate: {text}")
            case Nothing(missing=missing) if missing:
                raise DriverFault(missing)
            case Nothing(retry=True):
                return self._settings.recheck
        return None

    def _plan(self, claim: ClassicClaim) -> DriverClaimPlan:
        return plan_claim(claim, self._class_of, self._driver.name, releasing=claim.metadata.uid in self._releasing)

    async def _deallocate(self, claim: ClassicClaim) -> None:
        self._releasing.add(claim.metadata.uid)
        with _failing("stop allocation" if claim.status.allocation is None else "deallocate"):
            await self._driver.deallocate(claim)
        if deallocated(claim) != claim:
            with _failing("remove allocation"):
                claim = await self._cluster.update_status(deallocated(claim))
        await self._unprotect(claim)

    async def _clean_up(self, claim: ClassicClaim) -> None:
        """End what a crashed process had begun with a claim: it can't be an allocation of ours, as none is in
        progress."""
        try:
            await self._deallocate(claim)
        except ApiError as error:
            message = "claim %s keeps the finalizer of %s until it is used or deleted: %s"
            log.warning(message, claim.key, self._driver.name, error)

    async def _unprotect(self, claim: ClassicClaim) -> None:
        with _failing("remove finalizer"):
            await self._cluster.update(claim.without_finalizer(self._finalizer))
        self._releasing.discard(claim.metadata.uid)

    async def _allocate(self, pending: Sequence[PendingClaim], node: str, pod: Pod | None) -> list[tuple[str, str]]:
        """Finalizers, the author's function, a status write for each claim (C-18.5.2): those that failed, and why."""
        failures: dict[str, str] = {}
        protected: list[PendingClaim] = []
        for pending_claim in pending:
            try:
                protected.append(await self._protect(pending_claim))
            except ApiError as error:
                failures[pending_claim.claim.name] = f"add finalizer: {error}"
        for pending_claim, answer in zip(protected, await self._answers(protected, node), strict=True):
            name = pending_claim.claim.name
            if isinstance(answer, Exception):
                failures[name] = str(answer)
                continue
            try:
                await self._cluster.update_status(self._allocated(pending_claim.claim, answer, pod))
            except Exception as error:  # noqa: BLE001 - one claim's failure must not keep the others from being recorded
                failures[name] = f"add allocation: {error}"
        return [(claim.claim.name, failures[claim.claim.name]) for claim in pending if claim.claim.name in failures]

    async def _answers(self, claims: Sequence[PendingClaim], node: str) -> Sequence[ClassicAllocation | Exception]:
        if not claims:
            return ()
        try:
            answers = await self._driver.allocate(claims, node)
        except Exception as error:  # noqa: BLE001 - whatever the author's function raises is its answer for all claims
            return [error] * len(claims)
        if len(answers) != len(claims):
            counted = f"the driver answered for {len(answers)} claims of {len(claims)}"
            return [AllocationRefused(counted)] * len(claims)
        return answers

    async def _protect(self, pending: PendingClaim) -> PendingClaim:
        if self._finalizer in pending.claim.metadata.finalizers:
            return pending
        claim = await self._cluster.update(pending.claim.with_finalizer(self._finalizer))
        return replace(pending, claim=claim)

    def _allocated(self, claim: ClassicClaim, allocation: ClassicAllocation, pod: Pod | None) -> ClassicClaim:
        claim = claim.with_(status=claim.status.with_(driver_name=self._driver.name, allocation=allocation))
        reserves = pod is not None and self._settings.reserves and not is_reserved(claim, pod)
        return with_consumer(claim, pod) if pod is not None and reserves else claim

    # --- scheduling contexts ---

    async def _sync_context(self, stored: PodSchedulingContext) -> float | None:
        """Answer about nodes, and allocate for the selected one (C-18.5.3). Returns when to look again."""
        if not wants_answers(stored):
            return None
        try:
            context = await self._cluster.get(PodSchedulingContext, stored.name, stored.namespace)
            pod = await self._cluster.get(Pod, stored.name, stored.namespace)
        except NotFound:
            return None
        if not wants_answers(context) or not context.is_controlled_by(pod) or pod.metadata.deletion_timestamp:
            return None
        claims = claims_to_allocate(pod, self._stored_claim, self._class_of, self._driver.name, fixed=self._fixed)
        if isinstance(claims, MissingClaim):
            raise DriverFault(claims.message)
        if not claims:
            return self._settings.recheck
        pending: list[PendingClaim] = []
        for pod_claim in claims:
            claim = await self._cluster.get(ClassicClaim, pod_claim.claim.name, pod_claim.claim.namespace)
            if claim.status.allocation is None and claim.metadata.deletion_timestamp is None:
                pending.append(await self._resolved(PodClaim(pod_claim.entry, claim), pod=pod))
        with _failing("checking potential nodes"):
            unsuitable = await self._unsuitable(pod, pending, nodes_to_ask_about(context))
        selected = context.spec.selected_node
        if pending and selected and not any(selected in nodes for nodes in unsuitable.values()):
            failures = await self._allocate(pending, selected, pod)
            if failures:
                raise DriverFault(
                    "\n".join(text if name in text else f"claim {name}: {text}" for name, text in failures)
                )
        answered = with_answers(context, {entry: truncated(nodes, selected) for entry, nodes in unsuitable.items()})
        if answered is not context:
            with _failing("update unsuitable node status"):
                await self._cluster.update_status(answered)
        return self._settings.recheck

    def _stored_claim(self, namespace: str, name: str) -> ClassicClaim | None:
        return self._claims.store.get(name, namespace)

    async def _unsuitable(
        self, pod: Pod, pending: Sequence[PendingClaim], nodes: Sequence[str]
    ) -> Mapping[str, frozenset[str]]:
        """Entry -> the nodes that its driver excludes, of those asked about."""
        if not nodes or not pending:
            return {pending_claim.entry: frozenset() for pending_claim in pending}
        answers = await self._driver.unsuitable_nodes(pod, pending, nodes)
        if len(answers) != len(pending):
            raise DriverFault(f"the driver answered for {len(answers)} claims of {len(pending)}")
        asked = frozenset(nodes)
        return {
            pending_claim.entry: asked.intersection(answer)
            for pending_claim, answer in zip(pending, answers, strict=True)
        }

    # --- parameters ---

    async def _resolved(self, pod_claim: PodClaim, cls: AnyClass | None = None, pod: Pod | None = None) -> PendingClaim:
        """The claim with its class and parameters. What can't be read is also reported on the class, or, for a pod, on
        the claim and the pod. Raises :class:`DriverFault`."""
        claim, claim_class = pod_claim.claim, cls or self._class_of(pod_claim.claim)
        of_class: object = None
        try:
            reference = claim_class.parameters_ref if isinstance(claim_class, ResourceClass) else None
            of_class = await self._class_parameters(claim_class, reference)
        except Exception as error:
            if claim_class is not None:
                self._report(claim_class, str(error))
            raise self._unresolved(pod_claim, pod, f"class parameters {_in_go('Class', reference)}: {error}") from error
        try:
            of_claim = await self._claim_parameters(claim, claim_class, of_class)
        except Exception as error:
            if pod is not None:
                self._report(claim, str(error))
            text = f"claim parameters {_in_go('Claim', claim.spec.parameters_ref)}: {error}"
            raise self._unresolved(pod_claim, pod, text) from error
        return PendingClaim(claim, claim_class, pod_claim.entry, of_class, of_claim)

    def _unresolved(self, pod_claim: PodClaim, pod: Pod | None, text: str) -> DriverFault:
        if pod is None:
            return DriverFault(text)
        self._report(pod, f"claim {pod_claim.claim.name}: {text}")
        return DriverFault(f"pod claim {pod_claim.entry}: {text}")

    async def _class_parameters(self, claim_class: AnyClass | None, reference: ParametersReference | None) -> object:
        if isinstance(self._driver, ParametersReader):
            return await self._driver.class_parameters(claim_class)
        return None if reference is None else await self._object(reference, reference.namespace)

    async def _claim_parameters(self, claim: ClassicClaim, claim_class: AnyClass | None, of_class: object) -> object:
        if isinstance(self._driver, ParametersReader):
            return await self._driver.claim_parameters(claim, claim_class, of_class)
        reference = claim.spec.parameters_ref
        return None if reference is None else await self._object(reference, claim.namespace)

    async def _object(self, reference: ParametersReference, namespace: str) -> TypedObject:
        kind = self._kinds.get((reference.api_group, reference.kind))
        if kind is None:
            named = f"{reference.kind}.{reference.api_group}" if reference.api_group else reference.kind
            raise DriverFault(f"parameters of kind {named} are not known to this driver")
        return await self._cluster.get(kind, reference.name, namespace)

    def _report(self, obj: TypedObject, message: str) -> None:
        self._events.record(reference_to(obj), "Warning", FAILED, shortened(message))


@contextmanager
def _failing(action: str) -> Iterator[None]:
    """Whatever is raised in it becomes a fault that begins with ``action``."""
    try:
        yield
    except Exception as error:
        raise DriverFault(f"{action}: {error}") from error


def _in_go(referrer: str, reference: ParametersReference | None) -> str:
    """A reference as upstream's messages print it."""
    if reference is None:
        return "nil"
    namespace = f"Namespace:{reference.namespace}," if referrer == "Class" else ""
    inside = f"APIGroup:{reference.api_group},Kind:{reference.kind},Name:{reference.name},{namespace}"
    return f"&Resource{referrer}ParametersReference{{{inside}}}"


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
