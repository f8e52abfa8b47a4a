"""The order in which handshakes are begun when there are more than the server has time for. Pure: the clock comes in.

A handshake costs a server a millisecond and whoever asks for it nothing, so that only so many a second are begun. Addresses take turns, and
of one address the newest is begun first: under a flood the oldest is about to be evicted, or its client has given up.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """``per_second`` handshakes, after a pause up to ``burst`` at once."""

    def __init__(self, per_second: float, burst: int, now: float) -> None:
        self._rate, self._burst = per_second, burst
        self._tokens, self._at = float(burst), now
        self._waiting: dict[str, dict[T, None]] = {}
        self._order: deque[str] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, group: str, item: T) -> None:
        if group not in self._waiting:
            self._waiting[group] = {}
            self._order.append(group)
        self._waiting[group][item] = None

    def remove(self, group: str, item: T) -> None:
        """Nothing where it isn't waiting."""
        if group in self._waiting:
            self._waiting[group].pop(item, None)

    def next(self, now: float) -> T | None:
        """What is to be begun now; None where nothing waits, or it must wait for :meth:`pause`."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        while self._order and self._tokens >= 1:
            group = self._order.popleft()
            waiting = self._waiting[group]
            if not waiting:
                del self._waiting[group]
                continue
            item, _ = waiting.popitem()
            if waiting:
                self._order.append(group)
            else:
                del self._waiting[group]
            self._tokens -= 1
            return item
        return None

    @property
    def pause(self) -> float:
        """Seconds until the next may be begun."""
        return max(0.0, (1 - self._tokens) / self._rate)
