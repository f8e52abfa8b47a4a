"""The claim controller of 1.26 to 1.31: generated claims, pods that have a node already, released claims (C-18.7)."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.api.core_v1 import Pod, reference_to
from virt_dra.api.resource_v1 import POD_CLAIM_NAME_ANNOTATION, ResourceClaimConsumerReference
from virt_dra.classic.claim_plans import (
    ClaimsKnown,
    NewClaim,
    NoClaim,
    PodView,
    ReserveFor,
    for_claim,
    for_scheduled_pod,
    next_for_pod,
)
from virt_dra.classic.objects import BUILTIN_FINALIZER, ClassicClaim, ClassicClaimTemplate, PodSchedulingContext
from virt_dra.classic.pod_claims import claims_named_by, with_consumer
from virt_dra.classic.release import NEWEST_STRUCTURED, ClassicRelease
from virt_dra.cluster.port import ApiError, NotFound
from virt_dra.cluster.watching.work_queue import WorkQueue
from virt_dra.controllers.events import shortened
from virt_dra.controllers.loops.claims.keys import WorkKey, key_for
from virt_dra.controllers.loops.claims.releasing import is_done
from virt_dra.controllers.loops.context import LoopContext
from virt_dra.controllers.writes import patch_status

CREATION_FAILED = "FailedResourceClaimCreation"

_OWNER = "classic owner"
_CONSUMER = "classic consumer"
_USES = "classic claims of pods"
_TEMPLATE = "classic templates of pods"


class ClaimFault(ApiError):
    """A claim could not be made; an Event said so. Tried again with back-off."""


class ClassicClaimController:
    """Implements :class:`ControlLoop`."""

    def __init__(self, context: LoopContext, release: ClassicRelease = NEWEST_STRUCTURED) -> None:
        self._cluster = context.cluster
        self._events = context.recorder("resource_claim")
        self._queue: WorkQueue[WorkKey] = WorkQueue(chance=context.chance)
        self._pods = context.informers.of(Pod)
        self._claims = context.informers.of(ClassicClaim)
        self._templates = context.informers.of(ClassicClaimTemplate)
        self._contexts = context.informers.of(PodSchedulingContext)
        self._made: dict[tuple[str, str], str] = {}
        """Pod UID and entry -> the name of the claim that was made and hasn't arrived in the informer."""
        self._claims.store.add_index(_OWNER, _owner_uids)
        self._claims.store.add_index(_CONSUMER, lambda claim: (consumer.uid for consumer in claim.status.reserved_for))
        self._pods.store.add_index(_USES, lambda pod: claims_named_by(pod, fixed=release.fixed_claim_names))
        self._pods.store.add_index(_TEMPLATE, _templates_of)
        self._pods.on_change(self._pod_changed)
        self._claims.on_change(self._claim_changed)
        self._templates.on_change(self._template_changed)
        self._view = PodView(
            claim=lambda namespace, name: self._claims.store.get(name, namespace),
            owned=lambda uid: self._claims.store.by_index(_OWNER, uid),
            template=lambda namespace, name: self._templates.store.get(name, namespace),
            context=lambda namespace, name: self._contexts.store.get(name, namespace),
            fixed=release.fixed_claim_names,
        )

    async def run(self) -> None:
        await self._queue.run(self._work, workers=4)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or not pod.spec.resource_claims:
            return
        if new is not None and not is_done(new):
            self._queue.add(key_for("pod", pod))
            return
        uid = pod.metadata.uid
        for claim in (*self._claims.store.by_index(_CONSUMER, uid), *self._claims.store.by_index(_OWNER, uid)):
            self._queue.add(key_for("claim", claim))

    def _claim_changed(self, old: ClassicClaim | None, new: ClassicClaim | None) -> None:
        claim = new or old
        if claim is None:
            return
        owner = claim.metadata.controller_owner
        if owner is not None and owner.kind == "Pod":
            self._made.pop((owner.uid, claim.metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION, "")), None)
            self._queue.add(WorkKey("pod", claim.namespace, owner.name))
        if new is not None:
            self._queue.add(key_for("claim", new))
        for pod in self._pods.store.by_index(_USES, (claim.namespace, claim.name)):
            self._queue.add(key_for("pod", pod))

    def _template_changed(self, old: ClassicClaimTemplate | None, new: ClassicClaimTemplate | None) -> None:
        for pod in self._pods.store.by_index(_TEMPLATE, (new.namespace, new.name)) if new is not None else ():
            self._queue.add(key_for("pod", pod))

    async def _work(self, key: WorkKey) -> None:
        await (self._sync_pod(key) if key.kind == "pod" else self._sync_claim(key))

    async def _sync_pod(self, key: WorkKey) -> None:
        pod = self._pods.store.get(key.name, key.namespace)
        if pod is None or pod.metadata.deletion_timestamp is not None or is_done(pod):
            return
        match next_for_pod(pod, self._view):
            case NewClaim(entry=entry, claim=claim):
                await self._create(pod, entry, claim)  # its arrival in the informer continues with the next
                return
            case NoClaim(entry=entry, message=message):
                raise self._fault(pod, entry, message)
            case ClaimsKnown(statuses=statuses) if statuses is not None:
                written = [status.to_wire() for status in statuses]
                await patch_status(self._cluster, pod, {"resourceClaimStatuses": written})
                return
        for action in for_scheduled_pod(pod, self._view):
            if isinstance(action, ReserveFor):
                await self._cluster.update_status(with_consumer(action.claim, pod))
            else:
                await (self._cluster.create if action.new else self._cluster.update)(action.context)

    async def _create(self, pod: Pod, entry: str, claim: ClassicClaim) -> None:
        """Not if one was made already that hasn't arrived in the informer yet: the cluster is asked for it."""
        made = self._made.get((pod.metadata.uid, entry))
        if made is not None:
            try:
                await self._cluster.get(ClassicClaim, made, pod.namespace)
            except NotFound:
                del self._made[pod.metadata.uid, entry]
            else:
                return
        try:
            created = await self._cluster.create(claim)
        except ApiError as error:
            raise self._fault(pod, entry, f"create ResourceClaim : {error}") from error
        self._made[pod.metadata.uid, entry] = created.name

    def _fault(self, pod: Pod, entry: str, message: str) -> ClaimFault:
        text = f"PodResourceClaim {entry}: {message}"
        self._events.record(reference_to(pod), "Warning", CREATION_FAILED, shortened(text))
        return ClaimFault(text)

    async def _sync_claim(self, key: WorkKey) -> None:
        claim = self._claims.store.get(key.name, key.namespace)
        if claim is None:
            return
        alive = {
            consumer.uid: await self._is_alive(claim.namespace, consumer) for consumer in claim.status.reserved_for
        }
        owner = claim.metadata.controller_owner
        pod = self._pods.store.get(owner.name, claim.namespace) if owner is not None else None
        cleanup = for_claim(claim, lambda consumer: alive[consumer.uid], pod)
        if cleanup.status is not None:
            claim = await self._cluster.update_status(cleanup.status)
        if cleanup.unprotect:
            claim = await self._cluster.update(claim.without_finalizer(BUILTIN_FINALIZER))
        if cleanup.delete:
            await self._cluster.delete(ClassicClaim, claim.name, claim.namespace, uid=claim.metadata.uid)

    async def _is_alive(self, namespace: str, consumer: ResourceClaimConsumerReference) -> bool:
        """By the informer; one that it doesn't know may only be young, so the cluster is asked (C-10.9)."""
        pod = self._pods.store.get(consumer.name, namespace)
        if pod is None or pod.metadata.uid != consumer.uid:
            try:
                pod = await self._cluster.get(Pod, consumer.name, namespace)
            except NotFound:
                return False
        return pod.metadata.uid == consumer.uid and not is_done(pod)


def _owner_uids(claim: ClassicClaim) -> tuple[str, ...]:
    owner = claim.metadata.controller_owner
    return () if owner is None else (owner.uid,)


def _templates_of(pod: Pod) -> Iterator[tuple[str, str]]:
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_template_name is not None:
            yield pod.namespace, entry.resource_claim_template_name
