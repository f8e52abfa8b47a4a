"""What may go wrong at each step of the driver: decided by whoever plays a history."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Fault(Enum):
    NONE = "none"
    REFUSED = "refused"
    """The kernel or the disk refuses; nothing has happened."""
    STUCK = "stuck"
    """The kernel doesn't answer within the limit; it does it later."""
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"


class Crash(BaseException):
    """The driver is killed at this point: no handler of its own runs."""


Faults = Callable[[str], Fault]
"""Asked at each write, with what it is."""


def no_faults(step: str) -> Fault:
    return Fault.NONE
