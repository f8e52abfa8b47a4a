"""The bounded history of changes of one kind, and the waiting for the next one."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from dataclasses import dataclass

from virt_dra.api.meta import TypedObject
from virt_dra.cluster import refusals
from virt_dra.cluster.memory.selectors import ObjectSelector
from virt_dra.cluster.port import WatchEvent


@dataclass(frozen=True)
class Change:
    """One write: ``before`` is None for a creation, ``after`` is None for a deletion."""

    version: int
    before: TypedObject | None
    after: TypedObject | None

    def seen_by(self, selector: ObjectSelector) -> WatchEvent[TypedObject] | None:
        """The event for a watcher that sees only what it selects: leaving the selection looks like a deletion, entering
        like a creation. A deletion shows the object as it last was, with the deletion's resourceVersion."""
        was = self.before is not None and selector.matches(self.before)
        if self.after is not None and selector.matches(self.after):
            return WatchEvent("MODIFIED" if was else "ADDED", self.after)
        if self.before is not None and was:
            gone = self.before.with_(metadata=self.before.metadata.with_(resource_version=str(self.version)))
            return WatchEvent("DELETED", gone)
        return None


class ChangeHistory:
    """Changes in order, at least the ``limit`` newest. Positions count all changes since the start."""

    def __init__(self, limit: int, floor: int) -> None:
        self._limit = limit
        self._changes: list[Change] = []
        self._dropped = 0
        self._floor = floor
        """Versions up to this one are indistinguishable."""
        self._waiting: dict[asyncio.Future[None], None] = {}

    @property
    def end(self) -> int:
        return self._dropped + len(self._changes)

    def append(self, change: Change) -> None:
        self._changes.append(change)
        if len(self._changes) >= 2 * self._limit:
            self._drop(len(self._changes) - self._limit)
        self._wake()

    def restart(self, version: int) -> None:
        """Forget everything up to ``version``; watchers must list again."""
        self._drop(len(self._changes))
        self._floor = version
        self._dropped += 1  # so that a watcher who has read everything notices, too
        self._wake()

    def position_after(self, version: int) -> int:
        """Where to read on from for everything after ``version``. Raises :class:`Gone`."""
        hidden = max(len(self._changes) - self._limit, 0)
        oldest = self._changes[hidden - 1].version if hidden else self._floor
        if version < oldest:
            raise refusals.too_old(version, oldest)
        return self._dropped + bisect_right(self._changes, version, key=lambda change: change.version)

    async def next(self, position: int) -> Change:
        """The change at a position, waiting for it if need be. Raises :class:`Gone` when the reader fell behind."""
        while position >= self.end:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[future] = None
            try:
                await future
            finally:
                self._waiting.pop(future, None)
        if position < self._dropped:
            raise refusals.too_old(self._floor - 1, self._floor)
        return self._changes[position - self._dropped]

    def _drop(self, count: int) -> None:
        if count:
            self._floor = self._changes[count - 1].version
            del self._changes[:count]
            self._dropped += count

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
