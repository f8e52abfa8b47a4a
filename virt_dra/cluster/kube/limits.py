"""The limits of our requests to an API server, and a token bucket. No clock, no sleeping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MIB: Final = 2**20
READING_VARIABLE: Final = "VIRT_DRA_LIVE_MIB"
"""The environment variable with the memory that a command may take while it reads a cluster."""
_READING_MIB: Final = 1024


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
    page_bytes: int = 2 * MIB
    """Bytes that a page should have: fewer large objects are requested. Reading stops at four times as many."""
    answer_bytes: int = 32 * MIB
    """Bytes of one answer or event, decompressed, that are read at most. An object has at most 3 MiB in a request."""
    answer_containers: int = 256 * 1024
    """JSON objects and lists in one answer or event: each takes up to 1 KiB of memory, and ``{}`` two bytes of JSON."""
    list_pages: int = 4_000
    """Pages of one list: 2,000,000 objects."""
    list_bytes: int = 2048 * MIB
    """Bytes of all pages of one list."""
    list_seconds: float = 600.0
    """Seconds for all pages of one list. An API server's state of a list is compacted after some five minutes."""
    memory: int = 0
    """Bytes of memory by which the process may grow while answers are read; 0: any number."""


def reading_limits(environ: Mapping[str, str]) -> ClientLimits:
    """Of a command that reads a cluster once. Raises ValueError for a :data:`READING_VARIABLE` that is no number."""
    given = environ.get(READING_VARIABLE, "")
    if given and not (given.isascii() and given.isdigit() and len(given) < 10):
        raise ValueError(f"{READING_VARIABLE}: must be a number of MiB, such as {2 * _READING_MIB}: {given[:40]!r}")
    return ClientLimits(memory=int(given or _READING_MIB) * MIB)


class TokenBucket:
    """``burst`` tokens, refilled at ``rate`` a second. A taker may have to wait, in order of arrival."""

    def __init__(self, rate: float, burst: int) -> None:
        """``rate`` 0: no limit."""
        self._rate = rate
        self._burst = max(float(burst), 1.0)
        self._tokens = self._burst
        self._at: float | None = None

    def take(self, now: float) -> float:
        """Takes one token at ``now`` (of a clock that never goes back): the seconds until the taker may go on."""
        if self._rate <= 0:
            return 0.0
        if self._at is not None:
            self._tokens = min(self._tokens + max(now - self._at, 0.0) * self._rate, self._burst)
        self._at = now
        self._tokens -= 1.0
        return max(-self._tokens / self._rate, 0.0)
