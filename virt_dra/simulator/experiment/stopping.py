"""VMs that are stopped and started again, and those that keep their devices meanwhile (docs/guides/keep.md).

How long a VM runs and is stopped depends on the experiment's seed and the VM alone, so that every policy sees the same,
with keeping and without.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

SHORTEST: Final = 1.0
"""Seconds that a VM runs, or is stopped, at least: bounds the number of events."""


@dataclass(frozen=True, slots=True)
class Span:
    """A time in seconds, or the mean of an exponential distribution."""

    seconds: float
    drawn: bool = False


@dataclass(frozen=True, slots=True)
class KeepRule:
    """``stopped_for``: for how long a stopped VM keeps its devices, ``node_loss``: how long it waits for a closed node,
    in seconds; None: for ever."""

    stopped_for: float | None
    node_loss: float | None


@dataclass(frozen=True, slots=True)
class StopPattern:
    """A kind of VM that runs, is stopped, and runs again until its lifetime, which counts while it runs, is over.

    ``seed``: of what is drawn. ``keep``: None if a VM gives up its devices when it stops.
    """

    running: Span
    stopped: Span
    seed: str
    keep: KeepRule | None = None

    def runs_for(self, vm: str, stops: int) -> float:
        """Seconds that a VM runs after it was stopped so many times."""
        return self._drawn(self.running, f"{self.seed}/{vm}/{stops}/runs")

    def stopped_for(self, vm: str, stops: int) -> float:
        """Seconds that it is stopped the next time."""
        return self._drawn(self.stopped, f"{self.seed}/{vm}/{stops}/stopped")

    @staticmethod
    def _drawn(span: Span, seed: str) -> float:
        return max(Random(seed).expovariate(1 / span.seconds) if span.drawn else span.seconds, SHORTEST)
