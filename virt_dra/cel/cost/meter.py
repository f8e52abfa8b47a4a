"""What one counted evaluation carries along: the cost so far, the variables, and whether it is to stop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from virt_dra.cel.errors import EvaluationAborted, EvaluationError, Stopped
from virt_dra.cel.limits.budget import AFTERWARDS, CHECK_EVERY, STRETCH, Budget, InterruptCheck, Work
from virt_dra.cel.values import Value

V = TypeVar("V")

COST_LIMIT: Final = 1_000_000
"""What one evaluation may cost, and the worst case that admission accepts (L-4.1)."""


class CostExceeded(EvaluationAborted):
    """It cost more than COST_LIMIT."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


@dataclass(frozen=True, slots=True)
class FailedValue:
    """A failure as a value: whether it matters is for the operators around it to say."""

    error: EvaluationError


UNSET: Final = object()
"""In the slot of a bound variable that was not used yet."""


class Meter(Budget):
    """The state of one counted evaluation."""

    def __init__(self, variables: Mapping[str, Value], slots: int, watcher: Work | InterruptCheck | None = None) -> None:
        self.cost = 0
        self.variables = variables
        self.slots: list[Value] = [UNSET] * slots
        """Values of the variables that macros bind, by :attr:`Variable.slot`."""
        self.started: list[int] = []
        """Slots of variables whose values were computed for their first use, in order."""
        self._stopped = False
        self._limited = False
        if watcher is not None:
            self.watch(watcher)

    def charge(self, cost: int) -> None:
        """Add to the cost. Raises CostExceeded."""
        self.cost += cost
        if self.cost > COST_LIMIT:
            raise CostExceeded

    def charge_each(self, steps: int) -> None:
        """Add the cost of steps that cost 1 each. Raises CostExceeded at the one that is too much."""
        self.cost += steps
        if self.cost > COST_LIMIT:
            self.cost = COST_LIMIT + 1
            raise CostExceeded

    def loop(self, values: Sequence[V], weight: float) -> Sequence[V] | Iterator[V]:
        """What a comprehension goes through; its steps are counted by :meth:`stopped`."""
        whole = len(values) * weight
        if whole < STRETCH:
            self.spend(whole)
            return values
        return self._weighed(values, weight)

    def _weighed(self, values: Sequence[V], weight: float) -> Iterator[V]:
        for value in values:
            self.spend(weight)
            yield value

    def stopped(self) -> bool:
        """Count one step of a comprehension; whether the evaluation has been interrupted."""
        if self._stopped or self._interrupt is None:
            return self._stopped
        self.steps += 1
        if self.steps % CHECK_EVERY == 0:
            self.report()
            self._reach()
            if self._interrupt():
                self._interrupted()
        return self._stopped

    def interrupted_before(self) -> None:
        """For an evaluation that starts again to see whether its interruption matters: it ends loops at the next look at the deadline."""
        self._interrupt = _always
        self._limit()

    def _interrupted(self) -> None:
        """An interruption is a failure like others to what is around it, and comes with the next step of a loop."""
        self._stopped = True
        self._limit()

    def _limit(self) -> None:
        if not self._limited:
            self._limited = True
            self.report()
            self.left = self._reported = min(self.left, AFTERWARDS)
            self._reach()

    def _exhausted(self) -> None:
        if self._limited:
            raise Stopped
        super()._exhausted()


def _always() -> bool:
    return True
