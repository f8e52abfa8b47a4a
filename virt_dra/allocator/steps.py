"""The search's moves: enter the next slot, or report how it went."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Outcome(Enum):
    FOUND = "found"
    NO = "no"
    TOO_MANY = "too many devices"


class Enter(NamedTuple):
    """The next thing to fill: slot ``slot`` of an alternative of an entry (all claims' requests in order), with devices from ``start``."""

    entry: int
    alternative: int = -1  # not chosen yet
    slot: int = 0
    start: int = 0


Step = Enter | Outcome
