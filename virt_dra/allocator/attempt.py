"""Tries one pod's claims on a node: takes a known outcome or searches, then writes results or an explanation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from virt_dra.allocator.effort import DEFAULT_EFFORT, Effort
from virt_dra.allocator.errors import (
    Aborted,
    AllocationError,
    DeadlineExceeded,
    Interrupt,
    NodeError,
    StepLimitExceeded,
)
from virt_dra.allocator.explain import Collector, Explanation
from virt_dra.allocator.features import FeatureTable
from virt_dra.allocator.features.selectors import SelectorFilter
from virt_dra.allocator.gates import DEFAULT, Features
from virt_dra.allocator.model import ClaimPlan, PoolDevice, Request
from virt_dra.allocator.observer import SILENT, Observer
from virt_dra.allocator.pools import INVALID, Reachable
from virt_dra.allocator.pruning.pruner import SearchPruner
from virt_dra.allocator.pruning_port import Problem
from virt_dra.allocator.requests import plan_claims
from virt_dra.allocator.result import Results
from virt_dra.allocator.reuse.pod_classes import OutcomeKey, PodClass, Solution, solution_of
from virt_dra.allocator.search import DEFAULT_STEP_LIMIT, Search
from virt_dra.allocator.snapshot import Snapshot
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim


@dataclass(frozen=True)
class Allocated:
    """The claims fit. One result per claim, in the order of the claims. ``steps``: how much the search did."""

    results: tuple[AllocationResult, ...]
    steps: int


@dataclass(frozen=True)
class Unsatisfiable:
    """The claims don't fit on the node. ``explanation`` is None only if the caller wanted none."""

    node: str
    explanation: Explanation | None
    steps: int


DeviceOrder = tuple[int, ...]
"""Every position in `Reachable.devices` once: the device to try first comes first."""


class AttemptResult(NamedTuple):
    """The outcome on a node: the solution if there is one, by positions in ``reachable``, and the writer of its
    results."""

    solution: Solution | None
    results: Results
    node: Node
    reachable: Reachable
    steps: int


