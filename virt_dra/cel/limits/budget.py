"""Budgets of time and memory for evaluating CEL: of one evaluation (:class:`Budget`), and of a caller's evaluations
(:class:`Work`).

Kubernetes' cost (``virt_dra.cel.cost``) says nothing about the time that an evaluation takes here: a list doubles in
size for a cost of 1. So every loop, function and operator that may take more than a few microseconds charges its time
beforehand, by measured rates (``devtools/cel/hostile`` searches for expressions that are charged too little); the rest
is charged by the nodes of the tree. A charge may exhaust the budget and end the evaluation, polls the caller's
interrupt, and is deducted from the caller's :class:`Work`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from virt_dra.cel.errors import BudgetExceeded, Interrupted, Stopped

V = TypeVar("V")

CHECK_EVERY: Final = 100
"""Steps of comprehensions between two checks of the deadline (L-4.4)."""

STRETCH: Final = 500.0
"""Microseconds of work between two checks of the deadline and two reports to the caller."""

InterruptCheck = Callable[[], bool]
"""Returns True if the evaluation is to be aborted: its deadline has passed, or its caller is gone."""

STEP_LIMIT: Final = 5_000_000
"""Microseconds of one evaluation: more than a cost of 1,000,000 (L-4.1) takes, unless it undercharges operations."""

AFTERWARDS: Final = 5_000.0
"""Microseconds that an interrupted evaluation may still take to find out whether its interruption matters (L-4.4)."""

TEXT_LIMIT: Final = 100_000
"""Characters (or bytes) of a text that an expression may build; attributes have at most 64, an expression 10,240."""

MEMORY_LIMIT: Final = 40_000_000
"""Bytes of texts and lists that one evaluation may build."""

PATTERN_LIMIT: Final = 100_000
"""Instructions of all regular expressions together that one evaluation compiles."""
_SMALLEST_PATTERN: Final = 100
"""The fewest instructions that a pattern counts as, so that there are at most 1,000 patterns."""

_POINTER: Final = 8
"""Bytes of an element of a list."""
_PER_BYTE: Final = 0.0006
"""Microseconds of building a byte of a text or list."""
_BLOCK: Final = 512
"""Elements that are charged together."""


class Work:
    """A caller's budget for evaluations, in calibrated microseconds; unlimited where ``left`` is None.

    Several evaluations may share it; each deducts its work as it proceeds. ``interrupt`` may abort them all earlier.
    """

    __slots__ = ("interrupt", "left")

    def __init__(self, left: float | None = None, interrupt: InterruptCheck | None = None) -> None:
        self.left = left
        self.interrupt = interrupt

    def spent(self, microseconds: float) -> bool:
        """Deduct an amount; True if the budget is overdrawn."""
        if self.left is None:
            return False
        self.left -= microseconds
        return self.left < 0


class Budget:
    """The remaining budget of one evaluation; a mere counter if no caller watches it."""

    # no __slots__: these are the values of an evaluation without a watch, so that making a budget costs nothing
    left: float = float(STEP_LIMIT)
    """Microseconds of work."""
    due: float = 0.0
    """The value of ``left`` below which the work is reported next."""
    room: int = MEMORY_LIMIT
    steps: int = 0
    """Steps of loops so far, counted only if there is an interrupt."""
    _reported: float = float(STEP_LIMIT)
    _work: Work | None = None
    _interrupt: InterruptCheck | None = None
    patterns: frozenset[str] = frozenset()
    """The constant patterns of the expression."""
    _searched: set[str] | None = None
    _instructions: int = 0

    def watch(self, watcher: Work | InterruptCheck) -> None:
        """Report to a :class:`Work`, or poll an interrupt, from now on."""
        stretch = STRETCH
        if isinstance(watcher, Work):
            self._work = watcher
            self._interrupt = watcher.interrupt
            if watcher.left is not None and watcher.left < STRETCH:
                stretch = max(watcher.left, 0.0)
        else:
            self._interrupt = watcher
        self.due = self.left - stretch

    def spend(self, microseconds: float) -> None:
        """Charge work. Raises BudgetExceeded, Interrupted, and Stopped where the caller's budget is used up."""
        self.left -= microseconds
        if self.left < self.due:
            self._settle()

    def _reach(self) -> None:
        """Set the next time of a report: soon, and not after the caller's work is used up."""
        stretch = STRETCH
        if self._work is not None and self._work.left is not None:
            stretch = min(stretch, max(self._work.left, 0.0))
        self.due = max(0.0, self.left - stretch)

    def _settle(self) -> None:
        self.report()
        if self._work is not None and self._work.left is not None and self._work.left < 0:
            raise Stopped
        if self.left < 0:
            self._exhausted()
        if self._interrupt is not None or self._work is not None:
            self._reach()
            if self._interrupt is not None and self._interrupt():
                self._interrupted()

    def _exhausted(self) -> None:
        raise BudgetExceeded(f"operation cancelled: the expression takes more than {STEP_LIMIT} steps on this device")

    def _interrupted(self) -> None:
        raise Interrupted

    def report(self) -> None:
        """Deduct the work since the last report from the caller's budget."""
        if self._work is not None:
            self._work.spent(self._reported - self.left)
            self._reported = self.left

    def repeat(self, microseconds: float) -> None:
        """Charge work that an earlier evaluation has done, not deducted from the caller's. Raises as :meth:`spend`."""
        self._reported -= microseconds
        self.spend(microseconds)

    def extra(self, microseconds: float) -> None:
        """Report work that isn't the evaluation's own, such as making again what a cache has dropped."""
        if self._work is not None and self._work.spent(microseconds):
            raise Stopped

    # --- loops ---

    def loop(self, values: Sequence[V], weight: float) -> Sequence[V] | Iterator[V]:
        """The values for a comprehension, charged ``weight`` microseconds a step. Raises as :meth:`spend`."""
        whole = len(values) * weight
        if self._interrupt is None and whole < STRETCH:
            self.spend(whole)
            return values
        return self._watched(values, weight)

    def _watched(self, values: Sequence[V], weight: float) -> Iterator[V]:
        interrupt = self._interrupt
        for value in values:
            self.spend(weight)
            yield value
            if interrupt is not None:
                self.steps += 1
                if self.steps % CHECK_EVERY == 0:
                    self.report()
                    self._reach()
                    if interrupt():
                        self._interrupted()

    def charged(self, values: Sequence[V], weight: float, start: int = 0) -> Iterator[V]:
        """The values, for a function to iterate over, charged ``weight`` microseconds each. Raises as :meth:`spend`."""
        for begin in range(start, len(values), _BLOCK):
            block = values[begin : begin + _BLOCK]
            self.spend(len(block) * weight)
            yield from block

    # --- texts and lists ---

    def build(self, length: int, per_character: int = 1) -> None:
        """Charge building a text; ``per_character``: bytes of one. Raises BudgetExceeded, also for a long text."""
        if length > TEXT_LIMIT:
            raise BudgetExceeded(
                f"operation cancelled: the expression builds a text of more than {TEXT_LIMIT} characters"
            )
        self.allocate(length * per_character)

    def grow(self, length: int, per_element: int = _POINTER) -> None:
        """Charge building a list; ``per_element``: bytes of one. Raises BudgetExceeded."""
        self.allocate(length * per_element + 64)

    def allocate(self, size: int) -> None:
        """Charge bytes of memory, and the time of filling them. Raises BudgetExceeded."""
        self.room -= size
        if self.room < 0:
            raise BudgetExceeded(
                f"operation cancelled: the expression builds more than {MEMORY_LIMIT // 1_000_000} MB on this device"
            )
        self.spend(size * _PER_BYTE)

    def read(self, text: str | bytes, per_character: float = 0.005) -> None:
        """Charge scanning a text; ``per_character``: microseconds of one. Raises BudgetExceeded."""
        self.spend(len(text) * per_character)

    # --- patterns ---

    def compiled(self, size: int) -> None:
        """Count the instructions of a pattern compiled during the evaluation. Raises BudgetExceeded."""
        self._instructions += max(size, _SMALLEST_PATTERN)
        if self._instructions > PATTERN_LIMIT:
            raise BudgetExceeded(
                f"operation cancelled: the patterns of the expression need more than {PATTERN_LIMIT} instructions"
            )

    def is_new(self, pattern: str) -> bool:
        """True if this evaluation has not compiled this pattern yet."""
        if self._searched is None:
            self._searched = set()
        elif pattern in self._searched:
            return False
        self._searched.add(pattern)
        return True
