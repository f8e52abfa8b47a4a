"""A compiled expression on devices, and the outcome of evaluating it on one, with its cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from virt_dra.cel.compiler import Program
from virt_dra.cel.device import DeviceInput
from virt_dra.cel.errors import EvaluationError, enhanced
from virt_dra.cel.values import Value

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Examined(Generic[V]):
    """A value or an error. ``cost`` is Kubernetes' run-time cost so far (L-4.1); None if nothing was evaluated."""

    value: V | None = None
    error: str | None = None
    cost: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DeviceExpression(Generic[V]):
    """A compiled expression on devices, whose results are converted by :meth:`_converted`."""

    expression: str
    program: Program = field(repr=False)

    @property
    def cost_estimate(self) -> int:
        """The worst-case cost that admission holds against the limit (L-4.1, L-4.2); 2**64 - 1 if unbounded."""
        return self.program.estimate_cost()

    def examine(self, device: DeviceInput) -> Examined[V]:
        """The result, or the error with Kubernetes' advice on missing keys (L-3.5), and the cost."""
        value, cost = self.program.evaluate_with_cost({"device": device})
        if isinstance(value, EvaluationError):
            return Examined(error=enhanced(value.message), cost=cost)
        try:
            return Examined(self._converted(value), cost=cost)
        except EvaluationError as error:
            return Examined(error=error.message, cost=cost)

    def _converted(self, value: Value) -> V:
        """Raises EvaluationError for a value that isn't of the result's type."""
        raise NotImplementedError
