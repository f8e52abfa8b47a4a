"""Options of the resolution, and the grace periods after which waiting becomes an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.meta import parse_time
from virt_dra.api.resource_v1 import ResourceClaim

CLAIM_LAG: Final = timedelta(seconds=10)
"""How long after a pod's binding its claims may still be missing in the informer (K-5.4)."""
CountFrom = Callable[[datetime], datetime]
"""A timestamp of another clock, which may be ahead -> the time to count from
(:mod:`virt_dra.cluster.cluster_clock`)."""


def as_stated(moment: datetime) -> datetime:
    """The timestamp itself: for objects whose timestamps come from one clock."""
    return moment


@dataclass(frozen=True)
class ResolutionOptions:
    """How devices are resolved. ``spread``: entries of one claim and request take its devices in order (K-5.8).
    ``keys``: K-6.6. ``migration_target``: for a migration's target pod (K-5.1). ``now``: turns a device that isn't
    published ``grace`` after its allocation into an error (K-5.9), and a claim that is missing :data:`CLAIM_LAG` after
    its running pod got its node; without it the latter is one at once."""

    spread: bool = False
    keys: tuple[DriverKeys, ...] = ()
    migration_target: bool = False
    now: datetime | None = None
    grace: timedelta = timedelta(minutes=2)
    count_from: CountFrom = as_stated


DEFAULTS: Final = ResolutionOptions()


def moment_of(text: object) -> datetime | None:
    """The time of a timestamp in an object; None if it is missing or malformed."""
    try:
        return parse_time(text) if isinstance(text, str) and text else None
    except (ValueError, OverflowError):
        return None


def moment_after(text: str | None, delay: timedelta, count_from: CountFrom) -> datetime | None:
    """The time ``delay`` after a timestamp in an object; None if the timestamp is missing or malformed."""
    moment = moment_of(text)
    try:
        return count_from(moment) + delay if moment is not None else None
    except OverflowError:
        return None


def missed_at(pod: Pod, options: ResolutionOptions) -> datetime | None:
    """The time at which a missing claim of a running pod counts as deleted; None if it isn't known when the pod was
    bound. The informers of pods and claims are independent, so a claim may appear later than the pod that uses it."""
    bound = pod.condition("PodScheduled")
    if bound is None or bound.status != "True":
        return None
    return moment_after(bound.last_transition_time, CLAIM_LAG, options.count_from)


def overdue_at(claim: ResourceClaim, options: ResolutionOptions) -> datetime | None:
    """The time at which an allocated, unpublished device becomes an error (K-5.9); None without a time of the
    allocation."""
    allocation = claim.status.allocation
    allocated_at = allocation.allocation_timestamp if allocation is not None else None
    return moment_after(allocated_at, options.grace, options.count_from)
