"""What one device is asked: its selectors' answer, the work that takes, and what is not decided."""

from __future__ import annotations

import pytest

from virt_dra.api.resource_v1 import Device
from virt_dra.cel import Interrupted, Work, compile_selector
from webhooks.selectors.evaluating import SelectorFault, first_mismatch
from webhooks.selectors.slice_device import SliceDevice

DEVICE = SliceDevice("d", "p", Device.from_wire({"name": "x", "attributes": {"m": {"string": "A100"}}}), "n", ())


def test_searches_without_a_loop_take_from_the_work_what_they_take() -> None:
    selector = compile_selector("||".join(f"device.attributes['d'].m.matches('y{i}')" for i in range(200)))
    work = Work(200_000)
    assert first_mismatch(DEVICE, [selector], work) == 0
    assert work.left is not None
    assert work.left < 199_700


def test_work_that_is_not_enough_is_no_answer() -> None:
    selector = compile_selector("lists.range(9000).all(x, x >= 0) || true")
    with pytest.raises(Interrupted):
        first_mismatch(DEVICE, [selector], Work(50))


@pytest.mark.parametrize("work", [Work(), Work(200_000)])
def test_what_exceeds_a_limit_of_ours_is_not_decided(work: Work) -> None:
    """Kubernetes compiles the pattern and goes on, so to say that the selector fails would be wrong."""
    selector = compile_selector(r"'a'.matches(r'\pL{9' + '10}') || true")
    with pytest.raises(Interrupted):
        first_mismatch(DEVICE, [selector], work)


def test_a_failure_is_a_fault_of_the_selector() -> None:
    selectors = [compile_selector("true"), compile_selector("1 / 0 == 1")]
    assert first_mismatch(DEVICE, selectors, Work(200_000)) == SelectorFault(1, "division by zero", DEVICE)
