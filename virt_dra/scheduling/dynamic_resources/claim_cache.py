"""The scheduler's view of ResourceClaims: what the informer has seen, overlaid with what the scheduler wrote itself, so
that late watch events don't matter (C-4.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import EXTENDED_RESOURCE_CLAIM_ANNOTATION, ResourceClaim
from virt_dra.scheduling.dynamic_resources.extended_claim import is_special_claim_of

ClaimChanged = Callable[[ResourceClaim | None, ResourceClaim | None], None]
"""Called with the claim as it was and as it is, None for absent."""


class ClaimCache(Mapping[str, ResourceClaim]):
    """Claims by ``namespace/name``. Only objects that the API server returned may be assumed: no rollback."""

    def __init__(self, changed: ClaimChanged) -> None:
        self._claims: dict[str, ResourceClaim] = {}
        self._changed = changed
        self._special: dict[str, set[str]] = {}
        """The keys of claims for extended resources, by the UID of their owner."""

    def __getitem__(self, key: str) -> ResourceClaim:
        return self._claims[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._claims)

    def __len__(self) -> int:
        return len(self._claims)

    def special_claim_of(self, pod: Pod) -> ResourceClaim | None:
        """The claim that was made for the pod's extended resources (C-7.2)."""
        claims = (self._claims[key] for key in sorted(self._special.get(pod.metadata.uid, ())))
        return next((claim for claim in claims if is_special_claim_of(claim, pod)), None)

    def seen(self, claim: ResourceClaim) -> None:
        """Records a claim that the informer delivered, unless a newer version of it is here already."""
        current = self._claims.get(claim.key)
        if current is not None and current.metadata.uid == claim.metadata.uid and _version(claim) <= _version(current):
            return
        self._put(current, claim)

    def gone(self, claim: ResourceClaim) -> None:
        """The informer saw the claim deleted."""
        current = self._claims.get(claim.key)
        if current is not None and current.metadata.uid == claim.metadata.uid:
            del self._claims[claim.key]
            self._unindex(current)
            self._changed(current, None)

    def assume(self, claim: ResourceClaim) -> bool:
        """Records a claim that the API server returned. False, without a change, for one that isn't in the cache, has
        another UID, or is older."""
        current = self._claims.get(claim.key)
        if current is None or current.metadata.uid != claim.metadata.uid or _version(claim) < _version(current):
            return False
        if _version(claim) > _version(current):
            self._put(current, claim)
        return True

    def _put(self, before: ResourceClaim | None, claim: ResourceClaim) -> None:
        if before is not None:
            self._unindex(before)
        if EXTENDED_RESOURCE_CLAIM_ANNOTATION in claim.metadata.annotations:
            for owner in claim.metadata.owner_references:
                self._special.setdefault(owner.uid, set()).add(claim.key)
        self._claims[claim.key] = claim
        if before is not None and before.metadata.uid != claim.metadata.uid:
            self._changed(before, None)
            before = None
        self._changed(before, claim)

    def _unindex(self, claim: ResourceClaim) -> None:
        for owner in claim.metadata.owner_references:
            keys = self._special.get(owner.uid)
            if keys is not None:
                keys.discard(claim.key)
                if not keys:
                    del self._special[owner.uid]


def _version(claim: ResourceClaim) -> int:
    """Kubernetes compares resource versions as numbers since 1.35; anything else is older than everything."""
    version = claim.metadata.resource_version
    return int(version) if version.isdigit() else -1
