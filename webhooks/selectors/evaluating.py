"""Evaluation of selectors: the answers to a question, slice by slice. It may take long, so a server runs it in the worker's children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from virt_dra.cel import CompiledSelector, CompileError, Interrupted, compile_selector
from virt_dra.cel.reads import Reads, together
from webhooks.selectors.answers import MAX_SELECTORS, AnswerCache, SelectorDepths, SelectorQuestion, SliceAnswer, SliceFault, digest
from webhooks.selectors.published_slice import PublishedSlice, SelectorFault, Work, ask
from webhooks.selectors.slice_device import seen_by

_PER_COMPILED_CHARACTER = 5
"""Microseconds (measured)."""
_PER_COMPARISON = 2
"""Microseconds (measured) of checking whether a device equals an evaluated one in everything that the selectors read."""

TOO_MUCH_WORK = "evaluating them is more work than one review may cause"


class InProcess:
    """Evaluates immediately, in this process: for the lint of files, where nobody but its own user waits.

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
                else:
                    answers.put(question.kind, key, question.parts[position], answer)
            answers.put_valid(question.kind, key)
        except Interrupted:
            return TOO_MUCH_WORK
        return ""


def evaluate(question: SelectorQuestion, work: Work) -> Iterator[tuple[int, SliceAnswer | SliceFault]]:
    """The answers as they are found: the position of the slice in the question with its answer, or 0 with the error of a selector.

    For ``any`` a driver's slices are tried until a device matches; its further slices get no answer. Of devices that are equal in all
    that the selectors read only one is evaluated. Raises Interrupted where the budget of work doesn't suffice.
    """
    selectors = compiled(question.expressions, work)
    if isinstance(selectors, SliceFault):
        yield 0, selectors
    elif question.kind == "each":
        for position, part in enumerate(question.parts):
            yield position, _depths(part, selectors, work)
    else:
        yield from _any(question.parts, selectors, work)


def compiled(expressions: Sequence[str], work: Work) -> list[CompiledSelector] | SliceFault:
    """The compiled selectors, or the error of the first that doesn't compile. Raises Interrupted where the budget doesn't suffice."""
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


def _depths(part: PublishedSlice, selectors: Sequence[CompiledSelector], work: Work) -> SelectorDepths:
    """Raises Interrupted where the work is not enough."""
    depths = bytearray()
    fault: SliceFault | None = None
    for number, published in enumerate(part.devices):
        answer = ask(published, selectors, work)
        if isinstance(answer, SelectorFault):
            fault = fault or SliceFault.of(answer.selector, answer.message, number)
            answer = answer.selector
        depths.append(answer)
    return SelectorDepths(bytes(depths), fault)


def _any(parts: Sequence[PublishedSlice], selectors: Sequence[CompiledSelector], work: Work) -> Iterator[tuple[int, bool]]:
    """Raises Interrupted where the work is not enough."""
    reads = together([selector.reads for selector in selectors])
    for _, of_driver in groupby(enumerate(parts), key=lambda each: each[1].pool[0]):
        tried: set[object] = set()
        for position, part in of_driver:
            found = _any_of(part, selectors, work, reads, tried)
            yield position, found
            if found:
                break


def _any_of(part: PublishedSlice, selectors: Sequence[CompiledSelector], work: Work, reads: Reads | None, tried: set[object]) -> bool:
    for published in part.devices:
        if reads is not None:
            if work.spent(_PER_COMPARISON):
                raise Interrupted
            seen = seen_by(reads, published)
            if seen in tried:
                continue
            if not isinstance(published.input, str):  # on a device that can't be converted every selector fails, whatever it reads
                tried.add(seen)
        if ask(published, selectors, work) == len(selectors):
            return True
    return False
