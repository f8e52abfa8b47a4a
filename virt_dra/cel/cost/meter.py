"""What one counted evaluation carries along: the cost so far, the variables, and whether it is to stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from virt_dra.cel.budget import CHECK_EVERY, Budget, Interrupt
from virt_dra.cel.errors import Aborted, EvaluationError
from virt_dra.cel.values import Value

COST_LIMIT: Final = 1_000_000
"""What one evaluation may cost, and the worst case that admission accepts (L-4.1)."""


class CostExceeded(Aborted):
    """It cost more than COST_LIMIT."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


@dataclass(frozen=True, slots=True)
class Failed:
    """A failure as a value: whether it matters is for the operators around it to say."""

    error: EvaluationError


UNSET: Final = object()
"""In the slot of a bound variable that was not used yet."""


class Meter(Budget):
    """The state of one counted evaluation."""

    __slots__ = ("_due", "_stopped", "cost", "slots", "started", "variables")

    def __init__(self, variables: Mapping[str, Value], slots: int, interrupt: Interrupt | None = None) -> None:
        super().__init__()
        self.cost = 0
        self.variables = variables
        self.slots: list[Value] = [UNSET] * slots
        """Values of the variables that macros bind, by :attr:`Variable.slot`."""
        self.started: list[int] = []
        """Slots of variables whose values were computed for their first use, in order."""
        self._due = interrupt
        self._stopped = False

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

    def stopped(self) -> bool:
        """Count one step of a comprehension; whether the evaluation has been interrupted."""
        if self._stopped or self._due is None:
            return self._stopped
        self.steps += 1
        if self.steps % CHECK_EVERY == 0:
            self._stopped = self._due()
        return self._stopped
