"""What wakes a pod that DynamicResources refused (C-4.6, C-4.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.scheduling.framework.events import ClusterEvent, Hint
from virt_dra.scheduling.framework.refusals import FilterRefusal

UsableClaims = Callable[[Pod], tuple[ResourceClaim, ...] | FilterRefusal]
PodsOfClaim = Callable[[str], Iterable[str]]
"""The UIDs of the pods that use a claim, given as ``namespace/name``."""


def claim_hints(usable: UsableClaims, pods_of_claim: PodsOfClaim) -> tuple[Hint, ...]:
    """The hints for a pod that DynamicResources refused. ``usable``: a pod's claims, if all can be used."""

    def concerned(old: ResourceClaim | None, new: ResourceClaim | None) -> Iterable[str] | None:
        """The UIDs of the pods that a change may help; None for all, where devices become free."""
        if _allocated(old) and not _allocated(new):
            return None
        claim = new or old
        return () if claim is None else pods_of_claim(claim.key)

    def claim_helps(pod: Pod, old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
        if new is None:
            return _allocated(old)
        claims = usable(pod)
        if isinstance(claims, FilterRefusal):
            return False
        if _allocated(old) and not _allocated(new):
            return True
        if all(claim.metadata.uid != new.metadata.uid for claim in claims):
            return False
        return old is None or old.status != new.status

    def claims_are_there(pod: Pod, old: Pod, new: Pod) -> bool:
        return not isinstance(usable(new), FilterRefusal)

    anyway = {
        ClusterEvent.NODE_ADD,
        ClusterEvent.NODE_LABELS,
        ClusterEvent.NODE_ALLOCATABLE,
        ClusterEvent.DEVICE_CLASS,
        ClusterEvent.SLICE,
    }
    return (
        Hint(frozenset(anyway)),
        Hint(frozenset({ClusterEvent.CLAIM}), claim_helps, concerned),
        Hint(frozenset({ClusterEvent.TARGET_POD_CLAIMS}), claims_are_there),
    )


def _allocated(claim: ResourceClaim | None) -> bool:
    return claim is not None and claim.status.allocation is not None
