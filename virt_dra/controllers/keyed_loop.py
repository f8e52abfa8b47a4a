"""The frame of a controller that runs as a process: informers, a queue of keys, workers, readiness and shutdown."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Protocol

from virt_dra.cluster.watching.backoff import backoff
from virt_dra.cluster.watching.event_recorder import EventRecorder
from virt_dra.cluster.watching.informer import Informer, InformerObserver
from virt_dra.cluster.watching.work_queue import QueueObserver, WorkQueue
from virt_dra.controllers.devices.options import CountFrom, as_stated
from virt_dra.controllers.events import Event

log = logging.getLogger(__name__)

Result = Literal["unchanged", "written", "outdated", "refused", "gone"]

_STALE_SECONDS: Final = (0.05, 5.0)
"""First and longest delay after a plan made from stale objects, whose update requeues the key sooner."""
_REFUSED_SECONDS: Final = (1.0, 300.0)
"""First and longest delay after a refused write: permissions may be granted, or still be loaded by the API server."""
_UNSYNCED_SECONDS: Final = (3.0, 60.0)
"""The time until the kinds that haven't been listed yet are first logged, and the interval afterwards."""


class KeyedLoopObserver(InformerObserver, QueueObserver, Protocol):
    """The metrics of the loop. Must not raise."""

    def reconciled(self, result: str, seconds: float) -> None:
        """A key was reconciled."""


@dataclass(frozen=True)
class Ambient:
    """Time and randomness. ``now``: the API server's time; ``monotonic``: seconds; ``chance``: uniform in [0, 1), for
    jitter; ``suffix``: a new suffix of an Event's name; ``count_from``: see `devices.options.CountFrom`."""

    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    chance: Callable[[], float]
    suffix: Callable[[], str]
    count_from: CountFrom = as_stated


class KeyedLoop(ABC):
    """A controller that reconciles keys. `run_informers` and `run_workers` run side by side; the workers may be
    cancelled and restarted as a Lease is lost and acquired."""

    def __init__(self, ambient: Ambient, observer: KeyedLoopObserver, events: EventRecorder, workers: int) -> None:
        self._ambient, self._events, self._worker_count = ambient, events, workers
        self._queue_observer = observer
        self._informers: tuple[Informer[Any], ...] = ()
        self._queue: WorkQueue[str] | None = None
        self._in_progress: dict[str, float] = {}
        self._retries: dict[str, int] = {}
        """The number of consecutive reconciles of a key whose plan was stale or refused, for the back-off."""
        self.stopping = False
        self._ended = asyncio.Event()

    @abstractmethod
    def _all_keys(self) -> Iterable[str]:
        """The keys to reconcile at the start."""

    @abstractmethod
    async def _reconcile(self, key: str) -> tuple[Result, float | None]:
        """Reconciles one key. Returns the result, and the seconds after which to requeue the key, or None."""

    def _beside_workers(self) -> Iterable[Coroutine[Any, Any, None]]:
        """The coroutines that run for as long as the workers do, and are cancelled with them."""
        return ()

    # --- running ---

    async def run_informers(self) -> None:
        """Keep the stores up to date until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run(), name=f"informer {informer.kind.KIND}")
            group.create_task(self._log_unsynced(), name="unsynced kinds")

    async def _log_unsynced(self) -> None:
        pause, interval = _UNSYNCED_SECONDS
        while True:
            await asyncio.sleep(pause)
            missing = self.unsynced()
            if not missing:
                return
            served = not any(informer.not_served for informer in self._informers if not informer.has_synced)
            # Listing a large cluster takes a while, which is no error.
            log.log(logging.INFO if served else logging.ERROR, "not ready yet: waiting for %s", "; ".join(missing))
            pause = interval

    async def run_workers(self) -> None:
        """Once all stores are synced, reconcile every key, then each that a watch event affects; until cancelled or
        stopped. An error outside of reconciles is raised in an ExceptionGroup."""
        for informer in self._informers:
            await informer.synced()
        queue = self._queue = WorkQueue[str](observer=self._queue_observer, chance=self._ambient.chance)
        self._ended.clear()
        self._enqueue_all()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._events.run(), name="events")
                beside = [group.create_task(coroutine) for coroutine in self._beside_workers()]
                await queue.run(self._process, workers=self._worker_count)
                for task in beside:
                    task.cancel()
                self._events.close()
        finally:
            self._queue = None
            self._ended.set()

    async def until_idle(self) -> None:
        """Return when every kind has been listed and the queue is empty, as it always is where another replica
        leads."""
        for informer in self._informers:
            await informer.synced()
        await asyncio.sleep(0)  # lets the workers start
        if self._queue is not None:
            await self._queue.idle()

    async def stop(self) -> None:
        """Start no further reconcile, and return when those in progress are done and their Events are written."""
        self.stopping = True
        if self._queue is not None:
            self._queue.close()
            await self._ended.wait()

    # --- readiness, liveness, metrics ---

    def unsynced(self) -> tuple[str, ...]:
        """The kinds that haven't been listed yet, each with its remedy if the cluster doesn't serve it."""
        return tuple(_described(informer) for informer in self._informers if not informer.has_synced)

    def oldest_reconcile_age(self) -> float:
        """Seconds since the oldest reconcile that is still running began."""
        began = min(self._in_progress.values(), default=None)
        return 0.0 if began is None else self._ambient.monotonic() - began

    def informer_ages(self) -> dict[str, float]:
        return {informer.kind.KIND: informer.age for informer in self._informers}

    # --- reconciling ---

    def _enqueue_all(self) -> None:
        for key in self._all_keys():
            self._requeue(key, 0.0)

    def _requeue(self, key: str, seconds: float) -> None:
        if self._queue is None:
            return
        if seconds > 0:
            self._queue.add_after(key, seconds)
        else:
            self._queue.add(key)

    async def _process(self, key: str) -> float | None:
        began = self._in_progress[key] = self._ambient.monotonic()
        try:
            result, requeue_after = await self._reconcile(key)
        finally:
            del self._in_progress[key]
        seconds = self._ambient.monotonic() - began
        self._queue_observer.reconciled(result, seconds)
        log.debug("reconciled", extra={"fields": {"vmi": key, "result": result, "seconds": round(seconds, 4)}})
        return requeue_after

    def _retry_after(self, key: str, *, refused: bool) -> float:
        """Seconds until a stale or refused plan is made again; ``_retries`` has counted this reconcile."""
        first, longest = _REFUSED_SECONDS if refused else _STALE_SECONDS
        return backoff(self._retries[key], self._ambient.chance(), first=first, longest=longest)

    def _emit(self, events: Iterable[Event]) -> None:
        for event in events:
            self._events.record(event.regarding, event.type, event.reason, event.message)


def _described(informer: Informer[Any]) -> str:
    """The kind of an informer that hasn't been listed, with the remedy if the cluster doesn't serve it."""
    kind: str = informer.kind.KIND
    group_version: str = informer.kind.API_VERSION
    if not informer.not_served:
        return kind
    ours = group_version.startswith(("virt-dra.io/", "kubevirt.io/"))
    advice = (
        "virt-dra install applies its CustomResourceDefinition" if ours else "is the cluster's version at least 1.34?"
    )
    return f"{kind} ({group_version}), which the cluster doesn't serve: {advice}"
