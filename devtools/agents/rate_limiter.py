"""When a controller of Kubernetes' makes its next attempt: client-go's default rate limiter of work queues.

The longer of two waits: of the key, 5 ms, doubled with every failure in a row, at most 1,000 s; and of all keys
together, 10 a second after a burst of 100. Only failures are limited: a change of the object is worked on at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST: Final = 0.005
LONGEST: Final = 1000.0
PER_SECOND: Final = 10.0
BURST: Final = 100


class RateLimiter(Generic[K]):
    """``now``: seconds of a clock that doesn't go back."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._failures: dict[K, int] = {}
        self._tokens = float(BURST)
        self._at = now()

    def failed(self, key: K) -> float:
        """Seconds until the next attempt."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        now = self._now()
        self._tokens = min(self._tokens + (now - self._at) * PER_SECOND, BURST) - 1
        self._at = now
        return max(min(FIRST * 2.0 ** min(failures, 30), LONGEST), -self._tokens / PER_SECOND)

    def forget(self, key: K) -> None:
        """It succeeded."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """In a row."""
        return self._failures.get(key, 0)
