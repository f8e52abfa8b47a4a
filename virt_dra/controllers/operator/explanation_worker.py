"""The port to the evaluation that explains why a pod waits. Selectors are tenants': in a thread, one call into a
library can hold the interpreter lock for as long as it takes, so a child process evaluates them
(:mod:`virt_dra.operator.explanation_process`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from virt_dra.allocator import DeadlineExceeded
from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import Condition
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.controllers.operator.pending import ExplainLimits, Sample, View, explain, fitting_nodes, took_too_long
from virt_dra.scheduling.alignment import (
    AlignmentRequest,
    AlignmentResult,
    aligned_claims,
    chosen_alignments,
    not_placed,
    placed_beside,
)
from virt_dra.scheduling.fit import FitOptions


@dataclass(frozen=True)
class ExplanationRequest:
    """The question why a pod waits. ``claims``: the pod's, by key; ``previous``: the VMI's condition Allocatable as it
    was written last. ``count``: whether to count the nodes that it fits on."""

    pod: Pod
    claims: Mapping[str, ResourceClaim]
    previous: Condition | None
    now: datetime
    count: bool = False


@dataclass(frozen=True)
class ExplanationResult:
    """The condition Allocatable to write, or the request's ``previous`` itself. ``too_slow``: the deadline passed.
    ``fitting``: the number of the ``tried`` nodes that the pod fits on, if it was to be counted and is known."""

    condition: Condition
    too_slow: bool = False
    fitting: int | None = None
    tried: int = 0


class ExplanationFailed(Exception):
    """The explanation failed for a reason outside the pod."""


class ExplanationWorker(Protocol):
    """Explains one pod, or chooses its alignments, at a time. Cancelling a call aborts the evaluation at once."""

    @property
    def has_view(self) -> bool:
        """True if it has a view of the cluster. A restart loses the view."""

    async def load_view(self, sample: Sample) -> None:
        """Replace the view of the cluster that requests are explained by. Raises :class:`ExplanationFailed`."""

    async def explain(self, request: ExplanationRequest) -> ExplanationResult:
        """Explain one pod. Raises :class:`ExplanationFailed`, also if there is no view."""

    async def align(self, request: AlignmentRequest) -> AlignmentResult:
        """Choose the alignments of one pod, of which later choices by the same view know. Raises as :meth:`explain`."""

    async def close(self) -> None:
        """Abort the evaluation and drop the view; :meth:`load_view` starts again."""


def explained_within(
    request: ExplanationRequest, view: View, limits: ExplainLimits, interrupt: Callable[[], bool]
) -> ExplanationResult:
    """The explanation; once ``interrupt`` returns True, one with the reason that it took too long."""
    try:
        condition = explain(
            request.pod, request.claims, view, request.previous, request.now, limits=limits, interrupt=interrupt
        )
        if not request.count or condition.status == "Unknown":
            return ExplanationResult(condition)
        fitting = (
            0 if condition.status == "False" else fitting_nodes(request.pod, request.claims, view, limits, interrupt)
        )
        return ExplanationResult(condition, fitting=fitting, tried=len(view.model.nodes))
    except DeadlineExceeded as error:
        return ExplanationResult(
            took_too_long(request.pod, error.subject, request.previous, request.now, limits), too_slow=True
        )


def aligned_within(
    request: AlignmentRequest, view: View, limits: ExplainLimits, interrupt: Callable[[], bool]
) -> tuple[AlignmentResult, View]:
    """The choice, and the view in which the pod has its devices; once ``interrupt`` returns True, no alignment."""
    pod, claims, options = request.pod, request.claims, FitOptions(step_limit=limits.steps, interrupt=interrupt)
    own = f"aligned-{pod.metadata.uid}"
    before = not_placed(pod, claims, view.model, own)
    try:
        choice = chosen_alignments(pod, claims, request.preferences, before, options, request.asked)
        model = placed_beside(pod, aligned_claims(pod, claims, choice.held), before, own, options)
    except DeadlineExceeded:
        return AlignmentResult(), view
    held = tuple(number for number, own in enumerate(request.preferences) if own in choice.held)
    return AlignmentResult(held, choice.fits), replace(view, model=model)
