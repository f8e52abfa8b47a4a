"""The time limit of one allocation, like kube-scheduler's for the claims of a pod on one node."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from virt_dra.allocator import AllocationError, DeadlineExceeded

DEFAULT_TIMEOUT: Final = 10.0
"""Seconds that kube-scheduler gives a pod's claims on one node (gate DRASchedulerFilterTimeout, A-2)."""


class AllocationDeadline:
    """An allocator's interrupt: True once the current allocation has used up its time (infinity: no limit)."""

    def __init__(self, seconds: float = DEFAULT_TIMEOUT, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._end = math.inf

    def start(self) -> None:
        """Start the time of the next allocation."""
        self._end = self._clock() + self.seconds

    def __call__(self) -> bool:
        return self._clock() >= self._end

    def __str__(self) -> str:
        return f"{self.seconds:g} s"


def progress_of(error: DeadlineExceeded) -> str:
    """How far an interrupted allocation came. Selectors are evaluated on all devices before the search begins."""
    return error.progress or "; it was still evaluating selectors"


def error_text(error: AllocationError) -> str:
    """The error's text; of an interrupted allocation always with how far it came."""
    return str(error.after(progress_of(error)) if isinstance(error, DeadlineExceeded) else error)
