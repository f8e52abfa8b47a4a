"""Limits of failed attempts to sign in: by address, and of all addresses together. Pure: the clock is passed in.

Each attempt costs the API server a review. An attempt is taken before its outcome is known, so that many at once count,
and given back if the token was good: who has one is never limited by it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

_REMEMBERED: Final = 4096
"""Addresses that are remembered; the one that tried longest ago is forgotten first."""


@dataclass(frozen=True)
class AttemptLimits:
    """Failed attempts at once, and how many seconds it takes until one more is allowed."""

    per_address: int = 10
    address_seconds: float = 6.0
    overall: int = 100
    overall_seconds: float = 0.2


@dataclass
class _Bucket:
    left: float
    at: float

    def filled(self, most: int, seconds: float, now: float) -> float:
        self.left = min(float(most), self.left + max(now - self.at, 0.0) / seconds)
        self.at = now
        return self.left


class Attempts:
    """The attempts that are left."""

    def __init__(self, limits: AttemptLimits | None = None) -> None:
        self._limits = limits or AttemptLimits()
        self._addresses: OrderedDict[str, _Bucket] = OrderedDict()
        self._all = _Bucket(float(self._limits.overall), 0.0)

    def take(self, address: str, now: float) -> float:
        """Takes an attempt. Returns 0, or the seconds until the next one is available."""
        limits = self._limits
        own = self._addresses.pop(address, None) or _Bucket(float(limits.per_address), now)
        self._addresses[address] = own
        if len(self._addresses) > _REMEMBERED:
            self._addresses.popitem(last=False)
        of_address = own.filled(limits.per_address, limits.address_seconds, now)
        of_all = self._all.filled(limits.overall, limits.overall_seconds, now)
        if of_address < 1 or of_all < 1:
            return max((1 - of_address) * limits.address_seconds, (1 - of_all) * limits.overall_seconds)
        own.left -= 1
        self._all.left -= 1
        return 0.0

    def give_back(self, address: str) -> None:
        """The attempt was none: its token was good."""
        self._all.left = min(self._all.left + 1, float(self._limits.overall))
        own = self._addresses.get(address)
        if own is not None:
            own.left = min(own.left + 1, float(self._limits.per_address))
