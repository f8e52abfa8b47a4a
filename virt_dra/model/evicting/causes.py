"""The moment from which the NoExecute taints of a claim's devices evict whoever uses it (C-11.2). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from virt_dra.api.meta import parse_time
from virt_dra.api.resource_v1 import (
    AllocationResult,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    DeviceToleration,
)
from virt_dra.api.tolerations import tolerates

NO_EXECUTE = "NoExecute"

TaintedDevice = tuple[str, str, str]
"""Driver, pool, device."""

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, order=True)
class TaintCause:
    """The taint that evicts. Sorted: rules, then taints of slices by driver, pool, device and index (C-11.2)."""

    published: bool
    rule: str = ""
    device: TaintedDevice = ("", "", "")
    index: int = 0
    rule_uid: str = field(default="", compare=False)


@dataclass(frozen=True)
class Eviction:
    """The time from which pods are to be deleted, and why."""

    at: datetime
    causes: tuple[TaintCause, ...]

    @property
    def rules(self) -> tuple[TaintCause, ...]:
        return tuple(cause for cause in self.causes if not cause.published)


CausedTaint = tuple[TaintCause, DeviceTaint]


def rule_cause(rule: DeviceTaintRule) -> TaintCause:
    """The cause for a rule's taint."""
    return TaintCause(published=False, rule=rule.name, rule_uid=rule.metadata.uid)


def rule_selects(rule: DeviceTaintRule, device: TaintedDevice) -> bool:
    """Whether a rule taints a device, published or not. No selector selects nothing, an empty one all (C-3.8)."""
    selector = rule.spec.device_selector
    return selector is not None and all(
        wanted in (None, given)
        for wanted, given in zip((selector.driver, selector.pool, selector.device), device, strict=True)
    )


def device_of(result: DeviceRequestAllocationResult) -> TaintedDevice:
    return result.driver, result.pool, result.device


def claim_eviction(
    allocation: AllocationResult | None, taints_of: Callable[[TaintedDevice], Iterable[CausedTaint]]
) -> Eviction | None:
    """The eviction of a claim's consumers, None if no taint counts (C-11.2). ``taints_of``: the NoExecute taints of a
    device."""
    times: list[datetime] = []
    causes: set[TaintCause] = set()
    for result in allocation.devices.results if allocation is not None else ():
        for cause, taint in taints_of(device_of(result)):
            due = tolerated_until(taint, result.tolerations)
            if due is not None:
                times.append(due)
                causes.add(cause)
    return Eviction(min(times), tuple(sorted(causes))) if times else None


def tolerated_until(taint: DeviceTaint, tolerations: Iterable[DeviceToleration]) -> datetime | None:
    """The time at which a NoExecute taint evicts; None: never. Only tolerations with effect NoExecute count (C-11.2),
    and taints with a time; one beyond the calendar is its end."""
    if taint.time_added is None:
        return None
    matching = [
        toleration.toleration_seconds
        for toleration in tolerations
        if toleration.effect == NO_EXECUTE and tolerates(toleration, taint)
    ]
    if None in matching:
        return None
    seconds = min(
        (max(toleration_seconds, 0) for toleration_seconds in matching if toleration_seconds is not None), default=0
    )
    try:
        return _time(taint.time_added) + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST


def _time(text: str) -> datetime:
    """What a driver published as the time of a taint; one that Python has no datetime for (the year 0) was long ago."""
    try:
        return parse_time(text)
    except ValueError:
        return _FIRST
