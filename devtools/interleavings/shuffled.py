"""An event loop with virtual time that runs what is ready in random order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

from virt_dra.simulator.virtual_time import VirtualLoop

T = TypeVar("T")


class ShuffledLoop(VirtualLoop):
    def __init__(self, chance: Random) -> None:
        self._chance = chance
        super().__init__()

    def _run_once(self) -> None:
        ready = self._ready  # type: ignore[attr-defined]  # asyncio has no other way to change the order
        if len(ready) > 1:
            order = list(ready)
            self._chance.shuffle(order)
            ready.clear()
            ready.extend(order)
        super()._run_once()  # type: ignore[misc]  # a private method of asyncio


def run_shuffled(main: Coroutine[Any, Any, T], chance: Random) -> T:
    """As ``run_virtually``, in an order that depends on ``chance`` only."""
    with asyncio.Runner(loop_factory=lambda: ShuffledLoop(chance)) as runner:
        return runner.run(main)
