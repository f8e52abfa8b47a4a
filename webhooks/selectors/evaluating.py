"""Evaluation of selectors: the answers to a question, slice by slice. It may take long, so a server runs it in the
worker's children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from virt_dra.cel import (
    BudgetExceeded,
    CompiledSelector,
    CompileError,
    EvaluationError,
    Interrupted,
    Work,
    compile_selector,
    convertible,
)
from virt_dra.cel.reads import Reads, together
from webhooks.selectors.answers import (
    MAX_SELECTORS,
    AnswerCache,
    SelectorDepths,
    SelectorQuestion,
    SliceAnswer,
    SliceFault,
    digest,
)
from webhooks.selectors.published_slice import PublishedSlice
from webhooks.selectors.slice_device import SliceDevice, seen_by

_PER_COMPILED_CHARACTER = 5
"""Microseconds (measured)."""
_PER_COMPARISON = 2
"""Microseconds (measured) of checking whether a device equals an evaluated one in everything that the selectors
read."""
_PER_DEVICE = 1.0
"""Microseconds (measured) per device, besides the work that its selectors are charged."""
_KEPT = 4_096
"""Different devices whose answers are remembered during one question of the kind ``each``."""

TOO_MUCH_WORK = "evaluating them is more work than one review may cause"


@dataclass(frozen=True)
class SelectorFault:
    """An error of the selector at position ``selector``. ``device``: on which its evaluation failed; None if it doesn't
    compile."""

    selector: int
    message: str
    device: SliceDevice | None = None


class InProcess:
    """Evaluates immediately, in this process: for the lint of files, which keeps only its own user waiting.

    ``work``: the budget for evaluating selectors; None for no limit.
    """

    def __init__(self, work: Work | None = None) -> None:
        self.work = work or Work()

    def refuses(self, expressions: Sequence[str]) -> str:
        return TOO_MUCH_WORK if self.work.left is not None and self.work.left < 0 else ""

    def find(self, question: SelectorQuestion, answers: AnswerCache) -> str:
        key = digest(question.expressions)
        try:
            for position, answer in evaluate(question, self.work):
                if isinstance(answer, SliceFault):
                    answers.put_fault(question.kind, key, answer)
                    return ""
                answers.put(question.kind, key, question.slices[position], answer)
            answers.put_valid(question.kind, key)
        except Interrupted:
            return TOO_MUCH_WORK
        return ""


def evaluate(question: SelectorQuestion, work: Work) -> Iterator[tuple[int, SliceAnswer | SliceFault]]:
    """The answers as they are found: the position of the slice in the question with its answer, or 0 with the error of
    a selector.

    For ``any`` a driver's slices are evaluated until a device matches; its further slices get no answer. Of devices
    that are equal in everything that the selectors read only one is evaluated. Raises Interrupted if the budget of work
    doesn't suffice.
    """
    selectors = compiled(question.expressions, work)
    if isinstance(selectors, SliceFault):
        yield 0, selectors
    elif question.kind == "each":
        depths = _Depths(selectors, work)
        for position, slice_ in enumerate(question.slices):
            yield position, depths.of(slice_)
    else:
        yield from _any(question.slices, selectors, work)


def compiled(expressions: Sequence[str], work: Work) -> list[CompiledSelector] | SliceFault:
    """The compiled selectors, or the error of the first that doesn't compile. Raises Interrupted if the budget doesn't
    suffice."""
    if len(expressions) > MAX_SELECTORS:
        return SliceFault(MAX_SELECTORS, f"a request and its class may have {MAX_SELECTORS} selectors together")
    selectors: list[CompiledSelector] = []
    for position, text in enumerate(expressions):
        if work.spent(_PER_COMPILED_CHARACTER * len(text)):
            raise Interrupted
        try:
            selectors.append(compile_selector(text))
        except CompileError as error:
            return SliceFault.of(position, error.message)
    return selectors


class _Depths:
    """Finds the answers of slices: how many selectors match each device before the first that doesn't.

    Of devices of one driver that are equal in what the selectors read only the first is evaluated. Many slices share
    devices that are equal in everything (`virt_dra.api.reading.interning`): those are recognized by their identity.
    """

    def __init__(self, selectors: Sequence[CompiledSelector], work: Work) -> None:
        self._selectors = selectors
        self._work = work
        self._reads = together([selector.reads for selector in selectors])
        self._known: dict[tuple[object, ...], int | SelectorFault] = {}
        self._of_shared: dict[tuple[str, int], int | SelectorFault] = {}

    def of(self, slice_: PublishedSlice) -> SelectorDepths:
        """The answer for a slice. Raises Interrupted if the budget doesn't suffice."""
        depths = bytearray()
        fault: SliceFault | None = None
        for number, published in enumerate(slice_.devices):
            answer = self._answer(published)
            if isinstance(answer, SelectorFault):
                fault = fault or SliceFault.of(answer.selector, answer.message, number)
                answer = answer.selector
            depths.append(answer)
        return SelectorDepths(bytes(depths), fault)

    def _answer(self, published: SliceDevice) -> int | SelectorFault:
        key = published.driver, id(published.device)
        answer = self._of_shared.get(key)
        if answer is None:
            answer = self._of_equal(published)
            if len(self._of_shared) < _KEPT:
                self._of_shared[key] = answer
        elif self._work.spent(_PER_DEVICE):
            raise Interrupted
        return answer

    def _of_equal(self, published: SliceDevice) -> int | SelectorFault:
        # On a device with an attribute that can't be converted every selector fails, whatever it reads.
        if self._reads is None or not all(map(convertible, published.device.attributes.values())):
            return first_mismatch(published, self._selectors, self._work)
        if self._work.spent(_PER_COMPARISON):
            raise Interrupted
        seen = (published.driver, *seen_by(self._reads, published))
        answer = self._known.get(seen)
        if answer is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            answer = self._known[seen] = first_mismatch(published, self._selectors, self._work)
        return answer


