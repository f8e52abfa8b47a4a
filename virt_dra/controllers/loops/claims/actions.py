"""The writes of the claim controller, each bound to the object that it was decided for, by resourceVersion or UID."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from virt_dra.api.core_v1 import Pod, PodResourceClaimStatus
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import FINALIZER, ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus
from virt_dra.api.scheduling_v1 import PodGroup, PodGroupResourceClaimStatus
from virt_dra.cluster.port import ApiError, Writer
from virt_dra.controllers.events import Event, is_stale, warning
from virt_dra.controllers.writes import patch_status
from virt_dra.scheduling.claim_references import with_reservations

ClaimOwner = Pod | PodGroup
"""What claims are generated for."""
RecordedClaim = PodResourceClaimStatus | PodGroupResourceClaimStatus

CREATION_FAILED: Final = "FailedResourceClaimCreation"
"""A claim of the pod or PodGroup can't be made now; tried again (C-10.4). The only reason that is reported on it."""
RECORDING_FAILED: Final = "FailedResourceClaimStatusUpdate"
"""The names of an object's claims could not be written to its status; tried again (C-10.6)."""
RESERVATION_FAILED: Final = "FailedResourceClaimReservation"
"""Reservations of a claim could not be changed; tried again (C-10.7, C-10.10)."""
RELEASE_FAILED: Final = "FailedResourceClaimRelease"
"""A finalizer could not be removed, or an unused generated claim not deleted; tried again (C-10.11, C-10.12)."""


@dataclass(frozen=True)
class CreateClaim:
    """Create a claim from a template for one entry of a pod or PodGroup."""

    owner: ClaimOwner
    entry: str
    claim: ResourceClaim


@dataclass(frozen=True)
class RecordClaimNames:
    """Write all names of an object's generated claims into its status, sorted by entry (C-10.6)."""

    owner: ClaimOwner
    statuses: tuple[RecordedClaim, ...]


@dataclass(frozen=True)
class ChangeReservations:
    """Set ``reservedFor``; with ``deallocate`` also clear the allocation, then the finalizer (C-10.7, C-10.10)."""

    claim: ResourceClaim
    reserved_for: tuple[ResourceClaimConsumerReference, ...]
    deallocate: bool


@dataclass(frozen=True)
class UnblockDeletion:
    """Clear what is left of the allocation and remove the finalizer of a claim that is being deleted (C-10.11)."""

    claim: ResourceClaim


@dataclass(frozen=True)
class DeleteClaim:
    """Delete a generated claim whose pod is done or replaced (C-10.12), and only that one (its UID; C-20.13)."""

    claim: ResourceClaim


ClaimAction = CreateClaim | RecordClaimNames | ChangeReservations | UnblockDeletion | DeleteClaim


def subject(action: ClaimAction) -> ClaimOwner | ResourceClaim:
    """The object that the action is about, and on which a refusal is reported."""
    return action.owner if isinstance(action, CreateClaim | RecordClaimNames) else action.claim


async def apply(writer: Writer, actions: Iterable[ClaimAction]) -> tuple[Event, ...]:
    """Write in order; refused writes are returned as Events. An object that has changed since is left to the next pass.
    The first error ends the turn of the pod (C-10.4) or of the claim: one that could not be released is not deleted
    (C-10.12)."""
    events: list[Event] = []
    stopped: set[tuple[str, str]] = set()
    for action in actions:
        turn = (subject(action).KIND, subject(action).key)
        if turn in stopped:
            continue
        try:
            await write(writer, action)
        except ApiError as error:
            stopped.add(turn)
            if isinstance(action, CreateClaim) or not is_stale(error):
                events.append(refused(action, error))
    return tuple(events)


def entry_label(owner: ClaimOwner) -> str:
    """The term for an entry of ``spec.resourceClaims`` in Events."""
    return "PodResourceClaim" if isinstance(owner, Pod) else "PodGroupResourceClaim"


def refused(action: ClaimAction, error: ApiError) -> Event:
    """The Event about a write that the cluster refused."""
    match action:
        case RecordClaimNames(owner=owner):
            kind = "pod" if isinstance(owner, Pod) else "PodGroup"
            return warning(owner, RECORDING_FAILED, f"update {kind} {owner.key} ResourceClaimStatuses: {error}")
        case CreateClaim(owner=owner, entry=entry):
            return warning(owner, CREATION_FAILED, f"{entry_label(owner)} {entry}: create ResourceClaim : {error}")
        case ChangeReservations(claim=claim):
            return warning(claim, RESERVATION_FAILED, f"reserve claim {claim.name}: {error}")
        case DeleteClaim(claim=claim):
            return warning(claim, RELEASE_FAILED, f"delete unused generated claim {claim.key}: {error}")
        case UnblockDeletion(claim=claim):
            return warning(claim, RELEASE_FAILED, f"remove finalizer of claim {claim.key}: {error}")


async def write(writer: Writer, action: ClaimAction) -> TypedObject | None:
    """Perform one action; the object as it is now, None if it is (being) deleted. Raises :class:`ApiError`."""
    match action:
        case CreateClaim(claim=claim):
            return await writer.create(claim)
        case RecordClaimNames(owner=owner, statuses=statuses):
            # A patch, because others write other parts of the same status; the UID keeps it off an object re-created by
            # that name. Entries without a name are not ours: applied server-side they would stay, and their claims stay
            # unneeded (C-3.1).
            ours = {status.name for status in statuses}
            merged = sorted(
                (*statuses, *(other for other in owner.status.resource_claim_statuses if other.name not in ours)),
                key=lambda status: status.name,
            )
            return await patch_status(writer, owner, {"resourceClaimStatuses": [status.to_wire() for status in merged]})
        case ChangeReservations(claim=claim, reserved_for=reserved_for, deallocate=deallocate):
            status = with_reservations(claim.status, reserved_for)
            written = await writer.update_status(
                claim.with_(status=_without_allocation(status) if deallocate else status)
            )
            if not reserved_for and written.status.allocation is None and FINALIZER in written.metadata.finalizers:
                return await writer.update(written.without_finalizer(FINALIZER))
            return written
        case UnblockDeletion(claim=claim):
            if claim.status.allocation is not None:
                claim = await writer.update_status(claim.with_(status=_without_allocation(claim.status)))
            await writer.update(claim.without_finalizer(FINALIZER))
        case DeleteClaim(claim=claim):
            await writer.delete(ResourceClaim, claim.name, claim.namespace, uid=claim.metadata.uid)
    return None


def _without_allocation(status: ResourceClaimStatus) -> ResourceClaimStatus:
    return ResourceClaimStatus.from_wire({key: value for key, value in status.to_wire().items() if key != "allocation"})
