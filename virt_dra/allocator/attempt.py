"""One pod's claims tried on a node: from the snapshot through what is known already, or a search, to results or an explanation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from virt_dra.allocator.demand import Demand, Solution, choices, solution_of
from virt_dra.allocator.errors import AllocationError, NodeError
from virt_dra.allocator.explain import Collector, Explanation
from virt_dra.allocator.features import FeatureTable
from virt_dra.allocator.features.selectors import SelectorFilter
from virt_dra.allocator.gates import DEFAULT, Features
from virt_dra.allocator.model import ClaimPlan, Device, Request
from virt_dra.allocator.observer import SILENT, Observer
from virt_dra.allocator.pools import INVALID, Reachable
from virt_dra.allocator.requests import plan_claims
from virt_dra.allocator.result import Results
from virt_dra.allocator.search import DEFAULT_STEP_LIMIT, Search
from virt_dra.allocator.shapes import state
from virt_dra.allocator.snapshot import Snapshot
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim


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
        self.demand = snapshot.inventory.demands(features).of(claims)
        """What the claims have in common with those of equal pods; None where they break a rule."""

    def allocate(self, node: Node, *, explain: bool = True) -> Allocated | Unsatisfiable:
        reachable = self._pools.reachable(node)
        known, plans, steps = self._decide(node, reachable)
        if known is None:
            self._may_be_refused(reachable)
            return Unsatisfiable(node.name, self.explain(node) if explain else None, steps)
        return Allocated(self._write(known, plans, node, reachable), steps)

    def fits(self, node: Node) -> bool:
        """Whether `allocate` would find something on the node; raises what it would raise."""
        reachable = self._pools.reachable(node)
        known, _, _ = self._decide(node, reachable)
        if known is None:
            self._may_be_refused(reachable)
        return known is not None

    def explain(self, node: Node) -> Explanation:
        reachable = self._pools.reachable(node)
        collector = Collector()
        # All devices are looked at, since their refusals are wanted.
        self._search(node, reachable, self._plan(node, reachable), lambda request: reachable.devices, collector)
        return collector.explanation(node.name, reachable.problems, len(reachable.devices))

    def _decide(self, node: Node, reachable: Reachable) -> tuple[Solution | None, tuple[ClaimPlan, ...], int]:
        """The outcome, the plans that it speaks of, and the steps of the search if there was one."""
        demand = self.demand
        if demand is None:
            plans = self._plan(node, reachable)
            known, steps = self._outcome(node, reachable, plans)
            return known, plans, steps
        key = demand.shapes.of(reachable, lambda: self._table(node)), state(reachable, self._snapshot.used, self._pools)
        if key in demand.outcomes:
            return demand.outcomes[key], demand.plans, 0
        known, steps = self._found(demand, node, reachable)
        demand.remember(key, known)
        return known, demand.plans, steps

    def _found(self, demand: Demand, node: Node, reachable: Reachable) -> tuple[Solution | None, int]:
        """By searching. Plans under other names will do, except for the words of an error."""
        if not demand.same_everywhere:
            return self._outcome(node, reachable, self._plan(node, reachable))
        try:
            return self._outcome(node, reachable, demand.plans)
        except AllocationError:
            self._outcome(node, reachable, self._plan(node, reachable))
            raise

    def _outcome(self, node: Node, reachable: Reachable, plans: tuple[ClaimPlan, ...]) -> tuple[Solution | None, int]:
        search = self._search(node, reachable, plans)
        if search.solved:
            solution = solution_of(search.chosen, search.selected, plans, reachable)
            self._write(solution, plans, node, reachable)  # a result that can't be written is an error here, and not kept
            return solution, search.steps
        if search.refused_constraint is not None:  # AC-8
            request, device = search.refused_constraint
            raise NodeError(
                f"claim {request.claim.key}, request {request.name}: cannot add device {device.id} because a claim constraint would not "
                "be satisfied"
            )
        return None, search.steps

    def _write(self, solution: Solution, plans: tuple[ClaimPlan, ...], node: Node, reachable: Reachable) -> tuple[AllocationResult, ...]:
        demand = self.demand
        results = (
            demand.results
            if demand is not None and plans is demand.plans
            else Results(plans, self._features, self._snapshot.inventory.capacities)
        )
        return results.of(self._claims, choices(solution, plans, reachable), solution.selected, node.name)

    @staticmethod
    def _may_be_refused(reachable: Reachable) -> None:
        """Nothing was found, which says little where a pool can't be judged (E11)."""
        if any(problem.reason == INVALID for problem in reachable.problems):
            raise NodeError("invalid resource pools were encountered")

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
