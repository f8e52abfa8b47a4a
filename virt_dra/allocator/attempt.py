"""One pod's claims tried on a node: from the snapshot through what is known already, or a search, to results or an explanation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from virt_dra.allocator.errors import Aborted, AllocationError, DeadlineExceeded, Interrupt, NodeError, StepLimitExceeded
from virt_dra.allocator.explain import Collector, Explanation
from virt_dra.allocator.features import FeatureTable
from virt_dra.allocator.features.selectors import SelectorFilter
from virt_dra.allocator.gates import DEFAULT, Features
from virt_dra.allocator.model import ClaimPlan, Device, Request
from virt_dra.allocator.observer import SILENT, Observer
from virt_dra.allocator.pools import INVALID, Reachable
from virt_dra.allocator.requests import plan_claims
from virt_dra.allocator.result import Results
from virt_dra.allocator.reuse.node_classes import state
from virt_dra.allocator.reuse.pod_classes import Demand, Solution, solution_of
from virt_dra.allocator.search import DEFAULT_STEP_LIMIT, Search
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


class Decision(NamedTuple):
    """What was found on a node: the solution if there is one, by positions in ``reachable``, and what writes it down."""

    solution: Solution | None
    results: Results
    node: Node
    reachable: Reachable
    steps: int


class Allocator:
    """The claims of one pod, tried on node after node (A-1.1): what doesn't depend on the node is prepared once.

    Its methods answer and raise as the functions of the same names do.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        claims: Sequence[ResourceClaim],
        features: Features = DEFAULT,
        *,
        step_limit: int = DEFAULT_STEP_LIMIT,
        interrupt: Interrupt | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._claims = claims
        self._features = features
        self._step_limit = step_limit
        demands = snapshot.inventory.demands(features)
        self._pools = demands.pools
        self._interrupt = interrupt
        self._selectors = SelectorFilter(snapshot.inventory.selectors, interrupt)
        self.demand = demands.of(claims)
        """What the claims have in common with those of equal pods; None where they break a rule."""

    def allocate(self, node: Node, *, explain: bool = True) -> Allocated | Unsatisfiable:
        found = self.decide(node)
        if found.solution is None:
            return Unsatisfiable(node.name, self.explain(node) if explain else None, found.steps)
        return Allocated(self.write(found), found.steps)

    def decide(self, node: Node) -> Decision:
        """Whether there is a solution, not yet written down. Raises what `allocate` raises."""
        reachable = self._pools.reachable(node)
        demand = self.demand
        if demand is None:
            found = self._outcome(node, reachable, self._plan(node, reachable))
        else:
            key = (
                demand.shapes.of(reachable, self._selectors, lambda: self._table(node)),
                state(reachable, self._snapshot.used, self._pools),
            )
            if key in demand.outcomes:
                found = Decision(demand.outcomes[key], demand.results, node, reachable, 0)
            else:
                found = self._found(demand, node, reachable)
                demand.remember(key, found.solution)
        if found.solution is None and any(problem.reason == INVALID for problem in reachable.problems):
            raise NodeError("invalid resource pools were encountered")  # nothing was found, which says little then (E11)
        return found

    def write(self, found: Decision) -> tuple[AllocationResult, ...]:
        """The results of a decision with a solution."""
        if found.solution is None:
            raise AssertionError(f"nothing was found on node {found.node.name}, so there is no result")
        return found.results.of(self._claims, found.solution.picks, found.solution.selected, found.reachable.devices, found.node.name)

    def explain(self, node: Node) -> Explanation:
        reachable = self._pools.reachable(node)
        collector = Collector()
        # All devices are looked at, since their refusals are wanted.
        self._search(node, reachable, self._plan(node, reachable), lambda request: reachable.devices, collector)
        return collector.explanation(node.name, reachable.problems, len(reachable.devices))

    def _found(self, demand: Demand, node: Node, reachable: Reachable) -> Decision:
        """By searching. Plans under other names will do, except for the words of an error."""
        if not demand.same_everywhere:
            return self._outcome(node, reachable, self._plan(node, reachable))
        try:
            return self._outcome(node, reachable, demand.plans)
        except Aborted:
            raise
        except AllocationError:
            self._outcome(node, reachable, self._plan(node, reachable))
            raise

    def _outcome(self, node: Node, reachable: Reachable, plans: tuple[ClaimPlan, ...]) -> Decision:
        search = self._search(node, reachable, plans)
        if search.solved:
            demand = self.demand
            named, results = (demand.plans, demand.results) if demand is not None else (plans, self._results(plans))
            solution = solution_of(search.chosen, search.selected, plans, named, reachable)
            found = Decision(solution, results, node, reachable, search.steps)
            self.write(found)  # a result that can't be written is an error here, and not kept
            return found
        if search.refused_constraint is not None:  # AC-8
            request, device = search.refused_constraint
            raise NodeError(
                f"claim {request.claim.key}, request {request.name}: cannot add device {device.id} because a claim constraint would not "
                "be satisfied"
            )
        return Decision(None, self._results(plans), node, reachable, search.steps)

    def _results(self, plans: tuple[ClaimPlan, ...]) -> Results:
        return Results(plans, self._features, self._snapshot.inventory.capacities)

    def _table(self, node: Node) -> FeatureTable:
        """Checks remember, so each search gets its own."""
        return FeatureTable(self._snapshot.used, self._snapshot.inventory, self._pools, node, self._features, self._selectors)

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
        search = Search(
            plans, candidates, table.availability, table.filters, checks, observer, self._step_limit, table.bounds, self._interrupt
        )
        try:
            search.run()
        except (StepLimitExceeded, DeadlineExceeded) as error:
            raise error.after(self._progress(search)) from None
        return search

    def _progress(self, search: Search) -> str:
        """How far a search came that was cut off."""
        if search.deepest < 0:
            return ""
        entry = search.entries[search.deepest]
        where = f"claim {self._claims[entry.claim].key}, request {entry.plan.name}"
        return f"; it got as far as {where} ({search.deepest + 1} of {len(search.entries)} requests)"
