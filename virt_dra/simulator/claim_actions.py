"""Filters the claim controller's actions for a run: other pods of the cluster hold claims, too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import FINALIZER, ResourceClaim, ResourceClaimConsumerReference
from virt_dra.controllers.loops.claims import (
    ChangeReservations,
    ClaimAction,
    CreateClaim,
    RecordClaimNames,
    UnblockDeletion,
    is_done,
)
from virt_dra.controllers.loops.claims.actions import subject
from virt_dra.scheduling.claim_references import PODS


def relevant(
    actions: Iterable[ClaimAction], pods: Mapping[str, Pod], excluded: Collection[str]
) -> Iterator[ClaimAction]:
    """The actions to apply: claims are created for every pod except ``excluded`` ones, and released by finished pods.
    Reservations for pods that the input lacks stay. ``pods`` and ``excluded``: by ``namespace/name``."""
    for action in actions:
        if isinstance(action, CreateClaim | RecordClaimNames):
            if not isinstance(action.owner, Pod) or action.owner.key not in excluded:
                yield action
        elif isinstance(action, ChangeReservations):
            reserved = action.claim.status.reserved_for
            kept = (consumer for consumer in reserved if not _is_finished_with(consumer, action.claim, pods))
            wanted = (*kept, *(consumer for consumer in action.reserved_for if consumer not in reserved))
            if wanted != reserved:
                deallocate = not wanted and FINALIZER in action.claim.metadata.finalizers
                yield ChangeReservations(action.claim, wanted, deallocate=deallocate)
        elif isinstance(action, UnblockDeletion) or all(
            _is_finished_with(consumer, action.claim, pods) for consumer in action.claim.status.reserved_for
        ):
            yield action


def subject_of(action: ClaimAction) -> tuple[str, str]:
    """Kind and ``namespace/name`` of the action's object, on which a refusal is reported."""
    about = subject(action)
    return about.KIND, about.key


def _is_finished_with(consumer: ResourceClaimConsumerReference, claim: ResourceClaim, pods: Mapping[str, Pod]) -> bool:
    """True if the consumer is a pod of the input that is finished with the claim (C-10.2, C-10.9)."""
    if consumer.api_group or consumer.resource != PODS:
        return False
    pod = pods.get(f"{claim.namespace}/{consumer.name}")
    return pod is not None and (pod.metadata.uid != consumer.uid or is_done(pod))
