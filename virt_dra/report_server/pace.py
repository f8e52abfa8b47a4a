"""The time of the next rendering. Pure: the clock is passed in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SETTLE_SECONDS: Final = 0.2
"""From a change until the next rendering, for those that come with it."""


@dataclass
class Pace:
    """The pace of renderings. ``least``: seconds from the end of a rendering to the next. ``times``: as many times as
    long as the last took, if that is more: so it takes a fifth of a processor at most. ``refresh``: seconds until it is
    rendered anew without a change, since what is waited for may be late by then."""

    least: float = 3.0
    times: float = 4.0
    refresh: float = 300.0
    _changed: float | None = None
    _began: float = 0.0
    _ended: float | None = None
    _took: float = 0.0

    def change(self, now: float) -> None:
        """Something has changed."""
        if self._changed is None:
            self._changed = now

    def begin(self, now: float) -> None:
        """A rendering begins, of all changes until now."""
        self._began, self._changed = now, None

    def end(self, now: float, *, counts: bool = True) -> None:
        """It has ended. ``counts``: whether what it took says how long the next will take."""
        self._ended = now
        if counts:
            self._took = now - self._began

    def due(self) -> float:
        """The time at which the next begins."""
        if self._ended is None:
            return self._changed or 0.0
        if self._changed is None:
            return self._ended + max(self.refresh, self.times * self._took)
        return max(self._changed + SETTLE_SECONDS, self._ended + max(self.least, self.times * self._took))
