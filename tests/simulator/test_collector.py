"""Garbage collection around a computation is left as it was found."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from virt_dra.simulator.collector import rare_collections


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_objects_are_frozen_for_as_long_as_it_computes() -> None:
    thresholds = gc.get_threshold()
    with rare_collections():
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold() != thresholds
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, thresholds)


@pytest.mark.usefixtures("nothing_frozen")
def test_what_the_process_froze_before_stays_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with rare_collections():
        pass
    assert gc.get_freeze_count() >= frozen
