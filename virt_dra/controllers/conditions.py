"""Sets and removes a condition in a list; other conditions and unchanged values stay as they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal

from virt_dra.api.meta import format_time
from virt_dra.api.wire import Json

ConditionStatus = Literal["True", "False", "Unknown"]


def put(
    conditions: Sequence[Json], kind: str, verdict: ConditionStatus, reason: str, message: str, now: datetime
) -> tuple[Json, ...]:
    """The conditions with the one of this type set. Its unknown members stay; its time changes with the status only."""
    wanted: Json = {"type": kind, "status": verdict, "reason": reason, "message": message}
    if not any(old.get("type") == kind for old in conditions):
        return (*conditions, {**wanted, "lastTransitionTime": format_time(now)})
    return tuple(_updated(old, wanted, now) if old.get("type") == kind else old for old in conditions)


def condition_of(conditions: Iterable[Json], kind: str) -> Json | None:
    """The condition of a type; None if there is none."""
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def without(conditions: Sequence[Json], kind: str) -> tuple[Json, ...]:
    """The conditions without those of this type."""
    return tuple(condition for condition in conditions if condition.get("type") != kind)


def _updated(old: Json, wanted: Json, now: datetime) -> Json:
    if all(old.get(key, "") == value for key, value in wanted.items()):
        return old
    moved = old.get("status") != wanted["status"]
    since = format_time(now) if moved else old.get("lastTransitionTime", format_time(now))
    return {**old, **wanted, "lastTransitionTime": since}
