"""Choosing a node for one pod (C-5.2 to C-5.9): checks on its claims, then node by node, then the best of those that fit.

Deterministic: nodes are tried in the order given; among nodes with equal score the first wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from virt_dra.allocator import (
    DEFAULT,
    DEFAULT_STEP_LIMIT,
    Allocated,
    Allocator,
    DeadlineExceeded,
    Explanation,
    FatalError,
    Features,
    Interrupt,
    NodeError,
    Snapshot,
)
from virt_dra.allocator.explain import ELSEWHERE, ELSEWHERE_TEXT, histogram
from virt_dra.allocator.features.prioritized_list import PREFERENCE_SCORE_MAX
from virt_dra.allocator.node_selection import NodeMatcher, NodeSelectorError
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim
from virt_dra.scheduling.claim_checks import SCHEDULER_ERROR, UNSCHEDULABLE, Blocked, check_claims, pod_claims
from virt_dra.scheduling.node_fit import NodeRefusal, PodFit

CLAIM_ELSEWHERE = ELSEWHERE
DEVICES = "DevicesDoNotFit"
"""The allocator found no devices on the node."""
NODE_ERROR = "NodeError"
"""The allocator couldn't decide for the node."""

OPTIONAL_NODE_OPERATIONS = "DRAOptionalNodeOperations"
"""Declared by nodes (`status.declaredFeatures`) that can skip operations for a device."""


@dataclass(frozen=True)
class ClusterView:
    """The inputs of placement. ``nodes`` in the order in which they are tried; ``claims`` by ``namespace/name``.

    ``in_flight``: claim UID -> allocation chosen but not yet written (C-4.3); their devices are in use in ``snapshot`` already.
    """

    nodes: tuple[Node, ...]
    claims: Mapping[str, ResourceClaim]
    snapshot: Snapshot
    in_flight: Mapping[str, AllocationResult] = field(default_factory=dict)

    def reserve(self, placement: Placement) -> ClusterView:
        """The view after a placement was chosen and before it is written (C-5.9)."""
        if not placement.allocations:
            return self
        chosen = {allocation.claim.metadata.uid: allocation.result for allocation in placement.allocations}
        return replace(self, snapshot=self.snapshot.with_allocation(*chosen.values()), in_flight={**self.in_flight, **chosen})

    def release(self, placement: Placement) -> ClusterView:
        """The view after a placement was given up (C-5.15): the exact reverse of :meth:`reserve`."""
        if not placement.allocations:
            return self
        gone = {allocation.claim.metadata.uid: allocation.result for allocation in placement.allocations}
        kept = {uid: result for uid, result in self.in_flight.items() if uid not in gone}
        return replace(self, snapshot=self.snapshot.without_allocation(*gone.values()), in_flight=kept)


@dataclass(frozen=True)
class ClaimAllocation:
    """A claim and the allocation to write into its status."""

    claim: ResourceClaim
    result: AllocationResult


@dataclass(frozen=True)
class Placement:
    """The pod goes to ``node``. ``allocations``: claims allocated now; ``claims``: all claims of the pod, in its order."""

    node: str
    claims: tuple[ResourceClaim, ...]
    allocations: tuple[ClaimAllocation, ...]


@dataclass(frozen=True)
class NodeOutcome:
    """Why one node is excluded. ``explanation`` if the allocator has one."""

    node: str
    reason: str
    summary: str
    explanation: Explanation | None = None


@dataclass(frozen=True)
class Unplaced:
    """The pod goes nowhere now. ``reason`` and ``message`` are those of its PodScheduled condition (C-19).

    ``deallocate``: an allocated claim that no other pod uses and that excludes nodes: deallocating it may help
    (C-5.6).
    """

    reason: str
    message: str
    subject: str
    nodes: tuple[NodeOutcome, ...] = ()
    deallocate: ResourceClaim | None = None


@dataclass(frozen=True)
class _Candidate:
    node: str
    score: int
    allocated: tuple[AllocationResult, ...]


def place(
    pod: Pod,
    view: ClusterView,
    features: Features = DEFAULT,
    *,
    only_node: str | None = None,
    step_limit: int = DEFAULT_STEP_LIMIT,
    interrupt: Interrupt | None = None,
) -> Placement | Unplaced:
    """Decide for one pod. ``only_node`` restricts the choice. Never raises for what is in the cluster: errors are Unplaced values.

    ``interrupt`` is polled; True raises DeadlineExceeded.
    """
    claims = pod_claims(pod, view.claims)
    if isinstance(claims, Blocked):
        return Unplaced(claims.reason, claims.message, claims.subject)
    blocked = check_claims(claims, view.snapshot.classes, view.in_flight, features)
    if blocked is not None:
        return Unplaced(blocked.reason, blocked.message, blocked.subject)
    nodes = view.nodes if only_node is None else tuple(node for node in view.nodes if node.name == only_node)
    if not nodes:
        message = "no nodes available to schedule pods" if only_node is None else f'node "{only_node}" not found'
        return Unplaced(UNSCHEDULABLE, message, pod.key)
    return _NodeByNode(pod, _once(claims), view.snapshot, features, step_limit, interrupt).choose(nodes)


def _once(claims: Sequence[ResourceClaim]) -> tuple[ResourceClaim, ...]:
    """A pod may name one claim in two entries; it is allocated once."""
    return tuple({claim.key: claim for claim in claims}.values())


