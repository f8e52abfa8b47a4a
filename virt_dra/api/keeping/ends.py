"""How long after its stop a VM keeps its devices, and what ends it: its own lease, or KeepPolicies. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from virt_dra.api.go_text import visible
from virt_dra.api.keeping.limits import KeepLimits
from virt_dra.api.keeping.terms import KeepTerms

RESTART: Final = timedelta(minutes=1)
"""A VM that starts again within this time was restarted, not stopped: no limit of devices takes its own away."""


@dataclass(frozen=True)
class KeepEnd:
    """The end of keeping. ``after``: how long after the stop. ``limit``: which KeepPolicy says so, and what it says, or
    that the VM no longer asks to keep; "" for the VM's own lease."""

    after: timedelta
    limit: str = ""


def keeping_end(terms: KeepTerms | None) -> KeepEnd | None:
    """The end of a VM that doesn't ask to keep any more, which is at once; None if it does."""
    return KeepEnd(timedelta(), "the VM no longer asks to keep its devices") if terms is None else None


def lease_end(terms: KeepTerms | None) -> KeepEnd | None:
    """The end by the VM's own terms, None if they have none."""
    return KeepEnd(terms.stopped_for) if terms is not None and terms.stopped_for is not None else None


def time_limit_end(limits: KeepLimits) -> KeepEnd | None:
    """The end by the shortest time that a policy allows."""
    limit = limits.time_limit()
    return KeepEnd(limit.time, f"KeepPolicy {visible(limit.policy)}") if limit is not None else None


def device_limit_end(over: str) -> KeepEnd | None:
    """The end of a VM that is over a limit of devices, as :meth:`KeepLimits.refused` says; "" if it isn't."""
    return KeepEnd(RESTART, over) if over else None


def first_end(terms: KeepTerms | None, limits: KeepLimits, over: str) -> KeepEnd | None:
    """The earliest of the ends; of two at once the VM's own."""
    ends = (lease_end(terms), time_limit_end(limits), device_limit_end(over))
    return min(filter(None, ends), key=lambda end: end.after, default=None)