class Allocator:
    """The claims of one pod, tried on node after node (A-1.1); what doesn't depend on the node is prepared once. Its
    methods return and raise what the functions of the same names do."""

    def __init__(
        self,
        snapshot: Snapshot,
        claims: Sequence[ResourceClaim],
        features: Features = DEFAULT,
        *,
        step_limit: int = DEFAULT_STEP_LIMIT,
        interrupt: Interrupt | None = None,
        effort: Effort = DEFAULT_EFFORT,
        table: type[FeatureTable] = FeatureTable,
    ) -> None:
        """``table``: the features; a subclass may add some."""
        self._snapshot = snapshot
        self.claims = claims
        self._features = features
        self._step_limit = step_limit
        self._effort = effort
        self._table_type = table
        classes = snapshot.caches.pod_classes(features, table)
        self._pools = classes.pools
        self._interrupt = interrupt
        self._selectors = SelectorFilter(snapshot.caches.selectors, interrupt)
        self.pod_class = classes.pod_class(claims)
        """None if the claims break a rule."""

    def allocate(self, node: Node, *, explain: bool = True) -> Allocated | Unsatisfiable:
        attempt = self.decide(node)
        if attempt.solution is None:
            return Unsatisfiable(node.name, self.explain(node) if explain else None, attempt.steps)
        return Allocated(self.write(attempt), attempt.steps)

    def outcome_key(self, node: Node) -> OutcomeKey | None:
        """Equal for nodes with the same outcome, by positions; None if nothing is known about that."""
        if self.pod_class is None:
            return None
        return self.pod_class.key(
            self._pools.reachable(node), self._snapshot.used, self._selectors, lambda: self._table(node)
        )

    def refusal_key(self, node: Node) -> Hashable | None:
        """Equal for nodes whose devices are refused alike, by positions, as far as they are in use or mismatch; None if
        nothing is known about that. Raises FatalError."""
        reachable, pod_class = self._pools.reachable(node), self.pod_class
        if pod_class is None or not pod_class.same_everywhere or reachable.problems:
            return None
        key = self.outcome_key(node)
        readings = tuple([self._selectors.readings(request, reachable.devices) for request in pod_class.requests])
        return (
            None
            if key is None or None in readings
            else (key, readings, tuple([device.profile for device in reachable.devices]))
        )

    def reachable(self, node: Node) -> Reachable:
        """Everything that the node can reach."""
        return self._pools.reachable(node)

    def candidates(self, request: Request, node: Node) -> Sequence[PoolDevice]:
        """The node's devices that the selectors of one of the pod class's requests don't refuse, in use or not."""
        return self._selectors.candidates(request, self._pools.reachable(node))

    def selectors_may_fail(self) -> bool:
        """False if no selector of the claims fails on any device of the cluster. Raises DeadlineExceeded."""
        if self.pod_class is None:
            return True
        return any(self._selectors.may_fail(request, self._pools) for request in self.pod_class.requests)

    def decide(self, node: Node, order: DeviceOrder | None = None) -> AttemptResult:
        """The outcome on the node, its solution not yet written as results. Raises what `allocate` raises. ``order``:
        in which the node's devices are tried, instead of that of A-5.6. Whether they fit is the same in any order."""
        reachable = self._pools.reachable(node)
        pod_class = self.pod_class
        if pod_class is None:
            attempt = self._solve(node, reachable, self._plan(node, reachable), order)
        else:
            key = self.outcome_key(node)
            if key is not None and order is not None:
                key = key[0], (key[1], order)
            if key is not None and key in pod_class.outcomes:
                attempt = AttemptResult(pod_class.outcomes[key], pod_class.results, node, reachable, 0)
            else:
                attempt = self._solve_as_class(pod_class, node, reachable, order)
                pod_class.remember(key, attempt.solution)
        if attempt.solution is None and any(problem.reason == INVALID for problem in reachable.problems):
            raise NodeError("invalid resource pools were encountered")  # devices of these pools might have fitted (E11)
        return attempt

    def write(self, attempt: AttemptResult) -> tuple[AllocationResult, ...]:
        """The results of a decision with a solution."""
        if attempt.solution is None:
            raise AssertionError(f"nothing was found on node {attempt.node.name}, so there is no result")
        return attempt.results.write(
            self.claims, attempt.solution.picks, attempt.solution.selected, attempt.reachable.devices, attempt.node.name
        )

    def explain(self, node: Node) -> Explanation:
        reachable = self._pools.reachable(node)
        collector = Collector()
        # All devices are candidates, since their refusals are wanted.
        self._search(node, reachable, self._plan(node, reachable), lambda request: reachable.devices, collector)
        return collector.explanation(node.name, reachable.problems, len(reachable.devices))

    def _solve_as_class(
        self, pod_class: PodClass, node: Node, reachable: Reachable, order: DeviceOrder | None
    ) -> AttemptResult:
        """The outcome of a search by the plans of the class. They are those of a pod with other names, so an error is
        raised anew with this pod's."""
        if not pod_class.same_everywhere:
            return self._solve(node, reachable, self._plan(node, reachable), order)
        try:
            return self._solve(node, reachable, pod_class.plans, order)
        except Aborted:
            raise
        except AllocationError:
            self._solve(node, reachable, self._plan(node, reachable), order)
            raise

    def _solve(
        self, node: Node, reachable: Reachable, plans: tuple[ClaimPlan, ...], order: DeviceOrder | None = None
    ) -> AttemptResult:
        candidates = None if order is None else _Reordered(self._selectors, reachable, order)
        search = self._search(node, reachable, plans, candidates)
        if search.solved:
            pod_class = self.pod_class
            named, results = (
                (pod_class.plans, pod_class.results) if pod_class is not None else (plans, self._results(plans))
            )
            solution = solution_of(search.chosen, search.selected, plans, named, reachable)
            attempt = AttemptResult(solution, results, node, reachable, search.steps)
            self.write(attempt)  # a result that can't be written is an error here, and not kept
            return attempt
        if search.constraint_refusal is not None:  # AC-8
            request, device = search.constraint_refusal
            raise NodeError(
                f"claim {request.claim.key}, request {request.name}: cannot add device "
                f"{device.id} because a claim constraint would not "
                "be satisfied"
            )
        return AttemptResult(None, self._results(plans), node, reachable, search.steps)

    def _results(self, plans: tuple[ClaimPlan, ...]) -> Results:
        return Results(plans, self._features, self._snapshot.caches.capacities)

    def _table(self, node: Node) -> FeatureTable:
        """Checks have memory, so each search gets its own."""
        return self._table_type(
            self._snapshot.used, self._snapshot.caches, self._pools, node, self._features, self._selectors
        )

    def _plan(self, node: Node, reachable: Reachable) -> tuple[ClaimPlan, ...]:
        """The claims as they are called. Raises what breaks a rule first (A-6)."""
        return plan_claims(self.claims, self._snapshot.classes, reachable, self._features, self._table(node).selectable)

    def _search(
        self,
        node: Node,
        reachable: Reachable,
        plans: tuple[ClaimPlan, ...],
        candidates: Callable[[Request], Sequence[PoolDevice]] | None = None,
        observer: Observer = SILENT,
    ) -> Search:
        table = self._table(node)
        checks = tuple([table.checks(plan.claim) for plan in plans])
        candidates = candidates or partial(self._selectors.candidates, reachable=reachable)
        problem = Problem(plans, candidates, table.availability, table.filters, checks)
        pruner = SearchPruner(table.bounds, self._effort)
        search = Search(problem, observer, pruner, step_limit=self._step_limit, interrupt=self._interrupt)
        try:
            search.run()
        except (StepLimitExceeded, DeadlineExceeded) as error:
            raise error.after(self._progress(search)) from None
        return search

    def _progress(self, search: Search) -> str:
        """The end of an error's text: how far the search came."""
        if search.deepest < 0:
            return ""
        entries = search.problem.entries
        entry = entries[search.deepest]
        where = f"claim {self.claims[entry.claim].key}, request {entry.plan.name}"
        return f"; it got as far as {where} ({search.deepest + 1} of {len(entries)} requests)"


class _Reordered:
    """The candidates of requests on a node, in another order than that of A-5.6."""

    def __init__(self, selectors: SelectorFilter, reachable: Reachable, order: DeviceOrder) -> None:
        self._selectors = selectors
        self._reachable = reachable
        devices = reachable.devices
        self._rank = {devices[position]: rank for rank, position in enumerate(order)}
        self._reorderings: dict[int, tuple[Sequence[PoolDevice], Sequence[PoolDevice]]] = {}
        """By the identity of the candidates in search order: these, which keeps the identity from being reused, and the
        reordered ones."""

    def __call__(self, request: Request) -> Sequence[PoolDevice]:
        candidates = self._selectors.candidates(request, self._reachable)
        reordering = self._reorderings.get(id(candidates))
        if reordering is None:
            reordering = candidates, sorted(candidates, key=self._rank.__getitem__)
            self._reorderings[id(candidates)] = reordering
        return reordering[1]
