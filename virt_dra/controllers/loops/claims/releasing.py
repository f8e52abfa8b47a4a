"""Releases a claim whose consumers are done: its reservations, its devices, and a generated one itself (C-10.9 to
C-10.12)."""

from __future__ import annotations

from virt_dra.api.core_v1 import Pod
from virt_dra.api.feature_gates import FeatureGates
from virt_dra.api.meta import OwnerReference
from virt_dra.api.resource_v1 import FINALIZER, ResourceClaim, ResourceClaimConsumerReference
from virt_dra.controllers.loops.claims.actions import ChangeReservations, ClaimAction, DeleteClaim, UnblockDeletion
from virt_dra.controllers.loops.claims.view import ClaimView
from virt_dra.scheduling.claim_references import PODS, is_of_group


def is_done(pod: Pod) -> bool:
    """Whether a pod is done with its claims: it has finished, or is being deleted and never had a node (C-10.2)."""
    return pod.finished or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def for_claim(
    view: ClaimView, claim: ResourceClaim, gates: FeatureGates, joining: tuple[ResourceClaimConsumerReference, ...] = ()
) -> list[ClaimAction]:
    """The writes for a claim (C-10.9 to C-10.12). ``joining``: consumers to add in the same write."""
    actions: list[ClaimAction] = []
    reserved = claim.status.reserved_for
    kept = tuple(consumer for consumer in reserved if _keeps(view, claim.namespace, consumer, gates))
    wanted = (*kept, *{consumer.uid: consumer for consumer in joining}.values())
    protected = FINALIZER in claim.metadata.finalizers
    if wanted != reserved:
        actions.append(ChangeReservations(claim, wanted, deallocate=not wanted and protected))
    elif protected and claim.metadata.deletion_timestamp is not None and not wanted:
        actions.append(UnblockDeletion(claim))
    if not wanted and claim.metadata.deletion_timestamp is None and _is_unused(view, claim):
        actions.append(DeleteClaim(claim))
    return actions


def owning_pod(claim: ResourceClaim) -> OwnerReference | None:
    """The pod that the claim was generated for, by template or for its extended resources."""
    owner = claim.metadata.controller_owner
    return owner if owner is not None and (owner.api_version, owner.kind) == ("v1", "Pod") else None


def _is_unused(view: ClaimView, claim: ResourceClaim) -> bool:
    """Whether the pod that the claim was made for is done or another one (C-10.12). An owner that isn't there is left
    to garbage collection: it may only be younger than our view."""
    owner = owning_pod(claim)
    pod = view.pod(claim.namespace, owner.name) if owner is not None else None
    return owner is not None and pod is not None and (pod.metadata.uid != owner.uid or is_done(pod))


def _keeps(view: ClaimView, namespace: str, consumer: ResourceClaimConsumerReference, gates: FeatureGates) -> bool:
    """Whether a reservation still holds. Only those of pods and PodGroups are dropped here (C-10.9)."""
    if not consumer.api_group and consumer.resource == PODS:
        if view.is_deleted(consumer.uid):
            return False
        cached = view.pod(namespace, consumer.name)
        if cached is not None:
            return cached.metadata.uid == consumer.uid and not is_done(cached)
        pod = view.certain_pod(namespace, consumer.name)
        return pod is not None and pod.metadata.uid == consumer.uid
    if gates.workload_resource_claims and is_of_group(consumer):
        if view.is_deleted(consumer.uid):
            return False
        group = view.certain_pod_group(namespace, consumer.name)
        return group is not None and group.metadata.uid == consumer.uid
    return True