def _any(
    slices: Sequence[PublishedSlice], selectors: Sequence[CompiledSelector], work: Work
) -> Iterator[tuple[int, bool]]:
    """For each slice whether a device matches. Raises Interrupted if the budget doesn't suffice."""
    reads = together([selector.reads for selector in selectors])
    for _, of_driver in groupby(enumerate(slices), key=lambda each: each[1].pool[0]):
        tried: set[object] = set()
        for position, slice_ in of_driver:
            found = _any_of(slice_, selectors, work, reads, tried)
            yield position, found
            if found:
                break


def _any_of(
    slice_: PublishedSlice, selectors: Sequence[CompiledSelector], work: Work, reads: Reads | None, tried: set[object]
) -> bool:
    for published in slice_.devices:
        if id(published.device) in tried:
            continue
        tried.add(id(published.device))
        if reads is not None:
            if work.spent(_PER_COMPARISON):
                raise Interrupted
            seen = seen_by(reads, published)
            if seen in tried:
                continue
            if not isinstance(
                published.input, str
            ):  # on a device that can't be converted every selector fails, whatever it reads
                tried.add(seen)
        if first_mismatch(published, selectors, work) == len(selectors):
            return True
    return False


def first_mismatch(device: SliceDevice, selectors: Sequence[CompiledSelector], work: Work) -> int | SelectorFault:
    """The position of the first selector that doesn't match a device, or their number if all match; a fault if one
    fails.

    Raises Interrupted if the budget of work doesn't suffice, or a selector exceeds the limits of one evaluation.
    """
    if not selectors:
        return 0
    given = device.input
    if isinstance(given, str):
        return SelectorFault(0, given, device)
    if work.spent(_PER_DEVICE):
        raise Interrupted
    watcher = None if work.left is None and work.interrupt is None else work
    for position, selector in enumerate(selectors):
        try:
            if not selector.matches(given, watcher):
                return position
        except Interrupted:
            raise
        except BudgetExceeded:  # our own limit, not Kubernetes': its result is unknown
            raise Interrupted from None
        except EvaluationError as error:
            return SelectorFault(position, error.message, device)
    return len(selectors)
