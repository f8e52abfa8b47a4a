"""A work queue of keys: each key is queued once, processed by one worker at a time, and requeued with back-off after a
failure. After ``k8s.io/client-go/util/workqueue``, whose rules no library for asyncio has."""

from __future__ import annotations

import asyncio
import heapq
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from itertools import count
from typing import Generic, Literal, Protocol, TypeVar

from virt_dra.cluster.port import ApiError
from virt_dra.cluster.watching.backoff import backoff

K = TypeVar("K", bound=Hashable)

WorkResult = Literal["done", "later", "failed"]

log = logging.getLogger(__name__)


class QueueObserver(Protocol):
    """The metrics of a queue. Must not raise."""

    def depth(self, ready: int, delayed: int, in_work: int) -> None:
        """After every change."""

    def started(self, waited: float) -> None:
        """A worker took a key that had been ready for so many seconds."""

    def finished(self, seconds: float, outcome: WorkResult) -> None:
        """A worker finished with a key."""


class NoQueueObserver:
    """Records nothing."""

    def depth(self, ready: int, delayed: int, in_work: int) -> None: ...
    def started(self, waited: float) -> None: ...
    def finished(self, seconds: float, outcome: WorkResult) -> None: ...


class WorkQueue(Generic[K]):
    """Keys in the order of their first addition. For one event loop; every method is called on it.

    * A key that is ready is not added twice. A key that is added while it is in work is processed again afterwards.
    * Processing a delayed key (``add_after``, a failure) cancels the delay. The shorter of two delays counts.
    * Work that raises is retried after 5 ms, 10 ms, … up to ``longest_delay`` seconds; success resets the back-off.
    """

    def __init__(
        self,
        *,
        first_delay: float = 0.005,
        longest_delay: float = 300.0,
        observer: QueueObserver | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._first_delay, self._longest_delay = first_delay, longest_delay
        self._observer: QueueObserver = observer or NoQueueObserver()
        self._chance = chance
        self._ready: deque[K] = deque()
        self._idle_workers: deque[asyncio.Future[None]] = deque()
        self._since: dict[K, float] = {}
        """Queued keys, ready or added while in work -> since when."""
        self._in_work: set[K] = set()
        self._due: dict[K, float] = {}
        self._timers: list[tuple[float, int, K]] = []
        """A heap of delayed keys; entries that differ from ``_due`` are void."""
        self._order = count()
        self._alarm: asyncio.TimerHandle | None = None
        self._failures: dict[K, int] = {}
        self._quiet = asyncio.Event()
        """Set while no key is ready or in work."""
        self._quiet.set()
        self._closed = False

    def __len__(self) -> int:
        """The number of ready keys."""
        return len(self._ready)

    @property
    def delayed(self) -> int:
        """The number of delayed keys."""
        return len(self._due)

    @property
    def in_work(self) -> int:
        return len(self._in_work)

    def failures(self, key: K) -> int:
        """How often in a row the work on a key failed."""
        return self._failures.get(key, 0)

    def add(self, key: K) -> None:
        """Queue a key; ignored after :meth:`close`."""
        if self._closed or key in self._since:
            return
        self._since[key] = self._now()
        if key not in self._in_work:
            self._make_ready(key)
        self._report()

    def add_after(self, key: K, seconds: float) -> None:
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        at = self._now() + seconds
        if at < self._due.get(key, float("inf")):
            self._due[key] = at
            heapq.heappush(self._timers, (at, next(self._order), key))
            self._set_alarm()
            self._report()

    def close(self) -> None:
        """Drop all keys and accept no more; :meth:`run` ends when the keys in work are done."""
        self._closed = True
        self._ready.clear()
        self._since.clear()
        self._due.clear()
        self._timers.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._wake(len(self._idle_workers))
        self._report()

    async def idle(self) -> None:
        """Return when no key is ready or in work; delayed keys may be left."""
        while self._ready or self._in_work:
            await self._quiet.wait()

    async def run(self, work: Callable[[K], Awaitable[float | None]], *, workers: int = 1) -> None:
        """Process keys until :meth:`close` or cancellation. ``work``: the seconds to requeue the key after, or None."""
        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(self._work(work), name=f"worker {number}")

    async def _work(self, work: Callable[[K], Awaitable[float | None]]) -> None:
        while not self._closed:
            if not self._ready:
                await self._wait_for_key()
                continue
            key = self._ready.popleft()
            began = self._now()
            self._observer.started(began - self._since.pop(key))
            self._due.pop(key, None)
            self._in_work.add(key)
            self._report()
            outcome: WorkResult = "failed"
            try:
                again = await work(key)
                outcome = "done" if again is None else "later"
                self._failures.pop(key, None)
                if again is not None:
                    self.add_after(key, again)
            except Exception as error:  # noqa: BLE001 - a bug that one key triggers must not end the work on all others; it is logged
                self._failed(key, error)
            finally:
                self._in_work.discard(key)
                if key in self._since:
                    self._ready.append(key)  # this worker goes on
                self._observer.finished(self._now() - began, outcome)
                self._report()

    def _failed(self, key: K, error: Exception) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = backoff(failures, self._chance(), first=self._first_delay, longest=self._longest_delay)
        fields = {"key": str(key), "failures": failures, "againInSeconds": round(delay, 3)}
        if isinstance(error, ApiError):  # an outage, for which our stack trace is of no use
            log.warning(
                "reconciling %s failed (attempt %d): %s; retrying in %.3f s",
                key,
                failures,
                error,
                delay,
                extra={"fields": fields},
            )
        else:
            log.exception(
                "reconciling %s failed (attempt %d); retrying in %.3f s", key, failures, delay, extra={"fields": fields}
            )
        self.add_after(key, delay)

    def _set_alarm(self) -> None:
        """Set the timer to the next delayed key."""
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][0]:
            heapq.heappop(self._timers)
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._timers:
            self._alarm = asyncio.get_running_loop().call_at(self._timers[0][0], self._ring)

    def _ring(self) -> None:
        self._alarm = None
        now = self._now()
        while self._timers and self._timers[0][0] <= now:
            at, _, key = heapq.heappop(self._timers)
            if self._due.get(key) == at:
                del self._due[key]
                self.add(key)
        self._set_alarm()

    def _make_ready(self, key: K) -> None:
        """Queue a key and wake one worker: of all, the others would find nothing."""
        self._ready.append(key)
        self._wake(1)

    def _wake(self, workers: int) -> None:
        while workers and self._idle_workers:
            worker = self._idle_workers.popleft()
            if not worker.done():  # not cancelled
                worker.set_result(None)
                workers -= 1

    async def _wait_for_key(self) -> None:
        woken = asyncio.get_running_loop().create_future()
        self._idle_workers.append(woken)
        await woken

    def _report(self) -> None:
        """Report the depth, and to :meth:`idle` whether all is done; to be called after every change."""
        self._observer.depth(len(self._ready), len(self._due), len(self._in_work))
        if self._ready or self._in_work:
            self._quiet.clear()
        else:
            self._quiet.set()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
