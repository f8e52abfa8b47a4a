"""Grace periods of pods that only the embedded cluster meets: loaded ones, and absurd ones (C-13.17)."""

from __future__ import annotations

import pytest

from virt_dra.api.core_v1 import Pod
from virt_dra.cluster.memory.pods import deletion

NOW = "2026-01-01T00:00:00Z"


def marked(seconds: int, time: str = "2026-01-01T00:10:00Z") -> Pod:
    meta = {"name": "p", "deletionTimestamp": time, "deletionGracePeriodSeconds": seconds}
    return Pod.from_wire({"metadata": meta, "spec": {"nodeName": "n"}})


@pytest.mark.parametrize("grace", [10**20, -(10**20), 2**62])
def test_grace_periods_of_centuries_are_stored(grace: int) -> None:
    outcome = deletion(Pod.from_wire({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}}), grace, NOW)
    assert outcome.marked is not None
    assert outcome.marked.metadata.deletion_timestamp == (
        "2026-01-01T00:00:01Z" if grace < 0 else "9999-12-31T23:59:59Z"
    )


def test_a_time_that_is_none_stays_as_it_was() -> None:
    outcome = deletion(marked(600, "soon"), 300, NOW)
    assert outcome.marked is not None
    assert outcome.marked.metadata.deletion_timestamp == "soon"


def test_a_grace_period_that_is_over_ends_at_once_but_gracefully() -> None:
    outcome = deletion(marked(900, "2026-01-01T00:00:10Z"), 300, NOW)
    assert outcome.marked is not None
    assert outcome.removed is False
    assert (outcome.marked.metadata.deletion_timestamp, outcome.marked.metadata.deletion_grace_period_seconds) == (
        NOW,
        1,
    )


def test_grace_zero_removes() -> None:
    assert deletion(marked(900), 0, NOW).removed is True
