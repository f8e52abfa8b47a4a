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

from virt_dra.allocator.demand import Demand, Solution, choices, solution_of
from virt_dra.allocator.errors import AllocationError, FatalError, NodeError, StepLimitExceeded, UnsupportedFeature
from virt_dra.allocator.explain import Collector, Explanation
from virt_dra.allocator.features import FeatureTable
from virt_dra.allocator.features.selectors import SelectorFilter
from virt_dra.allocator.gates import DEFAULT, Features
from virt_dra.allocator.model import ClaimPlan, Device, Request
from virt_dra.allocator.observer import SILENT, Observer
from virt_dra.allocator.pools import INVALID, Reachable
from virt_dra.allocator.requests import plan_claims
from virt_dra.allocator.result import assemble
from virt_dra.allocator.search import DEFAULT_STEP_LIMIT, Search
from virt_dra.allocator.shapes import state
from virt_dra.allocator.snapshot import Snapshot
from virt_dra.allocator.usage import Use
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
    "Use",
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
        self._demand = snapshot.inventory.demands(features).of(claims)

    def allocate(self, node: Node, *, explain: bool = True) -> Allocated | Unsatisfiable:
        reachable = self._pools.reachable(node)
        demand = self._demand
        if demand is None:
            plans = self._plan(node, reachable)
            known, steps = self._outcome(node, reachable, plans)
            if known is None:
                return self._unsatisfiable(node, reachable, steps, explain=explain)
            return self._allocated(known, plans, node, reachable, steps)
        steps = 0
        key = demand.shapes.of(reachable, lambda: self._table(node)), state(reachable, self._snapshot.used, self._pools)
        try:
            known = demand.outcomes[key]
        except KeyError:
            known, steps = self._decide(demand, node, reachable)
            demand.remember(key, known)
        if known is None:
            return self._unsatisfiable(node, reachable, steps, explain=explain)
        return self._allocated(known, demand.plans, node, reachable, steps)

    def explain(self, node: Node) -> Explanation:
        reachable = self._pools.reachable(node)
        collector = Collector()
        # All devices are looked at, since their refusals are wanted.
        self._search(node, reachable, self._plan(node, reachable), lambda request: reachable.devices, collector)
        return collector.explanation(node.name, reachable.problems, len(reachable.devices))

    def _decide(self, demand: Demand, node: Node, reachable: Reachable) -> tuple[Solution | None, int]:
        """By searching. What is known under other names will do, except for the words of an error."""
        plans = demand.plans if demand.same_everywhere else self._plan(node, reachable)
        try:
            return self._outcome(node, reachable, plans)
        except AllocationError:
            if plans is demand.plans:
                self._outcome(node, reachable, self._plan(node, reachable))
            raise

    def _outcome(self, node: Node, reachable: Reachable, plans: tuple[ClaimPlan, ...]) -> tuple[Solution | None, int]:
        search = self._search(node, reachable, plans)
        if search.solved:
            return solution_of(search.chosen, search.selected, plans, reachable), search.steps
        if search.refused_constraint is not None:  # AC-8
            request, device = search.refused_constraint
            raise NodeError(
                f"claim {request.claim.key}, request {request.name}: cannot add device {device.id} because a claim constraint would not "
                "be satisfied"
            )
        return None, search.steps

    def _allocated(self, solution: Solution, plans: tuple[ClaimPlan, ...], node: Node, reachable: Reachable, steps: int) -> Allocated:
        chosen = choices(solution, plans, reachable)
        return Allocated(tuple([assemble(plan, chosen[i], solution.selected[i], node.name, self._features) for i, plan in enumerate(plans)]), steps)

    def _unsatisfiable(self, node: Node, reachable: Reachable, steps: int, *, explain: bool) -> Unsatisfiable:
        if any(problem.reason == INVALID for problem in reachable.problems):
            raise NodeError("invalid resource pools were encountered")  # E11
        return Unsatisfiable(node.name, self.explain(node) if explain else None, steps)

    def _table(self, node: Node) -> FeatureTable:
        """Checks remember, so each search gets its own."""
        return FeatureTable(self._snapshot, self._pools, node, self._features, self._selectors)

    def _plan(self, node: Node, reachable: Reachable) -> tuple[ClaimPlan, ...]:
        """The claims as they are called. Raises what breaks a rule first (A-6)."""
        return plan_claims(self._claims, self._snapshot.inventory.classes, reachable, self._features, self._table(node).selectable)

    def _search(
        self,
        node: Node,
        reachable: Reachable,
        plans: tuple[ClaimPlan, ...],
        candidates: Callable[[Request], Sequence[Device]] | None = None,
        observer: Observer = SILENT,
    ) -> Search:
        table = self._table(node)
        checks = tuple([table.checks(plan.claim) for plan in plans])
        candidates = candidates or partial(self._selectors.candidates, reachable=reachable)
        search = Search(plans, candidates, table.availability, table.filters, checks, observer, self._step_limit)
        search.run()
        return search
