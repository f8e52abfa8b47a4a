"""Checks on a pod's claims before any node is tried (C-5.1, C-5.2): they exist, may be used, and can be allocated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from virt_dra.allocator.gates import Features
from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim
from virt_dra.scheduling.claim_references import (
    NotCreatedYet,
    NotNeeded,
    UnsupportedClaimSource,
    claim_name,
    not_for_pod,
)

UNSCHEDULABLE = "Unschedulable"
"""The pod waits for a change in the cluster (PodScheduled=False with this reason, C-19)."""
SCHEDULER_ERROR = "SchedulerError"
"""The attempt was aborted; retrying without a change is pointless unless the input changes (C-19)."""


@dataclass(frozen=True)
class Blocked:
    """The pod can't be placed anywhere now. ``reason`` is UNSCHEDULABLE or SCHEDULER_ERROR, ``subject`` the object it
    is about."""

    reason: str
    message: str
    subject: str


def pod_claims(
    pod: Pod, claims: Mapping[str, ResourceClaim], *, workload_claims: bool = False
) -> tuple[ResourceClaim, ...] | Blocked:
    """The claim objects of a pod in its order, each once per entry; the first that can't be used blocks the pod
    (C-5.1).

    ``claims`` by ``namespace/name``. ``workload_claims``: gate DRAWorkloadResourceClaims.
    """
    usable: list[ResourceClaim] = []
    for entry in pod.spec.resource_claims:
        subject = f"spec.resourceClaims[{entry.name}]"
        try:
            resolved = claim_name(pod, entry)
        except UnsupportedClaimSource as error:
            return Blocked(UNSCHEDULABLE, str(error), subject)
        if isinstance(resolved, NotCreatedYet):
            return Blocked(UNSCHEDULABLE, resolved.message, subject)
        if isinstance(resolved, NotNeeded):
            continue
        key = f"{pod.namespace}/{resolved.name}"
        claim = claims.get(key)
        if claim is None:
            return Blocked(UNSCHEDULABLE, f'could not find ResourceClaim "{key}"', subject)
        if claim.metadata.deletion_timestamp is not None:
            return Blocked(UNSCHEDULABLE, f'resourceclaim "{claim.name}" is being deleted', subject)  # C-3.7
        if (
            resolved.must_check_owner
            and (wrong := not_for_pod(claim, pod, workload_claims=workload_claims)) is not None
        ):
            return Blocked(UNSCHEDULABLE, wrong.message, subject)
        usable.append(claim)
    return tuple(usable)


def each_once(claims: Iterable[ResourceClaim]) -> tuple[ResourceClaim, ...]:
    """A pod may name one claim in two entries; it is allocated once."""
    return tuple({claim.key: claim for claim in claims}.values())


def check_claims(
    claims: Iterable[ResourceClaim], classes: Mapping[str, DeviceClass], in_flight: Iterable[str], features: Features
) -> Blocked | None:
    """None if the claims can be used and allocated at all (C-5.2 items 1, 4, 5). ``in_flight``: UIDs of claims being
    allocated."""
    pending = frozenset(in_flight)
    for claim in claims:
        if claim.status.allocation is not None:
            continue  # every allocated claim is shareable (C-3.4); the API server limits it to 256 consumers
        if claim.metadata.uid in pending:
            return Blocked(UNSCHEDULABLE, f"resource claim {claim.key} is in the process of being allocated", claim.key)
        if (blocked := _check_requests(claim, classes, features)) is not None:
            return blocked
    return None


def _check_requests(claim: ResourceClaim, classes: Mapping[str, DeviceClass], features: Features) -> Blocked | None:
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            blocked = _check_class(claim, request.name, request.exactly.device_class_name, classes)
            if blocked is not None:
                return blocked
        elif request.first_available:
            if not features.prioritized_list:
                message = (
                    f"resource claim {claim.key}, request {request.name}: has subrequests, "
                    "but the DRAPrioritizedList feature is disabled"
                )
                return Blocked(UNSCHEDULABLE, message, claim.key)
            for sub in request.first_available:
                blocked = _check_class(claim, f"{request.name}/{sub.name}", sub.device_class_name, classes)
                if blocked is not None:
                    return blocked
        else:
            return Blocked(
                UNSCHEDULABLE, f"resource claim {claim.key}, request {request.name}: unknown request type", claim.key
            )
    return None


def _check_class(claim: ResourceClaim, request: str, name: str, classes: Mapping[str, DeviceClass]) -> Blocked | None:
    if not name:
        return Blocked(SCHEDULER_ERROR, f"request {request}: unsupported request type", claim.key)
    if name not in classes:
        return Blocked(UNSCHEDULABLE, f"request {request}: device class {name} does not exist", claim.key)
    return None
