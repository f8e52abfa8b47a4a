"""What one evaluation may do. Counts steps of comprehensions and the size of what is built or compared.

This is a guard, not Kubernetes' cost: it keeps a hostile expression from looping for minutes or filling the memory.
"""

from __future__ import annotations

from typing import Final

from virt_dra.cel.errors import BudgetExceeded

STEP_LIMIT: Final = 1_000_000
"""Steps of one evaluation. The same order as Kubernetes' cost limit (L-4.1), in which a step of a comprehension costs at least 1."""


class Budget:
    """The steps that are left to one evaluation."""

    __slots__ = ("left",)

    def __init__(self, limit: int = STEP_LIMIT) -> None:
        self.left = limit

    def spend(self, steps: int) -> None:
        """Use up steps. Raises BudgetExceeded when there are none left."""
        self.left -= steps
        if self.left < 0:
            raise BudgetExceeded(f"operation cancelled: the expression takes more than {STEP_LIMIT} steps on this device")
