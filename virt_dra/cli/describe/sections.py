"""A document as sections of text: members as titles, lists of objects as tables. Unprintable characters are escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final

from virt_dra.api.go_text import visible
from virt_dra.cli.get.columns import age
from virt_dra.cli.shared.aligned import aligned

_TIMES: Final = frozenset(("since", "created", "allocated", "last"))
"""Members that are timestamps where they are texts."""
_ON_ONE_LINE: Final = 80
"""Characters of a list that is written beside its title."""
_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def section_lines(document: Mapping[str, Any], now: datetime) -> Iterator[str]:
    """``Title:  value`` for each member, deeper ones indented."""
    titles = {key: f"{_title(key)}:" for key in document}
    width = max(map(len, titles.values()), default=0)
    for key, value in document.items():
        if isinstance(value, Mapping) and value:
            yield titles[key]
            yield from _pairs(value)
        elif _flat_list(value) and sum(len(str(item)) + 2 for item in value) > _ON_ONE_LINE:
            yield titles[key]
            yield from (f"  {_text(item, key, now)}" for item in value)
        elif isinstance(value, list) and value and not _flat_list(value):
            yield titles[key]
            yield from _table(value, now)
        else:
            yield f"{titles[key]:<{width}} {_text(value, key, now)}".rstrip()


def _title(key: str) -> str:
    """``heldBy`` -> ``Held By``."""
    words = _WORD.sub(" ", key)
    return visible(words[:1].upper() + words[1:])


def _flat_list(value: object) -> bool:
    return isinstance(value, list) and bool(value) and not any(isinstance(item, Mapping) for item in value)


def _pairs(members: Mapping[str, Any]) -> Iterator[str]:
    """What users named: as it is, not as a title."""
    names = {key: f"{visible(key)}:" for key in members}
    width = max(map(len, names.values()))
    for key, value in members.items():
        yield f"  {names[key]:<{width}} {visible(str(value))}"


def _table(rows: Sequence[Mapping[str, Any]], now: datetime) -> Iterator[str]:
    """One line for each object; members that none of them has are left out."""
    keys = [key for key in dict.fromkeys(chain(*rows)) if any(_given(row.get(key)) for row in rows)]
    titles = [_title(key).upper().replace(" ", "-") for key in keys]
    yield from (
        f"  {line}" for line in aligned(titles, [[_text(row.get(key), key, now) for key in keys] for row in rows])
    )


def _given(value: object) -> bool:
    return value is not None and value != [] and value != {} and value is not False


def _text(value: object, key: str, now: datetime) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and key in _TIMES and (since := age(value, now)):
        return visible(f"{value} ({since} ago)")
    if isinstance(value, list):
        return (", " if _flat_list(value) else "; ").join(_text(item, key, now) for item in value) or "-"
    if isinstance(value, Mapping):
        members = [f"{visible(str(name))}={_text(item, name, now)}" for name, item in value.items() if _given(item)]
        return " ".join(members) or "-"
    return "-" if value is None or value == "" else visible(str(value))
