"""Allocation of claims on nodes one after the other, and what each node answered. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from virt_dra.allocator import (
    Allocated,
    AllocationError,
    Allocator,
    DeadlineExceeded,
    Explanation,
    FatalError,
    Features,
    NodeError,
    Snapshot,
)
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim
from virt_dra.scheduling.framework.messages import Diagnosis
from virt_dra.scheduling.framework.refusals import FilterRefusal
from virt_dra.simulator.deadline import AllocationDeadline, progress_of

Progress = Callable[[int, int], None]
"""Takes how many steps of how many are done."""

FITS, REFUSED, ERROR, TIMED_OUT = "fits", "refused", "error", "timed out"
"""Verdicts on a node: the claims can be allocated there; they can't; it can't be decided; not in time."""


@dataclass(frozen=True)
class NodeAnswer:
    """The verdict on one node. ``summary``: a few words for the histogram, "" where the claims fit."""

    node: str
    verdict: str
    summary: str = ""
    results: tuple[AllocationResult, ...] = ()
    explanation: Explanation | None = None


@dataclass(frozen=True)
class AllocationAnswer:
    """The outcome for claims that are placed together. ``nodes``: those tried, of ``total``. ``error``: broken
    input."""

    claims: tuple[str, ...]
    nodes: tuple[NodeAnswer, ...]
    total: int
    error: str | None = None

    @property
    def fitting(self) -> tuple[NodeAnswer, ...]:
        return tuple(answer for answer in self.nodes if answer.verdict == FITS)

    @property
    def allocated(self) -> bool:
        return self.error is None and bool(self.fitting)

    @property
    def message(self) -> str | None:
        """Why the allocation failed, in kube-scheduler's line; None if it succeeded."""
        if self.allocated:
            return None
        refusals = {answer.node: FilterRefusal("", (answer.summary,)) for answer in self.nodes}
        return self.error or Diagnosis(self.total, refusals).message


def allocate_each(
    snapshot: Snapshot,
    groups: Sequence[tuple[ResourceClaim, ...]],
    nodes: Sequence[Node],
    features: Features,
    *,
    everywhere: bool,
    explain: bool,
    progress: Progress,
    deadline: AllocationDeadline,
) -> Iterator[AllocationAnswer]:
    """The answer for each group of claims. ``everywhere``: try all nodes and allocate nothing; else allocate on the
    first node that fits. ``explain``: also the refusals of nodes before the one that fits. ``deadline``: of each
    attempt on one node; when it passes, the next node is tried, as a scheduler does."""
    total = len(groups) * len(nodes)
    for number, claims in enumerate(groups):
        allocator = Allocator(snapshot, claims, features, interrupt=deadline)
        tried: list[NodeAnswer] = []
        error: str | None = None
        for position, node in enumerate(nodes):
            progress(number * len(nodes) + position, total)
            try:
                tried.append(_try(allocator, node, deadline))
            except FatalError as fatal:
                error = str(fatal)
                break
            if tried[-1].verdict == FITS and not everywhere:
                snapshot = snapshot.with_allocation(*tried[-1].results)
                break
        fits = any(answer.verdict == FITS for answer in tried)
        if error is None and (explain or everywhere or not fits):
            tried = [_explained(allocator, answer, node, deadline) for answer, node in zip(tried, nodes, strict=False)]
        yield AllocationAnswer(tuple(claim.key for claim in claims), tuple(tried), len(nodes), error)
    progress(total, total)


def _try(allocator: Allocator, node: Node, deadline: AllocationDeadline) -> NodeAnswer:
    """The answer of one node. Raises FatalError."""
    deadline.start()
    try:
        answer = allocator.allocate(node, explain=False)
    except DeadlineExceeded as error:
        return NodeAnswer(node.name, TIMED_OUT, f"timed out after {deadline}{progress_of(error)}")
    except NodeError as error:
        return NodeAnswer(node.name, ERROR, str(error))
    if isinstance(answer, Allocated):
        return NodeAnswer(node.name, FITS, results=answer.results)
    return NodeAnswer(node.name, REFUSED, "cannot allocate all claims")


def _explained(allocator: Allocator, answer: NodeAnswer, node: Node, deadline: AllocationDeadline) -> NodeAnswer:
    """The answer with the refusals of the node's devices, for which the search runs once more."""
    if answer.verdict in (FITS, TIMED_OUT):
        return answer
    deadline.start()
    try:
        why = allocator.explain(node)
    except AllocationError:
        return answer  # of the request itself, or the search was cut off: the message is complete
    summary = why.summary if answer.verdict == REFUSED else answer.summary
    return NodeAnswer(answer.node, answer.verdict, summary, explanation=why)
