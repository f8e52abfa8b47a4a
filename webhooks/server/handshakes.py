"""Rate limit of TLS handshakes: a token bucket, and a queue that is fair between addresses. Pure: the clock is passed
in.

A handshake costs the server a millisecond of CPU and its client next to nothing, so only so many are begun a second.
Addresses take turns, and of one address the newest is begun first: under a flood the oldest is about to be evicted, or
its client has given up.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class HandshakeQueue(Generic[T]):
    """The waiting handshakes: ``per_second`` may begin, and after a pause up to ``burst`` at once."""

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
        """Take a handshake out of the queue, if it is in it."""
        if group in self._waiting:
            self._waiting[group].pop(item, None)

    def next(self, now: float) -> T | None:
        """The handshake to begin now; None where none waits, or the next must wait for :attr:`pause`."""
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
