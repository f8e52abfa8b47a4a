"""A clock that follows the API server's time (the header ``Date`` of its answers), as the machine's clock may be wrong.

Durations are measured by the monotonic clock. A timestamp that lies in the future, because clocks differ or one was set
back, counts from the moment it was first seen, so that a wrong clock never prolongs a wait.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

log = logging.getLogger(__name__)

TOLERANCE: Final = timedelta(seconds=3)
"""How much the header may differ without being adopted: it has whole seconds, and an answer takes time to arrive."""
_OBSERVE_EVERY: Final = 1.0
"""The least number of seconds between two headers that are read."""
_REMEMBERED: Final = 4096


class ClusterClock:
    """Calling it returns the API server's time. ``wall``: used until a server has answered; ``elapsed``: monotonic."""

    def __init__(
        self, wall: Callable[[], datetime] = lambda: datetime.now(UTC), elapsed: Callable[[], float] = time.monotonic
    ) -> None:  # fmt: skip
        self._elapsed = elapsed
        self._set(wall())
        self._observed_at = float("-inf")
        self._first_seen: OrderedDict[datetime, float] = OrderedDict()

    def __call__(self) -> datetime:
        return self._base + timedelta(seconds=self._elapsed() - self._base_at)

    def observe(self, date: str | None, took: float = 0.0) -> None:
        """Adopt the header ``Date`` of an answer if it differs by more than the tolerance; a malformed one is ignored.
        ``took``: seconds from the request until the answer was read, in which it may have been queued."""
        at = self._elapsed()
        if date is None or at - self._observed_at < _OBSERVE_EVERY:
            return
        self._observed_at = at
        try:
            said = parsedate_to_datetime(date).astimezone(UTC)
            difference = said - self()
        except (ValueError, OverflowError, IndexError, TypeError):
            return
        if abs(difference) > TOLERANCE + timedelta(seconds=took):
            log.warning(
                "our clock differs from the API server's by %.0f s; its time counts", difference.total_seconds()
            )
            self._set(said)

    def count_from(self, moment: datetime) -> datetime:
        """The time to count from for another clock's timestamp: itself, or, if in the future, when it was first
        seen."""
        now = self()
        if moment not in self._first_seen:
            if moment <= now:
                return moment
            self._first_seen[moment] = self._elapsed()
            if len(self._first_seen) > _REMEMBERED:
                self._first_seen.popitem(last=False)
        self._first_seen.move_to_end(moment)
        return min(now - timedelta(seconds=self._elapsed() - self._first_seen[moment]), moment)

    def _set(self, now: datetime) -> None:
        self._base, self._base_at = now, self._elapsed()
