"""Random histories of claims with faults at every write keep the driver's promises (``python -m devtools.node`` plays
more)."""

from __future__ import annotations

import pytest

from devtools.node.histories import broken

HISTORIES = 60


@pytest.mark.slow(3)
@pytest.mark.parametrize("part", range(5))
def test_no_device_is_given_twice_left_bound_or_found_dirty_whatever_happens(part: int) -> None:
    assert broken(range(part * HISTORIES, (part + 1) * HISTORIES)) == ""
