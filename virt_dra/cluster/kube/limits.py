"""The limits of our requests to an API server, and a token bucket. No clock, no sleeping."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClientLimits:
    """The limits of one process's requests to an API server. Times in seconds."""

    qps: float = 50.0
    """Requests a second in the long run; 0 for any number."""
    burst: int = 100
    """Requests that may be made at once."""
    timeout: float = 30.0
    """For one attempt, from the first byte sent to the last byte received."""
    connect_timeout: float = 10.0
    patience: float = 60.0
    """For all attempts of one request, the waiting between them included."""
    attempts: int = 6
    silence: float = 150.0
    """A watch without events for so long is restarted. (API servers send a bookmark about every minute.)"""
    watch_seconds: float = 400.0
    """How long a watch is asked to last; up to twice that, at random, so that not all end together."""
    page: int = 500
    """Objects of one page of a list, at most."""
    page_bytes: int = 2 * 2**20
    """Bytes that a page should have: fewer objects are requested where they are large. Reading stops at four times as
    many."""


class TokenBucket:
    """``burst`` tokens, refilled at ``rate`` a second. A taker may have to wait, in order of arrival."""

    def __init__(self, rate: float, burst: int) -> None:
        """``rate`` 0: no limit."""
        self._rate = rate
        self._burst = max(float(burst), 1.0)
        self._tokens = self._burst
        self._at: float | None = None

    def take(self, now: float) -> float:
        """Takes one token at a time ``now`` (of a clock that never goes back). Gives the seconds until the taker may go
        on."""
        if self._rate <= 0:
            return 0.0
        if self._at is not None:
            self._tokens = min(self._tokens + max(now - self._at, 0.0) * self._rate, self._burst)
        self._at = now
        self._tokens -= 1.0
        return max(-self._tokens / self._rate, 0.0)
