"""The condition of a DeviceTaintRule (C-11.8, C-11.9)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.controllers.loops.taint_eviction.objects import rule
from virt_dra.api.meta import Condition
from virt_dra.controllers.loops.taint_eviction.rule_status import (
    PendingPods,
    RuleCounts,
    changed_condition,
    not_before,
    with_condition,
)
from virt_dra.simulator.virtual_time import BEGINNING

NO_UPDATE = "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
SEVERAL, ONE = PendingPods(3, 2), PendingPods(1, 1)


@pytest.mark.parametrize(
    ("effect", "counts", "expected"),
    [
        ("NoExecute", RuleCounts(ONE), ("True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")),
        (
            "NoExecute",
            RuleCounts(SEVERAL),
            ("True", "PodsPendingEviction", "3 pods need to be evicted in 2 different namespaces."),
        ),
        (
            "NoExecute",
            RuleCounts(SEVERAL, 1),
            (
                "True",
                "PodsPendingEviction",
                "3 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller.",
            ),
        ),
        ("NoExecute", RuleCounts(evicted=2), ("False", "Completed", "2 pods evicted since starting the controller.")),
        ("NoExecute", RuleCounts(), ("False", "NotStarted", "")),
        (
            "None",
            RuleCounts(ONE, 0, 1, 1),
            (
                "False",
                "NoEffect",
                "1 published device selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace "
                f"if the effect was NoExecute. {NO_UPDATE}",
            ),
        ),
        (
            "None",
            RuleCounts(PendingPods(), 1, 0, 2),
            (
                "False",
                "NoEffect",
                "0 published devices selected. 2 allocated devices selected. 0 pods "
                "would be evicted in 0 different namespaces "
                f"if the effect was NoExecute. {NO_UPDATE} 1 pod evicted since starting the controller.",
            ),
        ),
        ("NoSchedule", RuleCounts(), ("False", "OtherEffect", "Eviction only happens for the NoExecute effect.")),
        (
            "NoSchedule",
            RuleCounts(evicted=1),
            (
                "False",
                "OtherEffect",
                "Eviction only happens for the NoExecute effect. 1 pod evicted since starting the controller.",
            ),
        ),
    ],
)
def test_the_condition_says_what_the_rule_does(effect: str, counts: RuleCounts, expected: tuple[str, str, str]) -> None:
    """C-11.8, C-11.9."""
    condition = changed_condition(rule(effect=effect), counts, BEGINNING)
    assert condition is not None
    assert (condition.type, condition.status, condition.reason, condition.message) == ("EvictionInProgress", *expected)


def test_nothing_is_written_that_is_there_and_any_change_moves_the_time() -> None:
    """C-11.9: one of the message alone too; conditions of others stay."""
    it = rule()
    first = changed_condition(it, RuleCounts(SEVERAL), BEGINNING)
    assert first is not None
    other = Condition(type="Seen", status="True")
    stored = it.with_(status=it.status.with_(conditions=(other, first)))
    later = BEGINNING + timedelta(minutes=5)
    assert changed_condition(stored, RuleCounts(SEVERAL), later) is None
    second = changed_condition(stored, RuleCounts(ONE), later)
    assert second is not None
    assert (first.last_transition_time, second.last_transition_time) == ("2026-11-22T12:00:00Z", "2026-11-22T12:05:00Z")
    assert with_condition(stored, second) == (other, second)


def test_a_condition_of_this_generation_stays_for_ten_seconds() -> None:
    """C-11.8: one of an older generation changes at once."""
    fresh = rule().with_(metadata=rule().metadata.with_(generation=2))
    condition = changed_condition(fresh, RuleCounts(), BEGINNING)
    assert condition is not None
    assert condition.observed_generation == 2
    written = fresh.with_(status=fresh.status.with_(conditions=(condition,)))
    assert not_before(fresh, BEGINNING) == 0
    assert not_before(written, BEGINNING + timedelta(seconds=4)) == 6
    assert not_before(written, BEGINNING + timedelta(seconds=11)) == 0
    assert not_before(written.with_(metadata=written.metadata.with_(generation=3)), BEGINNING) == 0
