"""Which devices a claim gets on a node: pure functions over immutable values; no clock, no randomness, no I/O, no cluster.

    snapshot = Snapshot.build(slices, classes, claims)
    match allocate(snapshot, [claim], node):
        case Allocated(results): ...           # one AllocationResult per claim
        case Unsatisfiable(explanation=why): ...

Rules: docs/spec/allocation.md (A-*, AC-*). What is not built yet is a named error (features/unsupported.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from virt_dra.allocator.errors import AllocationError, FatalError, NodeError, StepLimitExceeded, UnsupportedFeature
from virt_dra.allocator.explain import Collector, Explanation
from virt_dra.allocator.features import FeatureTable
from virt_dra.allocator.gates import DEFAULT, Features
from virt_dra.allocator.model import ClaimPlan
from virt_dra.allocator.observer import Observer, Silent
from virt_dra.allocator.pools import INVALID, Reachable
from virt_dra.allocator.requests import plan_claims
from virt_dra.allocator.result import assemble
from virt_dra.allocator.search import DEFAULT_STEP_LIMIT, Search
from virt_dra.allocator.snapshot import Snapshot
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim

__all__ = [
    "DEFAULT",
    "DEFAULT_STEP_LIMIT",
    "Allocated",
    "AllocationError",
    "Explanation",
    "FatalError",
    "Features",
    "NodeError",
    "Snapshot",
    "StepLimitExceeded",
    "Unsatisfiable",
    "UnsupportedFeature",
    "allocate",
    "explain",
]


@dataclass(frozen=True)
class Allocated:
    """One result per claim, in the order of the claims. ``steps``: how much the search did."""

    results: tuple[AllocationResult, ...]
    steps: int


@dataclass(frozen=True)
class Unsatisfiable:
    """The claims don't fit on the node. ``explanation`` is None only where the caller asked for none."""

    node: str
    explanation: Explanation | None
    steps: int


def allocate(
    snapshot: Snapshot,
    claims: Sequence[ResourceClaim],
    node: Node,
    features: Features = DEFAULT,
    *,
    step_limit: int = DEFAULT_STEP_LIMIT,
    explain: bool = True,
) -> Allocated | Unsatisfiable:
    """Find devices on ``node`` for all ``claims`` (without allocation, defaulted; A-1.2), the first solution in A-7's order.

    Uses the node's name, labels and declared features. Raises :class:`FatalError` (also UnsupportedFeature, StepLimitExceeded) when
    no node can be decided and :class:`NodeError` when this one can't. ``explain=False`` saves the second, watched run after a failure.
    """
    attempt = _Attempt(snapshot, claims, node, features, step_limit)
    search, plans, solved = attempt.run(Silent())
    if solved:
        results = tuple(
            assemble(plan, search.chosen[i], {request: alt for (claim, request), alt in search.selected.items() if claim == i}, node.name)
            for i, plan in enumerate(plans)
        )
        return Allocated(results, search.steps)
    if search.refused_constraint is not None:  # AC-8
        request, device = search.refused_constraint
        raise NodeError(
            f"claim {request.claim.key}, request {request.name}: cannot add device {device.id} because a claim constraint would not be "
            "satisfied"
        )
    if any(problem.reason == INVALID for problem in attempt.reachable.problems):
        raise NodeError("invalid resource pools were encountered")  # E11
    return Unsatisfiable(node.name, attempt.explanation() if explain else None, search.steps)


def explain(
    snapshot: Snapshot, claims: Sequence[ResourceClaim], node: Node, features: Features = DEFAULT, *, step_limit: int = DEFAULT_STEP_LIMIT
) -> Explanation:
    """The refusals on one node, also where `allocate` raises :class:`NodeError` during the search. Raises FatalError as allocate does."""
    return _Attempt(snapshot, claims, node, features, step_limit).explanation()


class _Attempt:
    """One node and its claims, prepared as often as it is run: checks remember, so each run gets its own."""

    def __init__(self, snapshot: Snapshot, claims: Sequence[ResourceClaim], node: Node, features: Features, step_limit: int) -> None:
        self._snapshot = snapshot
        self._claims = claims
        self._node = node
        self._features = features
        self._step_limit = step_limit
        self._pools = snapshot.inventory.pools(features)
        self.reachable: Reachable = self._pools.reachable(node)

    def run(self, observer: Observer) -> tuple[Search, tuple[ClaimPlan, ...], bool]:
        table = FeatureTable(self._snapshot, self._pools, self._node, self._features)
        plans = plan_claims(self._claims, self._snapshot.inventory.classes, self.reachable, self._features, table.selectable)
        checks = tuple(table.checks(plan.claim) for plan in plans)
        search = Search(plans, self.reachable.devices, table.availability, table.filters, checks, observer, self._step_limit)
        return search, plans, search.run()

    def explanation(self) -> Explanation:
        collector = Collector()
        self.run(collector)
        return collector.explanation(self._node.name, self.reachable.problems, len(self.reachable.devices))
