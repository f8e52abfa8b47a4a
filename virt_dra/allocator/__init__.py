"""Allocation of devices to claims on a node (KEP-4381): pure functions over immutable values; no clock, no randomness,
no I/O, no cluster.

    snapshot = Snapshot.build(slices, classes, claims)    # of the whole cluster; allocated devices are in use
    match allocate(snapshot, [claim], node):
        case Allocated(results): ...           # one AllocationResult per claim
        case Unsatisfiable(explanation=why): ...

Rules: docs/spec/allocation.md (A-*, AC-*).
"""

from __future__ import annotations

from collections.abc import Iterable

from virt_dra.allocator.attempt import Allocated, Allocator, Unsatisfiable
from virt_dra.allocator.effort import DEFAULT_EFFORT, Effort
from virt_dra.allocator.errors import (
    AllocationError,
    DeadlineExceeded,
    FatalError,
    Interrupt,
    NodeError,
    StepLimitExceeded,
)
from virt_dra.allocator.explain import Explanation
from virt_dra.allocator.gates import DEFAULT, Features
from virt_dra.allocator.pod_claims import PodClaims
from virt_dra.allocator.reuse.batch import BatchAllocator, Placed, wanted_nodes
from virt_dra.allocator.search import DEFAULT_STEP_LIMIT
from virt_dra.allocator.snapshot import Snapshot
from virt_dra.allocator.usage import DeviceUse
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import ResourceClaim

__all__ = [
    "DEFAULT",
    "DEFAULT_EFFORT",
    "DEFAULT_STEP_LIMIT",
    "Allocated",
    "AllocationError",
    "Allocator",
    "BatchAllocator",
    "DeadlineExceeded",
    "DeviceUse",
    "Effort",
    "Explanation",
    "FatalError",
    "Features",
    "Interrupt",
    "NodeError",
    "Placed",
    "Snapshot",
    "StepLimitExceeded",
    "Unsatisfiable",
    "allocate",
    "explain",
    "wanted_nodes",
]


def allocate(
    snapshot: Snapshot,
    claims: Iterable[ResourceClaim],
    node: Node,
    features: Features = DEFAULT,
    *,
    step_limit: int = DEFAULT_STEP_LIMIT,
    interrupt: Interrupt | None = None,
    explain: bool = True,
    effort: Effort = DEFAULT_EFFORT,
) -> Allocated | Unsatisfiable:
    """Find devices on ``node`` for all ``claims`` of a pod, the first solution in A-7's order.

    Claims may be as a user writes them: what an API server would fill in is filled in. One that is allocated already
    keeps what it has, which is its result, and whose devices are in use, whether the snapshot has it or not; the claims
    fit only on nodes that can use it. A claim's manifest has what the claim of that name among the snapshot's has. A
    claim that is given twice is one claim, with one result. Uses the node's name, labels and declared features.

    Raises :class:`FatalError` (also StepLimitExceeded, DeadlineExceeded) when no node can be decided,
    :class:`NodeError` when this one can't, TypeError for anything but a claim. ``interrupt`` is polled, also while an
    expression is evaluated; True ends the attempt. ``explain=False`` saves the second run that collects refusals after
    a failure. (:class:`Allocator` takes claims as they are stored, A-1.2.)
    """
    given = PodClaims.prepare(claims, snapshot)
    elsewhere = given.elsewhere(node) if given.kept else ()
    if elsewhere:
        return Unsatisfiable(node.name, Explanation(node.name, (), (), 0, elsewhere) if explain else None, 0)
    if given.kept and not given.pending:
        return Allocated(given.results(()), 0)
    allocator = Allocator(
        given.snapshot, given.pending, features, step_limit=step_limit, interrupt=interrupt, effort=effort
    )
    result = allocator.allocate(node, explain=explain)
    return (
        result
        if given.as_given or not isinstance(result, Allocated)
        else Allocated(given.results(result.results), result.steps)
    )


def explain(
    snapshot: Snapshot,
    claims: Iterable[ResourceClaim],
    node: Node,
    features: Features = DEFAULT,
    *,
    step_limit: int = DEFAULT_STEP_LIMIT,
    interrupt: Interrupt | None = None,
) -> Explanation:
    """Why the claims don't fit on the node, also where `allocate` raises :class:`NodeError` during the search. Raises
    FatalError as `allocate` does."""
    given = PodClaims.prepare(claims, snapshot)
    elsewhere = given.elsewhere(node)
    if elsewhere:
        return Explanation(node.name, (), (), 0, elsewhere)
    return Allocator(given.snapshot, given.pending, features, step_limit=step_limit, interrupt=interrupt).explain(node)
