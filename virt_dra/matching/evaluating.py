"""Answers to questions about slices. Evaluating may take long, so a server has it done in the worker's children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from virt_dra.cel import Interrupted, Work
from virt_dra.cel.errors import Stopped
from virt_dra.matching.matcher import Matcher, Outcome, SelectorList
from virt_dra.matching.published_slice import SliceDevice
from virt_dra.matching.reading import Reading
from virt_dra.matching.slice_answers import (
    MAX_SELECTORS,
    AnswerCache,
    SelectorDepths,
    SelectorQuestion,
    SliceAnswer,
    SliceFault,
    digest,
)

TOO_MUCH_WORK = "evaluating them is more work than one review may cause"


class ImmediateEvaluator:
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

    For ``any`` a driver's slices are evaluated until a device matches; its further slices get no answer. Raises
    Interrupted if the budget of work doesn't suffice.
    """
    if len(question.expressions) > MAX_SELECTORS:
        yield 0, SliceFault(MAX_SELECTORS, f"a request and its class may have {MAX_SELECTORS} selectors together")
        return
    selectors = SelectorList(question.expressions, work)
    if selectors.fault is not None:
        yield 0, SliceFault.truncated(selectors.fault.selector, selectors.fault.fault or "")
        return
    matcher = slice_matcher(selectors)
    if question.kind == "each":
        for position, slice_ in enumerate(question.slices):
            yield position, _depths(matcher.of(slice_.devices, work), len(selectors))
        return
    for _, of_driver in groupby(enumerate(question.slices), key=lambda numbered: numbered[1].pool[0]):
        for position, slice_ in of_driver:
            matches = None in map(_decided, matcher.of(slice_.devices, work))
            yield position, matches
            if matches:
                break


def slice_matcher(selectors: SelectorList) -> Matcher[SliceDevice]:
    """A matcher of the devices of slices, which must outlive it."""
    keys = None if selectors.reads is None else Reading(selectors.reads).keys
    return Matcher(selectors, keys, attrgetter("input"))


def _depths(outcomes: Iterator[Outcome], count: int) -> SelectorDepths:
    """The answer of a slice. Unlike the allocator, which ends at the first failure, the lint wants to know of every
    device."""
    depths = bytearray()
    fault: SliceFault | None = None
    for device, outcome in enumerate(map(_decided, outcomes)):
        if outcome is not None and outcome.fault is not None and fault is None:
            fault = SliceFault.truncated(outcome.selector, outcome.fault, device)
        depths.append(count if outcome is None else outcome.selector)
    return SelectorDepths(bytes(depths), fault)


def _decided(outcome: Outcome) -> Outcome:
    """The outcome. Raises Interrupted for an evaluation that exceeded a limit of ours, whose result isn't known."""
    if outcome is not None and outcome.undecided:
        raise Stopped
    return outcome
