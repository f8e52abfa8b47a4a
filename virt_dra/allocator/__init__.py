"""Which devices a claim gets on a node: pure functions over immutable values; no clock, no randomness, no I/O, no cluster.

    snapshot = Snapshot.build(slices, classes, claims)
    match allocate(snapshot, [claim], node):
        case Allocated(results): ...           # one AllocationResult per claim
        case Unsatisfiable(explanation=why): ...

Rules: docs/spec/allocation.md (A-*, AC-*). What is not built yet is a named error (features/unsupported.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from virt_dra.allocator.errors import AllocationError, FatalError, NodeError, StepLimitExceeded, UnsupportedFeature
from virt_dra.allocator.explain import Collector, Explanation
from virt_dra.allocator.features import FeatureTable
from virt_dra.allocator.features.selectors import SelectorFilter
from virt_dra.allocator.gates import DEFAULT, Features
from virt_dra.allocator.model import ClaimPlan, Device, Request
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
    "Allocator",
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
    return Allocator(snapshot, claims, features, step_limit=step_limit).allocate(node, explain=explain)


def explain(
    snapshot: Snapshot, claims: Sequence[ResourceClaim], node: Node, features: Features = DEFAULT, *, step_limit: int = DEFAULT_STEP_LIMIT
) -> Explanation:
    """The refusals on one node, also where `allocate` raises :class:`NodeError` during the search. Raises FatalError as allocate does."""
    return Allocator(snapshot, claims, features, step_limit=step_limit).explain(node)


class Allocator:
    """The claims of one pod, tried on node after node (A-1.1): what doesn't depend on the node is prepared once.

    Its methods answer and raise as the functions of the same names do.
    """

    def __init__(
        self, snapshot: Snapshot, claims: Sequence[ResourceClaim], features: Features = DEFAULT, *, step_limit: int = DEFAULT_STEP_LIMIT
    ) -> None:
        self._snapshot = snapshot
        self._claims = claims
        self._features = features
        self._step_limit = step_limit
        self._pools = snapshot.inventory.pools(features)
        self._selectors = SelectorFilter(snapshot.inventory.selectors)
        self._plans: tuple[ClaimPlan, ...] | None = None
        """For every node; None until known, and where All requests make them differ."""

    def allocate(self, node: Node, *, explain: bool = True) -> Allocated | Unsatisfiable:
        reachable = self._pools.reachable(node)
        if self._plans is not None and self._surely_not(self._plans, reachable):
            return self._unsatisfiable(node, reachable, 0, explain=explain)
        search, plans, solved = self._run(node, reachable, partial(self._selectors.candidates, reachable=reachable), Silent())
        if solved:
            selected: list[dict[int, int]] = [{} for _ in plans]
            for (claim, entry), alternative in search.selected.items():
                selected[claim][entry] = alternative
            results = (assemble(plan, search.chosen[i], selected[i], node.name) for i, plan in enumerate(plans))
            return Allocated(tuple(results), search.steps)
        if search.refused_constraint is not None:  # AC-8
            request, device = search.refused_constraint
            raise NodeError(
                f"claim {request.claim.key}, request {request.name}: cannot add device {device.id} because a claim constraint would not "
                "be satisfied"
            )
        return self._unsatisfiable(node, reachable, search.steps, explain=explain)

    def explain(self, node: Node) -> Explanation:
        reachable = self._pools.reachable(node)
        collector = Collector()
        self._run(node, reachable, lambda request: reachable.devices, collector)  # all devices: their refusals are wanted
        return collector.explanation(node.name, reachable.problems, len(reachable.devices))

    def _unsatisfiable(self, node: Node, reachable: Reachable, steps: int, *, explain: bool) -> Unsatisfiable:
        if any(problem.reason == INVALID for problem in reachable.problems):
            raise NodeError("invalid resource pools were encountered")  # E11
        return Unsatisfiable(node.name, self.explain(node) if explain else None, steps)

    def _surely_not(self, plans: tuple[ClaimPlan, ...], reachable: Reachable) -> bool:
        """Whether the very first request has no device to look at on the node, so that nothing at all would be met there."""
        first = plans[0].requests[0] if plans and plans[0].requests else None
        return first is not None and all(
            slots.count > 0 and not self._selectors.candidates(slots.request, reachable) for slots in first.alternatives
        )

    def _run(
        self, node: Node, reachable: Reachable, candidates: Callable[[Request], Sequence[Device]], observer: Observer
    ) -> tuple[Search, tuple[ClaimPlan, ...], bool]:
        """Checks remember, so each run gets its own."""
        table = FeatureTable(self._snapshot, self._pools, node, self._features, self._selectors)
        plans = self._plans
        if plans is None:
            plans = plan_claims(self._claims, self._snapshot.inventory.classes, reachable, self._features, table.selectable)
            if all(slots.fixed is None for plan in plans for request in plan.requests for slots in request.alternatives):
                self._plans = plans
        checks = tuple(table.checks(plan.claim) for plan in plans)
        search = Search(plans, candidates, table.availability, table.filters, checks, observer, self._step_limit)
        return search, plans, search.run()
