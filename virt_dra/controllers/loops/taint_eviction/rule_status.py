"""The condition EvictionInProgress of a DeviceTaintRule (C-11.8, C-11.9). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from virt_dra.api.meta import Condition, format_time, parse_time
from virt_dra.api.resource_v1 import DeviceTaintRule
from virt_dra.model.evicting.causes import NO_EXECUTE

EVICTION_IN_PROGRESS = "EvictionInProgress"
STATUS_PERIOD = 10.0
"""Seconds between two changes of a rule's condition."""

PODS_PENDING = "PodsPendingEviction"
"""Pods are yet to be deleted."""
COMPLETED = "Completed"
"""None is left, and some were deleted since the controller started."""
NOT_STARTED = "NotStarted"
"""None is to be deleted, and none was."""
NO_EFFECT = "NoEffect"
"""The effect is None: the message says what NoExecute would do."""
OTHER_EFFECT = "OtherEffect"
"""The effect evicts no pods."""

_ONCE = "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."


@dataclass(frozen=True)
class PendingPods:
    """Pods that a rule evicts and that aren't being deleted, and in how many namespaces."""

    pods: int = 0
    namespaces: int = 0


@dataclass(frozen=True)
class RuleCounts:
    """What a rule's condition is about. ``published`` and ``allocated``: selected devices, for effect None only."""

    pending: PendingPods = PendingPods()
    evicted: int = 0
    published: int = 0
    allocated: int = 0


def not_before(rule: DeviceTaintRule, now: datetime) -> float:
    """The seconds for which the condition stays, since it was changed for this generation a moment ago; 0: it may
    change."""
    current = _known(rule)
    if (
        current is None
        or current.last_transition_time is None
        or (current.observed_generation or 0) != (rule.metadata.generation or 0)
    ):
        return 0.0
    try:
        since = (now - parse_time(current.last_transition_time)).total_seconds()
    except ValueError:  # of the year 0, say, which Go knows and Python doesn't
        return 0.0
    return max(STATUS_PERIOD - since, 0.0)


def changed_condition(rule: DeviceTaintRule, counts: RuleCounts, now: datetime) -> Condition | None:
    """The condition to write, None if the rule has it. Any change, also of the message, moves its time (C-11.9)."""
    status, reason, message = _outcome(rule.spec.taint.effect, counts)
    if counts.evicted:
        message = f"{message} {_pods(counts.evicted)} evicted since starting the controller.".lstrip()
    generation = rule.metadata.generation or 0
    current = _known(rule)
    wanted = (status, reason, message, generation)
    if (
        current is not None
        and (current.status, current.reason, current.message, current.observed_generation or 0) == wanted
    ):
        return None
    return Condition(
        type=EVICTION_IN_PROGRESS,
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation,
        last_transition_time=format_time(now),
    )


def with_condition(rule: DeviceTaintRule, condition: Condition) -> tuple[Condition, ...]:
    """The rule's conditions with this one; those of others as they are."""
    others = tuple(other for other in rule.status.conditions if other.type != condition.type)
    return (*others, condition)


def _known(rule: DeviceTaintRule) -> Condition | None:
    return next((condition for condition in rule.status.conditions if condition.type == EVICTION_IN_PROGRESS), None)


def _outcome(effect: str, counts: RuleCounts) -> tuple[str, str, str]:
    pending = counts.pending
    if effect == NO_EXECUTE:
        if pending.pods:
            need = "needs" if pending.pods == 1 else "need"
            return (
                "True",
                PODS_PENDING,
                f"{_pods(pending.pods)} {need} to be evicted in {_namespaces(pending.namespaces)}.",
            )
        return "False", COMPLETED if counts.evicted else NOT_STARTED, ""
    if effect == "None":
        would = (
            f"{_pods(pending.pods)} would be evicted in {_namespaces(pending.namespaces)} if the effect was NoExecute."
        )
        return (
            "False",
            NO_EFFECT,
            f"{_devices(counts.published, 'published')} {_devices(counts.allocated, 'allocated')} {would} {_ONCE}",
        )
    return "False", OTHER_EFFECT, "Eviction only happens for the NoExecute effect."


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


def _namespaces(number: int) -> str:
    return "1 namespace" if number == 1 else f"{number} different namespaces"


def _devices(number: int, kind: str) -> str:
    return f"1 {kind} device selected." if number == 1 else f"{number} {kind} devices selected."
