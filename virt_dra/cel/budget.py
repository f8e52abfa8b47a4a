"""What one evaluation may do. Counts steps of comprehensions and the size of what is built or compared.

This guards what Kubernetes' cost (``virt_dra.cel.cost``) doesn't bound: lists that double in size for a cost of 1, texts that grow.
"""

from __future__ import annotations

from typing import Final

from virt_dra.cel.errors import BudgetExceeded

STEP_LIMIT: Final = 5_000_000
"""Steps of one evaluation: more than a cost of 1,000,000 (L-4.1) allows, save for what that takes for cheap, as joining lists."""


TEXT_LIMIT: Final = 100_000
"""Characters (or bytes) of a text that an expression may build; attributes have at most 64, an expression 10,240."""


class Budget:
    """The steps that are left to one evaluation."""

    __slots__ = ("left",)

    def __init__(self, limit: int = STEP_LIMIT) -> None:
        self.left = limit

    def read(self, text: str | bytes) -> None:
        """Use up the steps of going through a text. Raises BudgetExceeded."""
        self.spend(len(text) // 10 + 1)

    def build(self, length: int) -> None:
        """Use up the steps of building a text of this length. Raises BudgetExceeded, also for one that is too long."""
        if length > TEXT_LIMIT:
            raise BudgetExceeded(f"operation cancelled: the expression builds a text of more than {TEXT_LIMIT} characters")
        self.spend(length // 10 + 1)

    def spend(self, steps: int) -> None:
        """Use up steps. Raises BudgetExceeded when there are none left."""
        self.left -= steps
        if self.left < 0:
            raise BudgetExceeded(f"operation cancelled: the expression takes more than {STEP_LIMIT} steps on this device")
