"""Where pods are explained: never on the event loop. The port, and an examiner in a thread, for whoever explains what is his own.

What is evaluated for an explanation was written by tenants. In a thread it keeps the interpreter for as long as one call into a library
takes, so the operator has a process for it (:mod:`virt_dra.operator_examiner`).
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
from virt_dra.controllers.pending import LIMITS, Limits, Sample, View, explain, took_too_long, view_of


@dataclass(frozen=True)
class Question:
    """Why a pod waits. ``claims``: its own, by key; ``told``: the condition Allocatable as it stands."""

    pod: Pod
    claims: Mapping[str, ResourceClaim]
    told: Condition | None
    now: datetime


@dataclass(frozen=True)
class Answer:
    """``condition`` is the question's ``told`` where that says it already. ``too_slow``: no decision was reached in time."""

    condition: Condition
    too_slow: bool = False


class ExaminerFailed(Exception):
    """There is no answer, for a reason that isn't the pod's."""


class Examiner(Protocol):
    """Answers one question at a time. Cancelling a call ends what it does, at once."""

    @property
    def sees(self) -> bool:
        """Whether it has a view; it may lose it, and must then be given one before the next question."""

    async def see(self, sample: Sample) -> None:
        """What the following questions are about. Raises :class:`ExaminerFailed`."""

    async def answer(self, question: Question) -> Answer:
        """Raises :class:`ExaminerFailed`, also where nothing has been seen."""

    async def close(self) -> None:
        """Ends what runs; another :meth:`see` begins anew."""


def answered(question: Question, view: View, limits: Limits, interrupt: Callable[[], bool]) -> Answer:
    """The answer, or that it took too long: then ``interrupt`` says yes."""
    try:
        return Answer(explain(question.pod, question.claims, view, question.told, question.now, limits=limits, interrupt=interrupt))
    except DeadlineExceeded as error:
        return Answer(took_too_long(question.pod, error.subject, question.told, question.now, limits), too_slow=True)


class ThreadExaminer:
    """Explains in a thread of this process."""

    def __init__(self, limits: Limits = LIMITS, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._view: View | None = None

    @property
    def sees(self) -> bool:
        return self._view is not None

    async def see(self, sample: Sample) -> None:
        self._view = await asyncio.to_thread(view_of, sample)

    async def answer(self, question: Question) -> Answer:
        view = self._view
        if view is None:
            raise ExaminerFailed("nothing was seen")
        cancelled = threading.Event()
        end = self._clock() + self._limits.seconds
        try:
            return await asyncio.to_thread(answered, question, view, self._limits, lambda: cancelled.is_set() or self._clock() >= end)
        finally:
            cancelled.set()

    async def close(self) -> None:
        self._view = None
