"""What may go wrong at each step of the driver, and the process to which it happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(slots=True)
class Process:
    """One instance of the driver. Once it has crashed, none of its tasks gets anything done any more."""

    faults: Faults = no_faults
    crashed: bool = False

    def alive(self) -> None:
        if self.crashed:
            raise Crash

    def before(self, step: str) -> Fault:
        """What happens to a write, unless the process ends here."""
        self.alive()
        fault = self.faults(step)
        if fault is Fault.CRASH_BEFORE:
            self.crashed = True
            raise Crash
        return fault

    def after(self, fault: Fault) -> None:
        if fault is Fault.CRASH_AFTER:
            self.crashed = True
            raise Crash
