"""A thread that decides reviews one at a time, fair between callers and namespaces.

Large reviews take tens of milliseconds each. In a single queue one client with many would delay all others; so of the
waiting reviews the one whose asker has used the thread least is next, and an asker with many waiting reviews gets no
more in. All methods are called on the event loop; only the reviews themselves run in the thread.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

T = TypeVar("T")

MAX_WAITING: Final = 16
"""Limit of one asker's waiting reviews; with more the last would wait longer than a second."""
_LONG_SECONDS: Final = 0.01
_REST_SECONDS: Final = 0.25
"""After a review that took longer than the first, its asker's next one is delayed by the same time, at most by the
second."""
_HALF_LIFE: Final = 10.0
"""Seconds after which used time counts half."""
_REMEMBERED: Final = 4096
"""Askers whose use is remembered."""

Asker = tuple[str, str]
"""The caller's address, or "" for all verified callers together, and the namespace. Both count: an address may name any
namespace."""


class TooManyWaiting(Exception):
    """The asker has as many reviews waiting as it may."""


@dataclass
class _Used:
    """Decayed processor seconds of an asker, and when its next review may run."""

    seconds: float = 0.0
    at: float = 0.0
    rests_until: float = 0.0

    def now(self, moment: float) -> float:
        return float(self.seconds * 0.5 ** ((moment - self.at) / _HALF_LIFE))

    def add(self, seconds: float, moment: float) -> None:
        self.seconds, self.at = self.now(moment) + seconds, moment


@dataclass
class _Job:
    run: Callable[[], Any]
    done: asyncio.Future[Any] = field(repr=False)
    used: float = 0.0
    """Processor seconds that it took."""

    def timed(self) -> Any:
        began = time.thread_time()
        try:
            return self.run()
        finally:
            self.used = time.thread_time() - began


class FairThread:
    """A thread, and the reviews that wait for it."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._waiting: dict[Asker, deque[_Job]] = {}
        self._used: OrderedDict[str | Asker, _Used] = OrderedDict()
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, asker: Asker, function: Callable[..., T], *arguments: Any) -> T:
        """Call the function in the thread, and return its result. Raises :class:`TooManyWaiting`, and what the function
        raises."""
        queue = self._waiting.setdefault(asker, deque())
        if len(queue) >= MAX_WAITING:
            raise TooManyWaiting
        job = _Job(lambda: function(*arguments), asyncio.get_running_loop().create_future())
        queue.append(job)
        self._next()
        try:
            result: T = await job.done
            return result
        finally:
            if job.done.cancelled() and asker in self._waiting and job in self._waiting[asker]:
                self._waiting[asker].remove(job)

    def close(self) -> None:
        """Begin no further review."""
        if self._timer is not None:
            self._timer.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _next(self) -> None:
        """Start the next review if the thread is free, or set a timer for when its asker has rested."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for asker in [asker for asker, queue in self._waiting.items() if not queue]:
            del self._waiting[asker]
        if self._busy or not self._waiting:
            return
        now = time.monotonic()
        ready = [asker for asker in self._waiting if self._of(asker).rests_until <= now]
        if not ready:
            soonest = min(self._of(asker).rests_until for asker in self._waiting)
            self._timer = asyncio.get_running_loop().call_later(soonest - now, self._next)
            return
        asker = min(ready, key=lambda candidate: (self._of(candidate[0]).now(now), self._of(candidate).now(now)))
        job = self._waiting[asker].popleft()
        self._busy = True
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._thread, job.timed)
        running.add_done_callback(lambda ended: self._ended(asker, job, ended))

    def _ended(self, asker: Asker, job: _Job, ended: asyncio.Future[Any]) -> None:
        self._busy = False
        if ended.cancelled():
            job.done.cancel()
            return
        now, error = time.monotonic(), ended.exception()
        for who in (asker[0], asker):
            self._of(who).add(job.used, now)
        if job.used > _LONG_SECONDS:
            self._of(asker).rests_until = now + min(job.used, _REST_SECONDS)
        if not job.done.done():
            if error is not None:
                job.done.set_exception(error)
            else:
                job.done.set_result(ended.result())
        self._next()

    def _of(self, who: str | Asker) -> _Used:
        used = self._used.get(who)
        if used is None:
            used = self._used[who] = _Used(at=time.monotonic())
            if len(self._used) > _REMEMBERED:
                self._used.popitem(last=False)
        self._used.move_to_end(who)
        return used
