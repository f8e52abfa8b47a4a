"""The garbage collector and large inputs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def left_alone() -> Iterator[None]:
    """What exists now is not looked at by the collector until the end.

    A cluster's objects stay as long as the command runs. The collector would go through all of them again and again while the work
    makes objects of its own: at 5,000 nodes that took four times as long as the work.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
