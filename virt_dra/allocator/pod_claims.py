"""The claims of a pod as anybody may hand them in: without defaults, some of them allocated already. What the search needs of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from virt_dra.allocator.errors import FatalError
from virt_dra.allocator.node_selection import NodeMatcher, NodeSelectorError
from virt_dra.allocator.snapshot import Snapshot
from virt_dra.api.core_v1 import Node
from virt_dra.api.defaults import apply_defaults
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim

_EPOCH = "1970-01-01T00:00:00Z"
"""Nothing that is filled into a claim is a time."""


@dataclass(frozen=True)
class PodClaims:
    """``pending``: the claims to allocate, with defaults. ``kept``: by position, what the others have. ``snapshot``: in which that is in
    use, whether the given one knew it or not."""

    pending: tuple[ResourceClaim, ...]
    kept: dict[int, AllocationResult]
    claims: Sequence[ResourceClaim]
    snapshot: Snapshot

    @classmethod
    def of(cls, claims: Sequence[ResourceClaim], snapshot: Snapshot) -> PodClaims:
        kept = {position: each.status.allocation for position, each in enumerate(claims) if each.status.allocation is not None}
        pending = tuple(with_defaults(claim) for claim in claims if claim.status.allocation is None)
        return cls(pending, kept, claims, snapshot.in_which(kept.values()) if kept else snapshot)

    def elsewhere(self, node: Node) -> tuple[str, ...]:
        """The keys of the allocated claims that can't be used from the node (C-5.2 item 2). Raises FatalError."""
        found: list[str] = []
        for position, allocation in self.kept.items():
            if allocation.node_selector is None:
                continue
            key = self.claims[position].key
            try:
                if not NodeMatcher(allocation.node_selector).matches(node):
                    found.append(key)
            except NodeSelectorError as error:
                raise FatalError(f"resource claim {key}: status.allocation.nodeSelector: {error}") from None
        return tuple(found)

    def results(self, allocated: Sequence[AllocationResult]) -> tuple[AllocationResult, ...]:
        """One per claim, in their order: what it has, or what it was allocated now."""
        found = iter(allocated)
        return tuple(self.kept[position] if position in self.kept else next(found) for position in range(len(self.claims)))


def with_defaults(claim: ResourceClaim) -> ResourceClaim:
    """The claim as an API server stores it (A-22.4); the very same one if nothing is to be filled in."""
    return cast("ResourceClaim", apply_defaults(claim, _EPOCH))
