"""The cache of compiled expressions, limited in bytes: users choose the texts, and 10 KiB take a megabyte compiled."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from virt_dra.cel.compiler import KEPT_NODES
from virt_dra.cel.environment import Environment
from virt_dra.cel.errors import CompileError, Issue, Stopped
from virt_dra.cel.examined import DeviceExpression
from virt_dra.cel.expression import Pieces
from virt_dra.cel.functions.regex import Spend, free
from virt_dra.cel.limits.budget import InterruptCheck, Work
from virt_dra.cel.limits.sized_cache import SizedCache

_BASE: Final = 3_000
_PER_NODE: Final = 450
_PER_LATER_NODE: Final = 320
_PER_CHARACTER: Final = 5
"""Bytes (measured, at most): of any expression, of a node (beyond KEPT_NODES without the counted form), of its text."""

_COMPILING: Final = 250.0
_COMPILING_CHARACTER: Final = 8.0
"""Microseconds (measured, at most): of compiling any expression, and of a character; patterns come on top."""


_MOST_BEGUN: Final = 64
"""Expressions whose compilation was left for later; they aren't larger than what is kept of compiled ones."""

T = TypeVar("T", bound=DeviceExpression[Any])


@dataclass(frozen=True, slots=True)
class _Refused:
    message: str
    issues: tuple[Issue, ...]


class Compilations(Generic[T]):
    """A cache that compiles what is missing, for one kind of expression; compile errors are cached as well."""

    def __init__(self, make: Callable[[str, Environment, Spend], Pieces[T]], size: int, most: int) -> None:
        """``size``: limit of all entries in estimated bytes; ``most``: of their number."""
        self._make = make
        self._begun: OrderedDict[tuple[str, Environment], Pieces[T | _Refused]] = OrderedDict()
        """The compilations that were interrupted, which go on when they are asked for again."""
        self._kept: SizedCache[tuple[str, Environment], T | _Refused] = SizedCache(size, most)

    @property
    def size(self) -> int:
        """Estimated bytes of all entries."""
        return self._kept.size

    def __len__(self) -> int:
        return len(self._kept)

    def get(
        self,
        expression: str,
        environment: Environment,
        work: Work | None = None,
        interrupt: InterruptCheck | None = None,
    ) -> T:
        """The compiled expression; ``work``: the budget for compiling it, if it isn't cached; ``interrupt``: polled
        after each piece of some milliseconds. Raises CompileError, Interrupted."""
        key = (expression, environment)
        outcome = self._kept.get(key)
        if outcome is None:
            making = self._begun.pop(key, None) or self._making(expression, environment, _spending(work))
            outcome = self._finished(key, making, interrupt)
            self._kept.put(key, outcome, kept_size(expression, outcome))
            if interrupt is not None and interrupt():  # so that the last piece isn't laid to what comes next
                raise Stopped
        if isinstance(outcome, _Refused):
            raise CompileError(outcome.message, outcome.issues)
        return outcome

    def _finished(
        self, key: tuple[str, Environment], making: Pieces[T | _Refused], interrupt: InterruptCheck | None
    ) -> T | _Refused:
        while True:
            try:
                next(making)
            except StopIteration as done:
                outcome: T | _Refused = done.value
                return outcome
            if interrupt is not None and interrupt():
                self._begun[key] = making
                if len(self._begun) > _MOST_BEGUN:
                    self._begun.popitem(last=False)
                raise Stopped

    def _making(self, expression: str, environment: Environment, spend: Spend) -> Pieces[T | _Refused]:
        spend(_COMPILING + _COMPILING_CHARACTER * min(len(expression), _LONGEST))
        try:
            return (yield from self._make(expression, environment, spend))
        except CompileError as error:
            return _Refused(error.message, error.issues)

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._begun.clear()


_LONGEST: Final = 10_240
"""Characters above which a text is refused without being parsed."""


def _spending(work: Work | None) -> Spend:
    if work is None:
        return free

    def spend(microseconds: float) -> None:
        if work.spent(microseconds) or (work.interrupt is not None and work.interrupt()):
            raise Stopped

    return spend


def kept_size(expression: str, outcome: DeviceExpression[Any] | _Refused) -> int:
    """Bytes that a compiled expression or a refusal takes, by estimate."""
    if isinstance(outcome, _Refused):
        return _BASE + _PER_CHARACTER * (len(expression) + 2 * len(outcome.message))
    nodes = outcome.program.work_estimate.nodes
    tree = _PER_NODE * nodes if nodes <= KEPT_NODES else _PER_LATER_NODE * nodes
    return _BASE + _PER_CHARACTER * len(expression) + tree
