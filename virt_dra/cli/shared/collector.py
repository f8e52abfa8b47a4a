"""The garbage collector and large inputs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def left_alone() -> Iterator[None]:
    """What exists now is not looked at by the collector until the end, and what comes less often.

    A cluster's objects stay as long as the command runs. The collector would go through all of them again and again while the work
    makes objects of its own: at 5,000 nodes that took four times as long as the work. Results aren't garbage either, and looking for some
    after every 700 objects takes a twentieth of the time.
    """
    gc.collect()
    gc.freeze()
    thresholds = gc.get_threshold()
    gc.set_threshold(_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


_OBJECTS = 20_000
"""Some megabytes of results."""