class _NodeByNode:
    def __init__(
        self,
        pod: Pod,
        claims: tuple[ResourceClaim, ...],
        snapshot: Snapshot,
        features: Features,
        step_limit: int,
        interrupt: Interrupt | None,
    ) -> None:
        self._pod = pod
        self._claims = claims
        self._pending = tuple(claim for claim in claims if claim.status.allocation is None)
        self._allocator = Allocator(snapshot, self._pending, features, step_limit=step_limit, interrupt=interrupt)
        self._fit = PodFit(pod)
        self._elsewhere: dict[str, ResourceClaim] = {}
        """Allocated claims that kept the pod off some node."""

    def choose(self, nodes: Sequence[Node]) -> Placement | Unplaced:
        best: _Candidate | None = None
        perfect = PREFERENCE_SCORE_MAX * sum(_prioritized(claim) for claim in self._claims)
        refused: list[NodeOutcome] = []
        try:
            matchers = self._claim_matchers()
            for node in nodes:
                outcome = self._try(node, matchers)
                if isinstance(outcome, NodeOutcome):
                    refused.append(outcome)
                elif best is None or outcome.score > best.score:
                    best = outcome
                    if best.score >= perfect:
                        break  # no other node can score higher (C-5.8)
        except DeadlineExceeded:
            raise
        except FatalError as error:
            return Unplaced(SCHEDULER_ERROR, str(error), self._pod.key)
        if best is not None:
            allocations = tuple(ClaimAllocation(claim, result) for claim, result in zip(self._pending, best.allocated, strict=True))
            return Placement(best.node, self._claims, allocations)
        try:
            by_name = {node.name: node for node in nodes}
            why = tuple(self._explained(outcome, by_name[outcome.node]) for outcome in refused)
        except DeadlineExceeded:
            raise
        except FatalError as error:
            return Unplaced(SCHEDULER_ERROR, str(error), self._pod.key)
        message = histogram(len(nodes), (outcome.summary for outcome in why))
        return Unplaced(UNSCHEDULABLE, message, self._pod.key, why, self._deallocatable())

    def _claim_matchers(self) -> list[tuple[ResourceClaim, NodeMatcher]]:
        """The pod's allocated claims, with the nodes that can use them (C-5.2 item 2)."""
        matchers: list[tuple[ResourceClaim, NodeMatcher]] = []
        for claim in self._claims:
            allocation = claim.status.allocation
            if allocation is not None and allocation.node_selector is not None:
                try:
                    matchers.append((claim, NodeMatcher(allocation.node_selector)))
                except NodeSelectorError as error:
                    raise FatalError(f"resource claim {claim.key}: status.allocation.nodeSelector: {error}") from None
        return matchers

    def _try(self, node: Node, matchers: Sequence[tuple[ResourceClaim, NodeMatcher]]) -> _Candidate | NodeOutcome:
        """Filter (C-5.4) and, for a node that fits, its score. Raises FatalError."""
        refusal: NodeRefusal | None = self._fit.refuse(node)
        if refusal is not None:
            return NodeOutcome(node.name, refusal.reason, refusal.message)
        elsewhere = {claim.key: claim for claim, matcher in matchers if not matcher.matches(node)}
        if OPTIONAL_NODE_OPERATIONS not in node.status.declared_features:
            elsewhere |= {claim.key: claim for claim in self._claims if _skips_node_operations(claim)}
        self._elsewhere.update(elsewhere)
        results: tuple[AllocationResult, ...] = ()
        if self._pending:
            try:
                found = self._allocator.allocate(node, explain=False)
            except NodeError as error:
                return NodeOutcome(node.name, NODE_ERROR, str(error))
            if not isinstance(found, Allocated):
                return NodeOutcome(node.name, DEVICES, "cannot allocate all claims")
            results = found.results
        if elsewhere:
            return NodeOutcome(node.name, CLAIM_ELSEWHERE, ELSEWHERE_TEXT)
        return _Candidate(node.name, self._score(results), results)

    def _explained(self, outcome: NodeOutcome, node: Node) -> NodeOutcome:
        """With the refusals of the node's devices: worth a second search only when no node fits at all. Raises FatalError."""
        if outcome.reason not in (DEVICES, NODE_ERROR):
            return outcome
        try:
            why = self._allocator.explain(node)
        except NodeError:
            return outcome  # the error is about the request itself, its text says all there is
        return replace(outcome, explanation=why, summary=why.summary if outcome.reason == DEVICES else outcome.summary)

    def _score(self, results: Sequence[AllocationResult]) -> int:
        """Points for early alternatives, summed over every firstAvailable request of the pod's claims (C-5.8)."""
        chosen = dict(zip((claim.key for claim in self._pending), results, strict=True))
        total = 0
        for claim in self._claims:
            allocation = chosen.get(claim.key) or claim.status.allocation
            if allocation is not None:
                total += _preference(claim, allocation)
        return total

    def _deallocatable(self) -> ResourceClaim | None:
        """C-5.6; upstream picks one at random, we take the first in the pod's order."""
        for claim in self._claims:
            others = any(consumer.uid != self._pod.metadata.uid for consumer in claim.status.reserved_for)
            if claim.key in self._elsewhere and not others:
                return claim
        return None


def _skips_node_operations(claim: ResourceClaim) -> bool:
    """True if only a node that can skip operations can use the claim's devices (C-5.4 item 2)."""
    allocation = claim.status.allocation
    return allocation is not None and any(result.skip_node_operations for result in allocation.devices.results)


def _prioritized(claim: ResourceClaim) -> int:
    return sum(bool(request.first_available) for request in claim.spec.devices.requests)


def _preference(claim: ResourceClaim, allocation: AllocationResult) -> int:
    used = {result.request for result in allocation.devices.results}
    points = 0
    for request in claim.spec.devices.requests:
        for index, alternative in enumerate(request.first_available):
            if f"{request.name}/{alternative.name}" in used:
                points += PREFERENCE_SCORE_MAX - index
                break
    return points
