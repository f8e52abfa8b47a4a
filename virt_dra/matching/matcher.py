"""Evaluates lists of selectors on devices: which selector is the first that isn't true for a device, and why."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from virt_dra.api.resource_v1 import Device
from virt_dra.cel import (
    BudgetExceeded,
    CompiledSelector,
    CompileError,
    DeviceInput,
    EvaluationError,
    InterruptCheck,
    Interrupted,
    Work,
    compile_selector,
    device_input,
)
from virt_dra.cel.errors import Stopped
from virt_dra.cel.reads import Reads, together
from virt_dra.matching.reading import SharedAnswers

D = TypeVar("D")

_PER_COMPILED_CHARACTER: Final = 5
_PER_EVALUATION: Final = 1
"""Microseconds (measured): of compiling a character, and of an evaluation besides its selectors' work."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first selector that isn't true for a device. ``fault``: why it can't be evaluated; None if it is false."""

    selector: int
    fault: str | None = None
    compiles: bool = True
    undecided: bool = False
    """True if the evaluation exceeded a limit of virt-dra's, not Kubernetes': its result there is unknown."""


Outcome = Mismatch | None
"""None: every selector is true."""


class MatchingStopped(Stopped):
    """The work was used up or interrupted while the selector at this position was compiled or evaluated."""

    def __init__(self, selector: int) -> None:
        self.selector = selector
        super().__init__()


def interruptible(interrupt: InterruptCheck | None) -> Work | None:
    """Unlimited work that the interrupt ends; unlike Kubernetes' interrupt (L-4.4) no ``||`` absorbs it."""
    if interrupt is None:
        return None

    def poll() -> bool:
        if interrupt():
            raise Stopped
        return False

    return Work(interrupt=poll)


def readable(driver: str, device: Device) -> DeviceInput | str:
    """A device as selectors read it, or why it can't be converted."""
    try:
        return device_input(driver, device)
    except EvaluationError as error:
        return error.message


class SelectorList:
    """Compiled selectors, all of which must be true. ``fault``: of the first that doesn't compile, the last reached."""

    def __init__(self, expressions: Iterable[str], work: Work | None = None) -> None:
        """Raises MatchingStopped while one is compiled, Stopped between two of them, where the work isn't enough."""
        self.fault: Outcome = None
        self._selectors: list[CompiledSelector] = []
        for position, expression in enumerate(expressions):
            _spend(work, _PER_COMPILED_CHARACTER * len(expression))
            try:
                self._selectors.append(compile_selector(expression, interrupt=work.interrupt if work else None))
            except CompileError as error:
                self.fault = Mismatch(position, error.message, compiles=False)
                break
            except Interrupted:
                raise MatchingStopped(position) from None

    def __len__(self) -> int:
        return len(self._selectors)

    @property
    def reads(self) -> Reads | None:
        """What the selectors read of a device; None if it isn't known, or one doesn't compile."""
        return together([selector.reads for selector in self._selectors]) if self.fault is None else None

    def split(self) -> tuple[SelectorList, SelectorList]:
        """The leading selectors that read nothing of a device but its driver, and the others: at least one, if any."""
        ends = (n for n, selector in enumerate(self._selectors[:-1]) if not _reads_driver_only(selector.reads))
        end = next(ends, max(len(self) - 1, 0))
        leading, others = SelectorList(()), SelectorList(())
        leading._selectors, others._selectors = self._selectors[:end], self._selectors[end:]
        return leading, others

    def first_mismatch(self, given: DeviceInput | str, work: Work | None = None) -> Outcome:
        """The outcome for one device, ``given`` as :func:`readable` says. Raises MatchingStopped, Stopped."""
        if isinstance(given, str):
            return Mismatch(0, given) if self._selectors else self.fault
        if work is not None and work.left is None and work.interrupt is None:
            work = None
        for position, selector in enumerate(self._selectors):
            _spend(work, 0 if position else _PER_EVALUATION)
            try:
                if not selector.matches(given, work):
                    return Mismatch(position)
            except Interrupted:
                raise MatchingStopped(position) from None
            except EvaluationError as error:
                return Mismatch(position, error.message, undecided=isinstance(error, BudgetExceeded))
        return self.fault


def _reads_driver_only(reads: Reads | None) -> bool:
    return reads is not None and not (reads.attributes or reads.capacity or reads.allow_multiple_allocations)


class Matcher(SharedAnswers[D, Outcome]):
    """The outcomes of one list of selectors. ``given``: a device as :func:`readable` says."""

    def __init__(
        self,
        selectors: SelectorList,
        keys: Callable[[Sequence[D]], Iterable[Hashable | None]] | None,
        given: Callable[[D], DeviceInput | str],
    ) -> None:
        super().__init__(keys, lambda device, work: selectors.first_mismatch(given(device), work))


def _spend(work: Work | None, microseconds: float) -> None:
    """Charge work, and poll its interrupt. Raises Interrupted."""
    if work is not None and (work.spent(microseconds) or (work.interrupt is not None and work.interrupt())):
        raise Stopped
