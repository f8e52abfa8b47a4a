"""A pod's claims, prepared for the search: defaults filled in, and claims that are allocated already set aside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from virt_dra.allocator.errors import FatalError
from virt_dra.allocator.snapshot import Snapshot, of_type
from virt_dra.api.core_v1 import Node
from virt_dra.api.defaults import defaulted
from virt_dra.api.policies.node_selection import NodeMatcher, NodeSelectorError
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim


@dataclass(frozen=True)
class PodClaims:
    """A pod's claims, some of them allocated already. ``claims``: each once. ``pending``: those to allocate, with
    defaults. ``kept``: the allocations of the others, by position. ``snapshot``: the given one, with these allocations
    in use. ``positions``: of each given claim among ``claims``."""

    pending: tuple[ResourceClaim, ...]
    kept: dict[int, AllocationResult]
    claims: Sequence[ResourceClaim]
    snapshot: Snapshot
    positions: tuple[int, ...]

    @classmethod
    def prepare(cls, given: Iterable[ResourceClaim], snapshot: Snapshot) -> PodClaims:
        """The claims of a pod, as its user writes them. A claim that is allocated in the snapshot has that allocation,
        also where it is given as a manifest without status. Raises TypeError for other objects, FatalError for two
        claims of one name."""
        claims, positions = _deduplicated(given)
        kept: dict[int, AllocationResult] = {}
        for position, claim in enumerate(claims):
            allocation = claim.status.allocation or snapshot.allocation_of(claim)
            if allocation is not None:
                kept[position] = allocation
        pending = tuple(defaulted(_validated(claim)) for position, claim in enumerate(claims) if position not in kept)
        return cls(pending, kept, claims, snapshot.including(kept.values()) if kept else snapshot, positions)

    @property
    def as_given(self) -> bool:
        """True if all given claims are searched for, each given once."""
        return len(self.pending) == len(self.positions)

    def elsewhere(self, node: Node) -> tuple[str, ...]:
        """The keys of the allocated claims that can't be used from the node (C-5.2 item 2). Raises FatalError."""
        keys: list[str] = []
        for position, allocation in self.kept.items():
            if allocation.node_selector is None:
                continue
            key = self.claims[position].key
            try:
                if not NodeMatcher(allocation.node_selector).matches(node):
                    keys.append(key)
            except NodeSelectorError as error:
                raise FatalError(f"resource claim {key}: status.allocation.nodeSelector: {error}") from None
        return tuple(keys)

    def results(self, allocated: Sequence[AllocationResult]) -> tuple[AllocationResult, ...]:
        """One per claim, in their order: what it has, or what it was allocated now."""
        remaining = iter(allocated)
        by_position = [
            self.kept[position] if position in self.kept else next(remaining) for position in range(len(self.claims))
        ]
        return tuple(by_position[position] for position in self.positions)


def _deduplicated(given: Iterable[ResourceClaim] | ResourceClaim) -> tuple[tuple[ResourceClaim, ...], tuple[int, ...]]:
    """The claims, and which of them each given one is."""
    if isinstance(given, ResourceClaim):
        raise TypeError("claims: a sequence of ResourceClaims is needed, this is one; write [claim]")
    claims: list[ResourceClaim] = []
    first_positions: dict[str, int] = {}
    positions: list[int] = []
    for claim in of_type(given, ResourceClaim, "claims"):
        position = first_positions.setdefault(claim.key, len(claims)) if claim.name else len(claims)
        if position == len(claims):
            claims.append(claim)
        elif claims[position] != claim:
            raise FatalError(f"claim {claim.key}: given twice with different content; leave one of them out")
        positions.append(position)
    return tuple(claims), tuple(positions)


def _validated(claim: ResourceClaim) -> ResourceClaim:
    """The claim. Raises FatalError for mistakes that a search would silently ignore."""
    for request in claim.spec.devices.requests:
        title = f"claim {claim.key}, request {request.name}"
        if "deviceClassName" in (request.model_extra or {}):
            raise FatalError(
                f"{title}: deviceClassName stands under exactly in v1; "
                "virt_dra.api.reading.scheme.read_object converts older versions"
            )
        for wanted in (*((request.exactly,) if request.exactly is not None else ()), *request.first_available):
            if wanted.count < 0:
                raise FatalError(f"{title}: count {wanted.count} must be greater than zero")
    return claim
