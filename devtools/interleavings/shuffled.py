"""An event loop with virtual time that runs what is ready in random order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import count
from random import Random
from typing import Any, TypeVar

from virt_dra.simulator.virtual_time import VirtualLoop

T = TypeVar("T")


class NumberedTask(asyncio.Task[Any]):
    """A task whose hash is a number, so that sets of tasks, which asyncio has inside, are in the same order in every
    run."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class ShuffledLoop(VirtualLoop):
    def __init__(self, chance: Random) -> None:
        self._chance = chance
        super().__init__()
        numbers = count(1)
        self.set_task_factory(
            lambda loop, coro, **options: NumberedTask(coro, number=next(numbers), loop=loop, **options)
        )

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
