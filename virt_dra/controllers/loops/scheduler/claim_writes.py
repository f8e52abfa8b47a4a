"""What the scheduler writes to claims: finalizer, allocation, reservation, and back (C-5.6, C-5.11, C-5.15;
C-21.1-4)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from virt_dra.api.meta import format_time
from virt_dra.api.resource_v1 import (
    FINALIZER,
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from virt_dra.cluster.port import ApiError, Cluster, Conflict
from virt_dra.scheduling.claim_references import with_reservations

_log = logging.getLogger(__name__)

WRITE_ATTEMPTS = 5
"""How often an object is written at most when others write it, or the server doesn't answer (C-2.7, C-21.1)."""
_SERVER_ERRORS = 500
"""From this HTTP status on it isn't known whether a write took effect."""


class BindError(Exception):
    """A claim or pod could not be written as decided; the text is the scheduler's (C-5.11)."""


@dataclass(frozen=True)
class ClaimBinding:
    """What is written to a claim. ``allocation``: None if it has one. ``stamp``: whether a new allocation gets its time
    (C-5.11 item 6); ``stamp_stored``: whether a stored one does, too, as by kube-scheduler; claims in files often lack
    it. ``shared``: other pods of the group write the same allocation, and see that the first did (C-20.2)."""

    consumer: ResourceClaimConsumerReference
    allocation: AllocationResult | None
    now: datetime
    stamp: bool = True
    shared: bool = False
    stamp_stored: bool = False


@dataclass(frozen=True)
class BoundClaim:
    """The claim as it is stored. ``ours``: the reservation was made here, so that a later failure takes it back."""

    claim: ResourceClaim
    ours: bool


async def bind_claim(
    cluster: Cluster, claim: ResourceClaim, binding: ClaimBinding, *, reread: bool = False
) -> BoundClaim:
    """Finalizer first, then allocation and reservation in one status write; a conflict starts over with a fresh read.
    ``reread``: also the first attempt reads. Raises BindError, whose text names the write that failed (C-5.11)."""
    protecting = f"add finalizer to claim {claim.key}"
    reserving = (
        f"add {'reservation' if binding.allocation is None else 'allocation and reservation'} to claim {claim.key}"
    )
    step = reserving if binding.allocation is None or FINALIZER in claim.metadata.finalizers else protecting
    for attempt in range(1, WRITE_ATTEMPTS + 1):
        try:
            current = claim
            if reread or attempt > 1:
                current = await cluster.get(ResourceClaim, claim.name, claim.namespace)
            if _reserved(current, binding.consumer) and current.metadata.uid == claim.metadata.uid:
                return BoundClaim(current, ours=False)
            allocation = _still_to_write(claim, current, binding)
            if allocation is not None and FINALIZER not in current.metadata.finalizers:
                step = protecting
                current = await cluster.update(current.with_finalizer(FINALIZER))
            step = reserving
            stored = await cluster.update_status(current.with_(status=_bound_status(current, binding, allocation)))
            return BoundClaim(stored, ours=True)
        except ApiError as error:
            # After an error of the server the write may have taken effect: devices that aren't known to be taken would
            # be given away again.
            if attempt == WRITE_ATTEMPTS or not (isinstance(error, Conflict) or error.status >= _SERVER_ERRORS):
                raise BindError(f"{step}: {error}") from error
            step = f"get updated claim {claim.key} after conflict"
    raise AssertionError("the last attempt returns or raises")


def _still_to_write(decided: ResourceClaim, current: ResourceClaim, binding: ClaimBinding) -> AllocationResult | None:
    """The allocation, unless the claim has one. Raises :class:`BindError` if the claim is no longer the one that was
    decided about, or has other devices than those that chose the node (C-5.11 items 3, 4, 6; C-22.4)."""
    allocation = current.status.allocation
    if current.metadata.uid != decided.metadata.uid:
        raise BindError(f"claim {decided.key} got deleted and created again in the meantime")
    if current.metadata.deletion_timestamp is not None:
        raise BindError(f"claim {decided.key} got deleted in the meantime")
    if binding.allocation is not None:
        if allocation is None:
            return binding.allocation
        if binding.shared and _same_devices(allocation, binding.allocation):
            return None
        raise BindError(f"claim {decided.key} got allocated elsewhere in the meantime")
    if allocation is None:
        raise BindError(f"claim {decided.key} got deallocated elsewhere in the meantime")
    before = decided.status.allocation
    if before is not None and not _same_devices(allocation, before):
        raise BindError(f"claim {decided.key} got allocated elsewhere in the meantime")
    return None


def _same_devices(allocation: AllocationResult, other: AllocationResult) -> bool:
    return allocation.devices.results == other.devices.results and allocation.node_selector == other.node_selector


def _reserved(claim: ResourceClaim, consumer: ResourceClaimConsumerReference) -> bool:
    return any(reference.uid == consumer.uid for reference in claim.status.reserved_for)


def _bound_status(
    claim: ResourceClaim, binding: ClaimBinding, allocation: AllocationResult | None
) -> ResourceClaimStatus:
    """Every allocation without a timestamp gets one, also without binding conditions (C-5.11.6). One that is stored
    without it can't be reserved then: the API server refuses any change of an allocation (C-20.16)."""
    status = claim.status
    stamped = allocation or (status.allocation if binding.stamp_stored else None)
    if stamped is not None and binding.stamp and stamped.allocation_timestamp is None:
        stamped = stamped.with_(allocation_timestamp=format_time(binding.now))
    if stamped is not None:
        status = status.with_(allocation=stamped)
    return status.with_(reserved_for=(*status.reserved_for, binding.consumer))


async def release_claim(cluster: Cluster, claim: ResourceClaim, uid: str) -> ResourceClaim | None:
    """Remove the reservation for a UID (C-21.3); the claim as it is stored then. What the cluster refuses to remove is
    used by the pod's next attempt, or left to the claim controller (C-10.9)."""
    for attempt in range(1, WRITE_ATTEMPTS + 1):
        try:
            current = await cluster.get(ResourceClaim, claim.name, claim.namespace)
            if current.metadata.uid != claim.metadata.uid:
                return None
            kept = tuple(consumer for consumer in current.status.reserved_for if consumer.uid != uid)
            if len(kept) == len(current.status.reserved_for):
                return current
            return await cluster.update_status(current.with_(status=with_reservations(current.status, kept)))
        except Conflict as error:
            if attempt == WRITE_ATTEMPTS:
                _log.warning("reservation of claim %s for %s not released: %s", claim.key, uid, error)
        except ApiError as error:
            _log.warning("reservation of claim %s for %s not released: %s", claim.key, uid, error)
            return None
    return None


async def deallocate_claim(cluster: Cluster, claim: ResourceClaim) -> ResourceClaim:
    """Give the devices back (C-5.6, C-21.4); the finalizer stays. Raises ApiError, also for a changed claim (C-5.7)."""
    return await cluster.update_status(claim.with_(status=ResourceClaimStatus()))
