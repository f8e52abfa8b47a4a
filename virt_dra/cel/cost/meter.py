"""The state of one counted evaluation: the cost so far, the variables, and whether it has been interrupted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from virt_dra.cel.errors import EvaluationAborted, EvaluationError, Stopped
from virt_dra.cel.limits.budget import AFTERWARDS, CHECK_EVERY, STRETCH, Budget, InterruptCheck, Work
from virt_dra.cel.values import Value

V = TypeVar("V")

COST_LIMIT: Final = 1_000_000
"""The limit of one evaluation's run-time cost, and of the estimate that admission accepts (L-4.1)."""


class CostExceeded(EvaluationAborted):
    """The evaluation costs more than COST_LIMIT."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


@dataclass(frozen=True, slots=True)
class FailedValue:
    """A failure as a value: the operators around it decide whether it matters."""

    error: EvaluationError


UNSET: Final = object()
"""The slot of a bound variable that has not been used yet."""


class Meter(Budget):
    """The state of one counted evaluation."""

    def __init__(
        self, variables: Mapping[str, Value], slots: int, watcher: Work | InterruptCheck | None = None
    ) -> None:
        self.cost = 0
        self.variables = variables
        self.slots: list[Value] = [UNSET] * slots
        """Values of the variables that macros bind, by :attr:`Variable.slot`."""
        self.started: list[int] = []
        """Slots of variables in the order in which their values were first computed."""
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
        """Add the cost of steps of 1 each. Raises CostExceeded, with the cost at the first step beyond the limit."""
        self.cost += steps
        if self.cost > COST_LIMIT:
            self.cost = COST_LIMIT + 1
            raise CostExceeded

    def loop(self, values: Sequence[V], weight: float) -> Sequence[V] | Iterator[V]:
        """The values for a comprehension to iterate over; its steps are counted by :meth:`stopped`."""
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
        """Count one step of a comprehension; True if the evaluation has been interrupted."""
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
        """Prepare an evaluation that starts again to find out whether its interruption matters: loops end at the next
        poll of the interrupt."""
        self._interrupt = _always
        self._limit()

    def _interrupted(self) -> None:
        """Let the next step of a loop fail: to the operators around it, an interruption is a failure like others."""
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
