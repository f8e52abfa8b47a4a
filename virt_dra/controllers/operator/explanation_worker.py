"""The port to the evaluation that explains why a pod waits, off the event loop.

Selectors are written by tenants. In a thread, one call into a library can hold the interpreter lock for as long as it
takes, so the operator evaluates them in a child process (:mod:`virt_dra.operator.explanation_process`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from virt_dra.allocator import DeadlineExceeded
from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import Condition
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.controllers.operator.pending import ExplainLimits, Sample, View, explain, took_too_long


@dataclass(frozen=True)
class ExplanationRequest:
    """The request why a pod waits. ``claims``: the pod's, by key; ``previous``: the VMI's condition Allocatable as it
    was written last."""

    pod: Pod
    claims: Mapping[str, ResourceClaim]
    previous: Condition | None
    now: datetime


@dataclass(frozen=True)
class ExplanationResult:
    """The condition Allocatable to write, or the request's ``previous`` itself if it is unchanged. ``too_slow``: the
    deadline passed."""

    condition: Condition
    too_slow: bool = False


class ExplanationFailed(Exception):
    """The explanation failed for a reason outside the pod."""


class ExplanationWorker(Protocol):
    """Explains one pod at a time. Cancelling a call aborts the evaluation at once."""

    @property
    def has_view(self) -> bool:
        """True if it has a view of the cluster. A restart loses the view."""

    async def load_view(self, sample: Sample) -> None:
        """Replace the view of the cluster that requests are explained by. Raises :class:`ExplanationFailed`."""

    async def explain(self, request: ExplanationRequest) -> ExplanationResult:
        """Explain one pod. Raises :class:`ExplanationFailed`, also if there is no view."""

    async def close(self) -> None:
        """Abort the evaluation and drop the view; :meth:`load_view` starts again."""


def explained_within(
    request: ExplanationRequest, view: View, limits: ExplainLimits, interrupt: Callable[[], bool]
) -> ExplanationResult:
    """The explanation; once ``interrupt`` returns True, the one that says that it took too long."""
    try:
        return ExplanationResult(
            explain(
                request.pod, request.claims, view, request.previous, request.now, limits=limits, interrupt=interrupt
            )
        )
    except DeadlineExceeded as error:
        return ExplanationResult(
            took_too_long(request.pod, error.subject, request.previous, request.now, limits), too_slow=True
        )
