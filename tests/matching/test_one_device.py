"""What one device is asked: its selectors' answer, the work that takes, and what is not decided."""

from __future__ import annotations

import pytest

from virt_dra.api.resource_v1 import Device
from virt_dra.cel import Interrupted, Work
from virt_dra.matching.evaluating import depths_on, matching_slices
from virt_dra.matching.matcher import MatchingStopped, Mismatch, SelectorList, interruptible
from virt_dra.matching.published_slice import PublishedSlice, SliceDevice
from virt_dra.matching.slice_table import SliceGroups, SliceTable

DEVICE = SliceDevice("d", "p", Device.from_wire({"name": "x", "attributes": {"m": {"string": "A100"}}}), "n", ())
SLICE = PublishedSlice(("d", "p"), 1, "s", (DEVICE,), 0)


def test_searches_without_a_loop_take_from_the_work_what_they_take() -> None:
    selectors = SelectorList(["||".join(f"device.attributes['d'].m.matches('y{i}')" for i in range(200))])
    work = Work(200_000)
    assert selectors.first_mismatch(DEVICE.input, work) == Mismatch(0)
    assert work.left is not None
    assert work.left < 199_700


def test_work_that_is_not_enough_is_no_answer() -> None:
    selectors = SelectorList(["lists.range(9000).all(x, x >= 0) || true"])
    with pytest.raises(Interrupted):
        selectors.first_mismatch(DEVICE.input, Work(50))


@pytest.mark.parametrize("work", [Work(), Work(200_000)])
def test_what_exceeds_a_limit_of_ours_is_not_decided(work: Work) -> None:
    """Kubernetes compiles the pattern and goes on, so to say that the selector fails would be wrong."""
    mismatch = SelectorList([r"'a'.matches(r'\pL{9' + '10}') || true"]).first_mismatch(DEVICE.input, work)
    assert mismatch is not None
    assert mismatch.undecided
    assert mismatch.fault is not None
    selectors = SelectorList([r"'a'.matches(r'\pL{9' + '10}') || true"])
    with pytest.raises(Interrupted):
        list(depths_on(selectors, [SLICE], work))
    with pytest.raises(Interrupted):
        list(matching_slices(selectors, SliceGroups(SliceTable([SLICE])), 1, work))


def test_a_failure_is_a_fault_of_the_selector() -> None:
    selectors = SelectorList(["true", "1 / 0 == 1", "("])
    assert selectors.first_mismatch(DEVICE.input, Work(200_000)) == Mismatch(1, "division by zero")


def test_a_selector_that_does_not_compile_counts_when_it_is_reached() -> None:
    for first, outcome in (("false", Mismatch(0)), ("true", SelectorList(["true", "("]).fault)):
        assert SelectorList([first, "(", "1 / 0 == 1"]).first_mismatch(DEVICE.input) == outcome
    assert outcome is not None
    assert (outcome.selector, outcome.compiles) == (1, False)


def test_an_interrupt_ends_an_evaluation_whose_alternative_is_true() -> None:
    selectors = SelectorList(["true", "lists.range(5000).all(x, x >= 0) && false || true"])
    polls = iter([False] * 5)
    with pytest.raises(MatchingStopped) as stopped:
        selectors.first_mismatch(DEVICE.input, interruptible(lambda: next(polls, True)))
    assert stopped.value.selector == 1
