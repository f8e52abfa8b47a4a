"""The texts of PodScheduled (C-5, C-19), whole."""

from __future__ import annotations

import pytest

from virt_dra.scheduling.framework.messages import Diagnosis, event_note, not_preempting
from virt_dra.scheduling.framework.refusals import FilterRefusal

DEVICES = FilterRefusal("DynamicResources", ("cannot allocate all claims",))
TAINT = FilterRefusal("TaintToleration", ("node(s) had untolerated taint(s)",))
FULL = FilterRefusal("NodeResourcesFit", ("Insufficient cpu", "Too many pods"), resolvable=True)


def test_reasons_are_counted_and_sorted_as_text() -> None:
    refusals = {f"n{number}": DEVICES for number in range(10)} | {"t": TAINT, "f": FULL, "g": FULL}
    assert Diagnosis(13, refusals).message == (
        "0/13 nodes are available: 1 node(s) had untolerated taint(s), 10 cannot "
        "allocate all claims, 2 Insufficient cpu, 2 Too many pods."
    )


def test_a_refusal_of_the_pod_stands_for_all_nodes() -> None:
    diagnosis = Diagnosis(
        3, everywhere=FilterRefusal("DynamicResources", ("resource claim lab/c is in the process of being allocated",))
    )
    assert diagnosis.after("preemption: …").message == (
        "0/3 nodes are available: resource claim lab/c is in the process of being allocated. preemption: …"
    )


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (
            None,
            "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
            "2 Preemption is not helpful for scheduling.",
        ),
        ("Never", "preemption: not eligible due to preemptionPolicy=Never."),
    ],
)
def test_preemption_says_why_it_does_nothing(policy: str | None, text: str) -> None:
    assert not_preempting(Diagnosis(3, {"a": FULL, "b": DEVICES, "c": TAINT}), policy) == text


def test_an_event_has_at_most_1024_characters() -> None:
    assert event_note("x" * 1024) == "x" * 1024
    assert event_note("x" * 1025) == "x" * 1020 + " ..."
