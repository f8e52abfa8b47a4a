"""An event loop with virtual time: when idle, it goes on to the next timer at once. Threads take no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple, Unpack

from virt_dra.cluster.cluster_clock import ClusterClock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BEGINNING = datetime(2026, 11, 22, 12, tzinfo=UTC)


class _Selector(selectors.BaseSelector):
    """Asks another selector; idle time is skipped where ``passed`` returns True."""

    def __init__(self, passed: Callable[[float], bool]) -> None:
        self._inner = selectors.DefaultSelector()
        self._passed = passed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return self._inner.select(timeout)
        events = self._inner.select(0)
        if events:
            return events
        return [] if self._passed(timeout) else self._inner.select(0.01)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.modify(fileobj, events, data)

    def close(self) -> None:
        self._inner.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = 0.0
        self._threads = 0
        super().__init__(_Selector(self._pass))

    def time(self) -> float:
        return self._virtual

    def _pass(self, seconds: float) -> bool:
        """Advances the time, unless work is under way in a thread."""
        if self._threads:
            return False
        self._virtual += seconds
        return True

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._done)
        return future

    def _done(self, future: object) -> None:
        self._threads -= 1

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Waits without asyncio.Runner's deadline (from Python 3.12 on): virtual time would be past it at once."""
        await super().shutdown_default_executor()


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine like ``asyncio.run``, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def virtual_clock() -> ClusterClock:
    """The clock of a cluster whose servers have the time of the running loop."""
    return ClusterClock(virtual_now, asyncio.get_running_loop().time)


def virtual_now() -> datetime:
    """The time of the loop that runs, as a date."""
    return BEGINNING + timedelta(seconds=asyncio.get_running_loop().time())
