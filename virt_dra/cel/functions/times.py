"""Timestamps and durations: reading, writing, parts (all in UTC unless a zone is given)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.functions.operators import timestamp as checked_timestamp
from virt_dra.cel.functions.operators import truncated
from virt_dra.cel.functions.registry import Library
from virt_dra.cel.values import INT_MAX, INT_MIN, Duration, Timestamp, Zone

library = Library()

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 10**9
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
# possessive: without it a long number that no unit follows takes quadratic time
_DURATION = re.compile(r"[-+]?(?:0|(?:(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:ns|us|µs|μs|ms|s|m|h))++)")
_DURATION_PART = re.compile(r"0*+([0-9]*+)(?:\.([0-9]*+))?+(ns|us|µs|μs|ms|s|m|h)")
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{1,2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_DIGITS_MAX = 20
"""Digits of a number of nanoseconds in 64 bits. A longer one is not a duration."""
_OFFSET = re.compile(r"([-+]?)([0-9]{1,2}):([0-9]{1,2})")


def parse_duration(text: str) -> Duration | None:
    """The duration of a text such as ``1h30m``, ``-1.5s``, ``0``, parsed as in Go; None if it is none."""
    if _DURATION.fullmatch(text) is None:
        return None
    total = 0
    for whole, fraction, unit in _DURATION_PART.findall(text):
        if len(whole) > _DIGITS_MAX:
            return None
        total += int(whole or "0") * _UNITS[unit]
        if fraction:
            kept = fraction[:_DIGITS_MAX]  # further digits are below a nanosecond, even of an hour
            total += int(kept) * _UNITS[unit] // 10 ** len(kept)
    nanoseconds = -total if text.startswith("-") else total
    return Duration(nanoseconds) if INT_MIN <= nanoseconds <= INT_MAX else None


def parse_timestamp(text: str) -> Timestamp | None:
    """The timestamp of an RFC 3339 text, None if it is none. Raises EvaluationError for years other than 1 to 9999."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    head, fraction, sign, hours, minutes = match.groups()
    offset, zone = 0, None
    if sign is not None:
        if int(hours) > 24 or int(minutes) > 60:
            return None
        offset = (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1)
        zone = Zone.at_offset(offset)
    year_zero = head.startswith("0000")
    if year_zero:
        head = f"0004{head[4:]}"  # Go has a year 0, a leap year; Python has none
    try:
        moment = datetime.strptime(head, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    if head.endswith((":60", ":61")):
        return None
    since = moment - _EPOCH
    nanoseconds = (since.days * 86400 + since.seconds - offset) * _SECOND
    if fraction:
        nanoseconds += int(fraction[:9].ljust(9, "0"))
    return checked_timestamp(_BEFORE_YEAR_ONE if year_zero else nanoseconds, zone)


def format_duration(value: Duration) -> str:
    """A duration in seconds without trailing zeros: ``5400s``, ``0.5s``. Computed in double precision, as in Go."""
    seconds, rest = divmod(abs(value.nanoseconds), _SECOND)
    number = float(seconds) + rest / 1e9
    text = repr(number)
    if "e" in text:
        text = f"{number:.20f}".rstrip("0")
    return ("-" if value.nanoseconds < 0 else "") + text.removesuffix(".0").removesuffix(".") + "s"


def format_timestamp(value: Timestamp) -> str:
    """A timestamp in RFC 3339, with the digits of its fraction, in the zone in which it was written."""
    seconds, rest = divmod(value.nanoseconds + value.offset * _SECOND, _SECOND)
    moment = _EPOCH + timedelta(seconds=seconds)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    zone = "Z"
    if value.offset:
        hours, minutes = divmod(abs(value.offset) // 60, 60)
        zone = f"{'-' if value.offset < 0 else '+'}{hours:02}:{minutes:02}"
    return f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}{fraction}{zone}"


def _zone(name: str) -> tzinfo | timedelta:
    """The zone of a name, or of a fixed offset from UTC."""
    zone = _known_zone(name) if len(name) <= _LONGEST_ZONE else None
    if zone is None:
        raise EvaluationError(f"unknown time zone {name}")
    return zone


_LONGEST_ZONE = 64
"""Characters of a zone's name; the longest one has 32."""


@lru_cache(maxsize=256)
def _known_zone(name: str) -> tzinfo | timedelta | None:
    match = _OFFSET.fullmatch(name)
    if match is not None:
        sign, hours, minutes = match.groups()
        return timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


_BEFORE_YEAR_ONE = -62135596801 * _SECOND
_CYCLE = timedelta(days=146097)
"""400 years, after which the calendar repeats to the day of the week."""


def _local(value: Timestamp, zone: str = "UTC") -> datetime:
    """The time in a zone; moved by 400 years where it leaves Python's years 1 to 9999: only the year differs."""
    moment = _EPOCH + timedelta(seconds=value.nanoseconds // _SECOND)
    place = _zone(zone)
    if moment.year == MAXYEAR:
        moment -= _CYCLE
    elif moment.year == MINYEAR:
        moment += _CYCLE
    return moment + place if isinstance(place, timedelta) else moment.astimezone(place)


def _full_year(value: Timestamp, zone: str = "UTC") -> int:
    original = (_EPOCH + timedelta(seconds=value.nanoseconds // _SECOND)).year
    return _local(value, zone).year + (400 if original == MAXYEAR else -400 if original == MINYEAR else 0)


def _milliseconds(value: Timestamp, zone: str = "UTC") -> int:
    _zone(zone)
    return value.nanoseconds % _SECOND // 10**6


_PARTS: Final[Mapping[str, Callable[..., int]]] = {
    "getFullYear": _full_year,
    "getMonth": lambda *arguments: _local(*arguments).month - 1,
    "getDate": lambda *arguments: _local(*arguments).day,
    "getDayOfMonth": lambda *arguments: _local(*arguments).day - 1,
    "getDayOfWeek": lambda *arguments: _local(*arguments).isoweekday() % 7,
    "getDayOfYear": lambda *arguments: _local(*arguments).timetuple().tm_yday - 1,
    "getHours": lambda *arguments: _local(*arguments).hour,
    "getMinutes": lambda *arguments: _local(*arguments).minute,
    "getSeconds": lambda *arguments: _local(*arguments).second,
    "getMilliseconds": _milliseconds,
}
"""Parts of a timestamp, in UTC or a zone. The first use of a zone reads it from disk."""
for _parameters in ("", "string"):
    library.define(
        {f"google.protobuf.Timestamp::{name}({_parameters}) -> int": part for name, part in _PARTS.items()},
        per_character=2.0,
        per_call=2.0,
    )


def _whole(value: Duration, unit: int) -> int:
    """Whole units, rounded towards zero in double precision as in Go: a large value one nanosecond short of a unit may
    be rounded up."""
    whole, rest = divmod(abs(value.nanoseconds), unit)
    count = int(float(whole) + rest / unit)
    return -count if value.nanoseconds < 0 else count


library.define(
    {
        "google.protobuf.Duration::getHours() -> int": lambda value: _whole(value, 3600 * _SECOND),
        "google.protobuf.Duration::getMinutes() -> int": lambda value: _whole(value, 60 * _SECOND),
        "google.protobuf.Duration::getSeconds() -> int": lambda value: _whole(value, _SECOND),
        "google.protobuf.Duration::getMilliseconds() -> int": lambda value: truncated(value.nanoseconds, 10**6),
    }
)
