"""Durations as people write them: ``90``, ``90s``, ``1h30m``, ``2d``."""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 100 * 365 * 86400.0
"""Seconds: a hundred years."""

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART: Final = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ms|[smhdw])")
_NUMBER: Final = re.compile(r"\d{1,12}(?:\.\d{1,9})?")


def seconds_of(given: object) -> float:
    """The seconds of a duration; a number alone is seconds. Raises ValueError with what is wrong.

    >>> seconds_of("1h30m")
    5400.0
    """
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise ValueError("must be a duration, such as 90s, 1h30m or 2d")
    text = str(given).strip()
    if text.startswith("-"):
        raise ValueError(f"must not be negative, is {text[:40]}")
    if _NUMBER.fullmatch(text):
        seconds = float(text)
    else:
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise ValueError(f"{text[:40]!r} is no duration; write seconds, or such as 90s, 1h30m or 2d")
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds > LONGEST:
        raise ValueError(f"{text[:40]} is more than 100 years")
    return seconds


def shown(seconds: float) -> str:
    """The duration in its two largest units.

    >>> shown(5400), shown(0.25), shown(200000)
    ('1h30m', '0.25s', '2d7h')
    """
    if seconds < 60:
        return f"{seconds:.3g}s"
    left = round(seconds)
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        number, left = divmod(left, int(_UNITS[unit]))
        if number or parts:
            parts.append(f"{number}{unit}" if number else "")
        if len(parts) == 2:
            break
    return "".join(parts)
