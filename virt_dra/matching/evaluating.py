"""Answers to questions about slices. Evaluating may take long, so a server has it done in the worker's children."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from virt_dra.api.resource_v1 import Device
from virt_dra.cel import Interrupted, Work
from virt_dra.cel.errors import Stopped
from virt_dra.matching.matcher import Matcher, Outcome, SelectorList, readable
from virt_dra.matching.published_slice import PublishedSlice, SliceDevice
from virt_dra.matching.reading import Reading
from virt_dra.matching.slice_answers import (
    MAX_SELECTORS,
    AnswerCache,
    DepthsQuestion,
    DriversQuestion,
    SelectorDepths,
    SelectorQuestion,
    SliceFault,
    SlicesAt,
    digest,
)
from virt_dra.matching.slice_table import SliceGroups, SlicesByPosition, columns_of

TOO_MUCH_WORK = "evaluating them is more work than one review may cause"
_AT_ONCE: Final = 256
"""Groups of slices after which what is known of them is passed on."""


class ImmediateEvaluator:
    """Evaluates immediately, in this process: for the lint of files. ``work``: the budget; None for no limit."""

    def __init__(self, work: Work | None = None) -> None:
        self.work = work or Work()

    def refuses(self, expressions: Sequence[str]) -> str:
        return TOO_MUCH_WORK if self.work.left is not None and self.work.left < 0 else ""

    def visits(self, count: int) -> None:
        """No limit."""

    def find(self, question: SelectorQuestion, answers: AnswerCache, slices: SlicesAt) -> str:
        key = digest(question.expressions)
        try:
            selectors = compiled(question.expressions, self.work)
            if isinstance(selectors, SliceFault):
                answers.put_fault(key, selectors)
                return ""
            if isinstance(question, DepthsQuestion):
                answers.put_depths(key, depths_on(selectors, question.slices, self.work))
            elif isinstance(question, DriversQuestion):
                groups = SliceGroups(SlicesByPosition(slices(question.positions)))
                for answered, matching in matching_slices(selectors, groups, question.positions, self.work):
                    answers.put_matching(key, answered, matching)
            answers.put_valid(key)
        except Interrupted:
            return TOO_MUCH_WORK
        return ""


def compiled(expressions: Sequence[str], work: Work) -> SelectorList | SliceFault:
    """The selectors, or why they can't be evaluated. Raises Interrupted."""
    if len(expressions) > MAX_SELECTORS:
        return SliceFault(MAX_SELECTORS, f"a request and its class may have {MAX_SELECTORS} selectors together")
    selectors = SelectorList(expressions, work)
    fault = selectors.fault
    return selectors if fault is None else SliceFault.truncated(fault.selector, fault.fault or "")


def depths_on(
    selectors: SelectorList, slices: Iterable[PublishedSlice], work: Work
) -> Iterator[tuple[PublishedSlice, SelectorDepths]]:
    """The depths on each slice, as they are found; evaluated once for those that are equal for the selectors. The
    slices must live until the end. Raises Interrupted if the budget of work doesn't suffice."""
    matcher = slice_matcher(selectors)
    names = columns_of(selectors.reads)
    by_key: dict[object, SelectorDepths] = {}
    by_devices: dict[object, SelectorDepths] = {}
    for slice_ in slices:
        same = slice_.pool[0], slice_.device_ids
        depths = by_devices.get(same)
        if depths is None:
            key = slice_ if names is None else (slice_.pool[0], *map(slice_.column, names))
            depths = by_key.get(key)
            if depths is None:
                depths = by_key[key] = _depths(matcher.of(slice_.devices, work), len(selectors))
            by_devices[same] = depths
        yield slice_, depths


def matching_slices(
    selectors: SelectorList, groups: SliceGroups, positions: int, work: Work
) -> Iterator[tuple[int, int]]:
    """Masks of slices that are answered, and of those among them with a device that matches, as they are found. A
    driver's are evaluated until one matches. Raises Interrupted."""
    leading, others = selectors.split()
    matcher = slice_matcher(others)
    answered = evaluated = 0
    try:
        for driver, of_driver in groups.table.drivers(positions).items():
            if _decided(leading.first_mismatch(readable(driver, Device(name="d")), work)) is not None:
                answered |= of_driver
                continue
            for group in groups.of(of_driver, others.reads, work):
                if None in map(_decided, matcher.of(group.first.devices, work)):
                    yield group.positions, group.positions
                    break
                answered |= group.positions
                evaluated += 1
                if evaluated % _AT_ONCE == 0:
                    yield answered, 0
                    answered = 0
    except Interrupted:
        yield answered, 0
        raise
    yield answered, 0


def slice_matcher(selectors: SelectorList) -> Matcher[SliceDevice]:
    """A matcher of the devices of slices, which must outlive it."""
    keys = None if selectors.reads is None else Reading(selectors.reads).keys
    return Matcher(selectors, keys, attrgetter("input"))


def _depths(outcomes: Iterator[Outcome], count: int) -> SelectorDepths:
    """The answer of a slice. Unlike the allocator, the lint wants to know of every device."""
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
