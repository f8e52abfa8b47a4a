"""How long one allocation may take: what ``--timeout`` sets, as kube-scheduler's limit for one node does."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

import click

from virt_dra.allocator import AllocationError, DeadlineExceeded

DEFAULT_TIMEOUT: Final = 10.0
"""Seconds that kube-scheduler gives a pod's claims on one node (gate DRASchedulerFilterTimeout, A-2)."""


class AllocationDeadline:
    """Whether the present allocation has had its time: an allocator's interrupt. ``seconds``: infinity is no limit."""

    def __init__(self, seconds: float = DEFAULT_TIMEOUT, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._end = math.inf

    def start(self) -> None:
        """The next allocation begins."""
        self._end = self._clock() + self.seconds

    def __call__(self) -> bool:
        return self._clock() >= self._end

    def __str__(self) -> str:
        return f"{self.seconds:g} s"


def parse_timeout(ctx: click.Context, param: click.Parameter, value: float) -> AllocationDeadline:
    """Raises BadParameter."""
    if math.isnan(value) or value < 0:
        raise click.BadParameter(f"{value:g} is no time to wait; give seconds, e.g. 0.5, or 0 for no limit")
    return AllocationDeadline(value or math.inf)


def progress_of(error: DeadlineExceeded) -> str:
    """How far an allocation came that wasn't decided in time. Before the search begins, selectors are asked about all devices."""
    return error.progress or "; it was still evaluating selectors"


def told(error: AllocationError) -> str:
    """The error's text, always with how far an allocation came that wasn't decided in time."""
    return str(error.after(progress_of(error)) if isinstance(error, DeadlineExceeded) else error)
