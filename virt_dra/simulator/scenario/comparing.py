"""The part of an answer that is compared, and how two answers differ (docs/spec/scenarios.md, ``compare``). Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from virt_dra.api.counting import cut_after
from virt_dra.api.wire import Json
from virt_dra.simulator.scenario.scenario import Compared

_SHOWN: Final = 160
"""Characters of a value in a difference."""


def counted(state: Json, compare: Compared) -> Json:
    """The part of a state that is compared."""
    state = dict(state)
    if compare.events is False:
        state.pop("events", None)
    elif isinstance(compare.events, tuple):
        state["events"] = [event for event in state.get("events", []) if event[2] in compare.events]
    for pattern in compare.ignore:
        state = _ignored(state, pattern.split("|"))
    for names, stands_for in compare.interchangeable:
        state = _swapped(
            state, re.compile(rf"(?<![A-Za-z0-9.-])(?:{'|'.join(map(re.escape, names))})(?![A-Za-z0-9.-])"), stands_for
        )
        if "events" in state:
            state["events"] = sorted({json.dumps(event): event for event in state["events"]}.values())
    return state


def _ignored(value: Any, pattern: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_ignored(item, pattern) for item in value]
    if not isinstance(value, dict):
        return value
    first, rest = pattern[0], pattern[1:]
    return {
        key: _ignored(member, rest) if fnmatchcase(key, first) else member
        for key, member in value.items()
        if rest or not fnmatchcase(key, first)
    }


def _swapped(value: Any, names: re.Pattern[str], stands_for: str) -> Any:
    if isinstance(value, str):
        return names.sub(stands_for, value)
    if isinstance(value, list):
        return [_swapped(item, names, stands_for) for item in value]
    if not isinstance(value, dict):
        return value
    by_name: dict[str, list[Any]] = {}
    for key, member in value.items():
        by_name.setdefault(names.sub(stands_for, key), []).append(_swapped(member, names, stands_for))
    return {
        key: members[0] if len(members) == 1 else sorted(members, key=lambda member: json.dumps(member, sort_keys=True))
        for key, members in by_name.items()
    }


def differences(wanted: Any, answered: Any, path: str = "") -> Iterator[str]:
    """A line for each place at which two JSON values differ: the path, what was wanted and what was found."""
    if isinstance(wanted, dict) and isinstance(answered, dict):
        for key in sorted(wanted.keys() | answered.keys()):
            yield from differences(
                wanted.get(key, _ABSENT), answered.get(key, _ABSENT), f"{path}.{key}" if path else key
            )
    elif isinstance(wanted, list) and isinstance(answered, list) and len(wanted) == len(answered):
        for index, (item, other) in enumerate(zip(wanted, answered, strict=True)):
            yield from differences(item, other, f"{path}[{index}]")
    elif wanted != answered or type(wanted) is not type(answered):
        yield f"{path}: wanted {_shown(wanted)}, found {_shown(answered)}"


class _Absent:
    """Stands for a missing value."""


_ABSENT: Final = _Absent()


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    return cut_after(json.dumps(value, ensure_ascii=False, sort_keys=True), _SHOWN)
