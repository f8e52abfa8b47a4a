"""What one evaluation may do. Counts steps of comprehensions and the size of what is built or compared.

This guards what Kubernetes' cost (``virt_dra.cel.cost``) doesn't bound: lists that double in size for a cost of 1, texts that grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Final, TypeVar

from virt_dra.cel.errors import BudgetExceeded, Interrupted

V = TypeVar("V")

CHECK_EVERY: Final = 100
"""Steps of comprehensions between two looks at the deadline (L-4.4)."""

Interrupt = Callable[[], bool]
"""Whether the evaluation shall end: a deadline has passed, or whoever asked is gone."""

STEP_LIMIT: Final = 5_000_000
"""Steps of one evaluation: more than a cost of 1,000,000 (L-4.1) allows, save for what that takes for cheap, as joining lists."""


TEXT_LIMIT: Final = 100_000
"""Characters (or bytes) of a text that an expression may build; attributes have at most 64, an expression 10,240."""


class Budget:
    """The steps that are left to one evaluation, and what may interrupt it."""

    __slots__ = ("_interrupt", "left", "steps")

    def __init__(self, limit: int = STEP_LIMIT, interrupt: Interrupt | None = None) -> None:
        self.left = limit
        self.steps = 0
        """Steps of loops that were done, if they are counted for an interrupt."""
        self._interrupt = interrupt

    def loop(self, values: Iterable[V]) -> Iterable[V]:
        """What a loop goes through. Raises Interrupted in the middle of it."""
        self.spend(len(values) if isinstance(values, Sized) else 0)
        return values if self._interrupt is None else self._watched(values, self._interrupt)

    def _watched(self, values: Iterable[V], interrupt: Interrupt) -> Iterator[V]:
        for value in values:
            yield value
            self.steps += 1
            if self.steps % CHECK_EVERY == 0 and interrupt():
                raise Interrupted

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
