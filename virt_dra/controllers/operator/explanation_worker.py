"""The port that answers why a pod waits, never on the event loop; and an implementation in a thread, for selectors that are trusted.

Explaining evaluates selectors that tenants write. In a thread one of them holds the interpreter lock for as long as a call into a library
takes, so the operator has a process for it (:mod:`virt_dra.operator.explanation_process`).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from virt_dra.allocator import DeadlineExceeded
from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import Condition
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.controllers.operator.pending import LIMITS, ExplainLimits, Sample, View, explain, took_too_long, view_of


@dataclass(frozen=True)
class ExplanationRequest:
    """The question why a pod waits. ``claims``: the pod's, by key; ``told``: the VMI's condition Allocatable as it was written last."""

    pod: Pod
    claims: Mapping[str, ResourceClaim]
    told: Condition | None
    now: datetime


@dataclass(frozen=True)
class ExplanationResult:
    """The condition Allocatable to write, the question's ``told`` itself where it is unchanged. ``too_slow``: the deadline passed."""

    condition: Condition
    too_slow: bool = False


class ExplanationFailed(Exception):
    """There is no answer, for a reason that has nothing to do with the pod."""


class ExplanationWorker(Protocol):
    """Answers one question at a time. Cancelling a call aborts the evaluation at once."""

    @property
    def sees(self) -> bool:
        """Whether it has a view of the cluster; it may lose it (a restart), and then needs one before the next question."""

    async def see(self, sample: Sample) -> None:
        """Replace the view that the following questions are answered by. Raises :class:`ExplanationFailed`."""

    async def answer(self, question: ExplanationRequest) -> ExplanationResult:
        """Answer a question. Raises :class:`ExplanationFailed`, also where there is no view."""

    async def close(self) -> None:
        """Stop what runs and drop the view; :meth:`see` starts again."""


def answered(question: ExplanationRequest, view: View, limits: ExplainLimits, interrupt: Callable[[], bool]) -> ExplanationResult:
    """Explain, or answer that it took too long once ``interrupt`` returns True."""
    try:
        return ExplanationResult(
            explain(question.pod, question.claims, view, question.told, question.now, limits=limits, interrupt=interrupt)
        )
    except DeadlineExceeded as error:
        return ExplanationResult(took_too_long(question.pod, error.subject, question.told, question.now, limits), too_slow=True)


class ThreadExplanationWorker:
    """Explains in a thread of this process."""

    def __init__(self, limits: ExplainLimits = LIMITS, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._view: View | None = None

    @property
    def sees(self) -> bool:
        return self._view is not None

    async def see(self, sample: Sample) -> None:
        self._view = await asyncio.to_thread(view_of, sample)

    async def answer(self, question: ExplanationRequest) -> ExplanationResult:
        view = self._view
        if view is None:
            raise ExplanationFailed("nothing was seen")
        cancelled = threading.Event()
        end = self._clock() + self._limits.seconds
        try:
            return await asyncio.to_thread(answered, question, view, self._limits, lambda: cancelled.is_set() or self._clock() >= end)
        finally:
            cancelled.set()

    async def close(self) -> None:
        self._view = None
