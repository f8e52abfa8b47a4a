"""Choosing a node for one pod (C-5.2 to C-5.9): checks on its claims, then node by node, then the best of those that
fit.

Deterministic: nodes are tried in the order given; among nodes with equal score the first wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from virt_dra.allocator import (
    DEFAULT,
    DEFAULT_STEP_LIMIT,
    DeadlineExceeded,
    Explanation,
    FatalError,
    Features,
    Interrupt,
    NodeError,
    Snapshot,
)
from virt_dra.allocator.explain import histogram
from virt_dra.allocator.features.prioritized_list import PREFERENCE_SCORE_MAX
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim
from virt_dra.scheduling.claim_checks import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    Blocked,
    check_claims,
    each_once,
    pod_claims,
)
from virt_dra.scheduling.dynamic_resources.pod_devices import DEVICES, NODE_ERROR, DeviceLimits, PodDevices
from virt_dra.scheduling.node_fit import PodFit


@dataclass(frozen=True)
class ClusterView:
    """The inputs of placement. ``nodes`` in the order in which they are tried; ``claims`` by ``namespace/name``.

    ``in_flight``: claim UID -> allocation chosen but not yet written (C-4.3); their devices are in use in ``snapshot``
    already.
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
        return replace(
            self, snapshot=self.snapshot.with_allocation(*chosen.values()), in_flight={**self.in_flight, **chosen}
        )

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
    """The pod goes to ``node``. ``allocations``: claims allocated now; ``claims``: all claims of the pod, in its
    order."""

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


def place(
    pod: Pod,
    view: ClusterView,
    features: Features = DEFAULT,
    *,
    only_node: str | None = None,
    step_limit: int = DEFAULT_STEP_LIMIT,
    interrupt: Interrupt | None = None,
) -> Placement | Unplaced:
    """Decide for one pod. ``only_node`` restricts the choice. Never raises for what is in the cluster: errors are
    Unplaced values.

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
    try:
        devices = PodDevices(each_once(claims), view.snapshot, DeviceLimits(features, step_limit, interrupt))
        return _choose(pod, devices, nodes)
    except DeadlineExceeded:
        raise
    except FatalError as error:
        return Unplaced(SCHEDULER_ERROR, str(error), pod.key)


def _choose(pod: Pod, devices: PodDevices, nodes: Sequence[Node]) -> Placement | Unplaced:
    """Node by node; the first of those with the best score. Raises FatalError."""
    fit = PodFit(pod)
    best: tuple[int, Node] | None = None
    perfect = PREFERENCE_SCORE_MAX * devices.preferences
    refused: list[NodeOutcome] = []
    for node in nodes:
        refusal = fit.refuse(node) or devices.refuse(node)
        if refusal is not None:
            refused.append(NodeOutcome(node.name, refusal.reason, refusal.message))
            continue
        score = devices.preference(node.name)
        if best is None or score > best[0]:
            best = score, node
            if score >= perfect:
                break  # no other node can score higher (C-5.8)
    if best is not None:
        chosen = devices.allocations(best[1].name)
        allocations = tuple(ClaimAllocation(claim, chosen[claim.key]) for claim in devices.unallocated)
        return Placement(best[1].name, tuple(devices.claims), allocations)
    by_name = {node.name: node for node in nodes}
    why = tuple(_explained(devices, outcome, by_name[outcome.node]) for outcome in refused)
    message = histogram(len(nodes), (outcome.summary for outcome in why))
    return Unplaced(UNSCHEDULABLE, message, pod.key, why, devices.deallocatable(pod.metadata.uid))


def _explained(devices: PodDevices, outcome: NodeOutcome, node: Node) -> NodeOutcome:
    """With the refusals of the node's devices: worth a second search only when no node fits at all. Raises
    FatalError."""
    if outcome.reason not in (DEVICES, NODE_ERROR):
        return outcome
    try:
        why = devices.explain(node)
    except NodeError:
        return outcome  # the error is about the request itself, its text says all there is
    return replace(outcome, explanation=why, summary=why.summary if outcome.reason == DEVICES else outcome.summary)
