"""The time at which a pod is evicted for the taints of its claims' devices (C-11.3). Pure."""

from __future__ import annotations

from collections.abc import Callable

from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.model.evicting.causes import Eviction
from virt_dra.scheduling.claim_references import (
    Resolved,
    UnsupportedClaimSource,
    claim_name,
    is_for_pod,
    is_reserved_for,
)

ClaimOfPod = Callable[[str], tuple[ResourceClaim, Eviction | None] | None]
"""The allocated claim of a name in the pod's namespace, with its eviction."""


def pod_eviction(pod: Pod, allocated: ClaimOfPod, *, workload_claims: bool = False) -> Eviction | None:
    """The eviction of a pod: the earliest of its claims', with the causes of all (C-11.3); None without a node. Claims
    that aren't allocated, the pod's, and reserved for it don't count, nor does that of its extended resources. A pod
    that has finished is evicted as any other."""
    if not pod.spec.node_name:
        return None
    earliest: Eviction | None = None
    for entry in pod.spec.resource_claims:
        try:
            reference = claim_name(pod, entry)
        except UnsupportedClaimSource:
            continue
        evicted = allocated(reference.name) if isinstance(reference, Resolved) else None
        if evicted is None or not isinstance(reference, Resolved):
            continue
        claim, eviction = evicted
        foreign = reference.must_check_owner and not is_for_pod(claim, pod, workload_claims=workload_claims)
        if eviction is None or foreign or not is_reserved_for(claim, pod, workload_claims=workload_claims):
            continue
        earliest = eviction if earliest is None else _merged(earliest, eviction)
    return earliest


def _merged(left: Eviction, right: Eviction) -> Eviction:
    return Eviction(min(left.at, right.at), tuple(sorted({*left.causes, *right.causes})))
