"""Python's garbage collector during large computations."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_OBJECTS = 20_000
"""Allocations between two collections: some megabytes of results."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """A context in which existing objects are exempt from garbage collection and collections are rare: traversing a
    cluster's objects again took four times as long as the allocation itself at 5,000 nodes."""
    frozen = gc.get_freeze_count()
    gc.collect()
    gc.freeze()
    thresholds = gc.get_threshold()
    gc.set_threshold(_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if not frozen:
            gc.unfreeze()


@contextmanager
def frozen_heap() -> Iterator[None]:
    """A context without garbage collection, for a command whose objects live as long as its process: they are frozen,
    so that neither later collections nor the end of the process traverse them (half a second for 40,000 devices)."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
