"""Checks on a pod's claims before any node is tried (C-5.1, C-5.2): they exist, may be used, and can be allocated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from virt_dra.allocator.features.static import FEATURE_OFF
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
from virt_dra.scheduling.framework.refusals import AttemptError, FilterRefusal

UNSCHEDULABLE = "Unschedulable"
"""The pod waits for a change in the cluster (PodScheduled=False with this reason, C-19)."""
SCHEDULER_ERROR = "SchedulerError"
"""The attempt was aborted; retrying without a change is pointless unless the input changes (C-19)."""
DYNAMIC_RESOURCES: Final = "DynamicResources"
"""The plugin in whose name the claims are refused."""

CLAIM_MISSING: Final = "ClaimMissing"
"""A claim that the pod names isn't there."""
CLAIM_NOT_CREATED: Final = "ClaimNotCreated"
"""No claim has been made of a template yet."""
CLAIM_DELETED: Final = "ClaimBeingDeleted"
"""A claim of the pod ends."""
CLAIM_OF_OTHER: Final = "ClaimOfOtherPod"
"""The claim of the recorded name was made for another pod."""
CLAIM_IN_FLIGHT: Final = "ClaimBeingAllocated"
"""Another pod's attempt is allocating the claim."""
CLASS_MISSING: Final = "DeviceClassMissing"
"""A request names a DeviceClass that isn't there."""
UNSUPPORTED: Final = "RequestUnsupported"
"""A request, or the source of a claim, is of a kind that isn't known."""
CLAIM_REASONS: Final = (
    CLAIM_MISSING, CLAIM_NOT_CREATED, CLAIM_DELETED, CLAIM_OF_OTHER, CLAIM_IN_FLIGHT, CLASS_MISSING, UNSUPPORTED,
)  # fmt: skip


def pod_claims(
    pod: Pod, claims: Mapping[str, ResourceClaim], *, workload_claims: bool = False
) -> tuple[ResourceClaim, ...] | FilterRefusal:
    """The claim objects of a pod in its order, each once per entry, or the refusal for the first that can't be used
    (C-5.1). ``claims`` by ``namespace/name``. ``workload_claims``: gate DRAWorkloadResourceClaims."""
    usable: list[ResourceClaim] = []
    for entry in pod.spec.resource_claims:
        subject = f"spec.resourceClaims[{entry.name}]"
        try:
            resolved = claim_name(pod, entry)
        except UnsupportedClaimSource as error:
            return _refusal(UNSUPPORTED, str(error), subject)
        if isinstance(resolved, NotCreatedYet):
            return _refusal(CLAIM_NOT_CREATED, resolved.message, subject)
        if isinstance(resolved, NotNeeded):
            continue
        key = f"{pod.namespace}/{resolved.name}"
        claim = claims.get(key)
        if claim is None:
            return _refusal(CLAIM_MISSING, f'could not find ResourceClaim "{key}"', subject)
        if claim.metadata.deletion_timestamp is not None:
            return _refusal(CLAIM_DELETED, f'resourceclaim "{claim.name}" is being deleted', subject)  # C-3.7
        if (
            resolved.must_check_owner
            and (wrong := not_for_pod(claim, pod, workload_claims=workload_claims)) is not None
        ):
            return _refusal(CLAIM_OF_OTHER, wrong.message, subject)
        usable.append(claim)
    return tuple(usable)


def each_once(claims: Iterable[ResourceClaim]) -> tuple[ResourceClaim, ...]:
    """The claims without repetitions: a pod may name one claim in two entries, and it is allocated once."""
    return tuple({claim.key: claim for claim in claims}.values())


def check_claims(
    claims: Iterable[ResourceClaim], classes: Mapping[str, DeviceClass], in_flight: Iterable[str], features: Features
) -> FilterRefusal | None:
    """The refusal of the first claim that can't be used or allocated at all; None if all can (C-5.2 items 1, 4, 5).
    ``in_flight``: UIDs of claims being allocated. Raises AttemptError for a request without a class."""
    pending = frozenset(in_flight)
    for claim in claims:
        if claim.status.allocation is not None:
            continue  # every allocated claim is shareable (C-3.4); the API server limits it to 256 consumers
        if claim.metadata.uid in pending:
            message = f"resource claim {claim.key} is in the process of being allocated"
            return _refusal(CLAIM_IN_FLIGHT, message, claim.key)
        if (refusal := _check_requests(claim, classes, features)) is not None:
            return refusal
    return None


def _check_requests(
    claim: ResourceClaim, classes: Mapping[str, DeviceClass], features: Features
) -> FilterRefusal | None:
    for request in claim.spec.devices.requests:
        subject = f"resource claim {claim.key}, request {request.name}"
        if request.exactly is not None:
            wanted = {request.name: request.exactly.device_class_name}
        elif not request.first_available:
            return _refusal(UNSUPPORTED, f"{subject}: unknown request type", claim.key)
        elif not features.prioritized_list:
            message = f"{subject}: has subrequests, but the DRAPrioritizedList feature is disabled"
            return _refusal(FEATURE_OFF, message, claim.key)
        else:
            wanted = {f"{request.name}/{sub.name}": sub.device_class_name for sub in request.first_available}
        for name, device_class in wanted.items():
            if not device_class:
                raise AttemptError(f"request {name}: unsupported request type", claim.key, UNSUPPORTED)
            if device_class not in classes:
                message = f"request {name}: device class {device_class} does not exist"
                return _refusal(CLASS_MISSING, message, claim.key)
    return None


def _refusal(code: str, message: str, subject: str) -> FilterRefusal:
    return FilterRefusal(DYNAMIC_RESOURCES, (message,), code=code, subject=subject)
