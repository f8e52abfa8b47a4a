"""Values in messages, as Go prints them (``%v``)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta

from virt_dra.cel.values import Duration, Optional, Timestamp, TypeValue, Value, key_value

_EPOCH = datetime(1970, 1, 1)
_DEEPEST = 20
_LONGEST = 2_000
"""Limits in characters and in values beyond which a printed value is cut: nested values can print at any length."""


def printed(value: Value) -> str:
    """The value's text in a message."""
    return "".join(_pieces(value, [_LONGEST], 0))


def _pieces(value: Value, left: list[int], depth: int) -> Iterator[str]:
    """``left``: one number, how many more values are printed."""
    left[0] -= 1
    if depth > _DEEPEST or left[0] < 0:
        yield "…"
    elif isinstance(value, list):
        yield "["
        for number, element in enumerate(value):
            if left[0] < 0:
                break
            yield ", " if number else ""
            yield from _pieces(element, left, depth + 1)
        yield "]"
    elif isinstance(value, dict):
        yield "{"
        for number, (key, held) in enumerate(value.items()):
            if left[0] < 0:
                break
            yield ", " if number else ""
            yield from _pieces(key_value(key), left, depth + 1)
            yield ": "
            yield from _pieces(held, left, depth + 1)
        yield "}"
    elif isinstance(value, Optional) and value.present:
        yield "optional("
        yield from _pieces(value.value, left, depth + 1)
        yield ")"
    else:
        yield _scalar(value)


def _scalar(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_double(value)
    if value is None:
        return "0"
    if isinstance(value, bytes):
        return f"[{' '.join(map(str, value))}]"
    if isinstance(value, Optional):
        return "optional.none()"
    if isinstance(value, TypeValue):
        return with_parameters(value.name)
    if isinstance(value, Duration):
        return _duration(value.nanoseconds)
    return _timestamp(value) if isinstance(value, Timestamp) else str(value)


_PARAMETERS = {"list": "list(dyn)", "map": "map(dyn, dyn)", "optional_type": "optional_type(dyn)"}


def with_parameters(name: str) -> str:
    """A type's name as Go prints the type."""
    return _PARAMETERS.get(name, name)


_EXPONENT_FROM = 6


def format_double(value: float) -> str:
    """A double as Go's %g writes it: the shortest text that parses to the same value."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    mantissa, _, exponent_text = f"{value!r}".partition("e")
    negative = mantissa.startswith("-")
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    exponent = int(exponent_text or 0)
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + exponent - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return "-0" if negative else "0"
    power = point - 1
    if power < -4 or power >= _EXPONENT_FROM:
        text = (
            digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "") + f"e{'-' if power < 0 else '+'}{abs(power):02}"
        )
    elif point <= 0:
        text = "0." + "0" * -point + digits
    elif point >= len(digits):
        text = digits + "0" * (point - len(digits))
    else:
        text = digits[:point] + "." + digits[point:]
    return f"-{text}" if negative else text


def _duration(nanoseconds: int) -> str:
    """A duration as Go prints it: ``1h2m3.5s``, ``1.5ms``, ``-20ns``."""
    sign, left = "-" if nanoseconds < 0 else "", abs(nanoseconds)
    if left == 0:
        return "0s"
    if left < 10**9:
        unit, size = next(
            (unit, size) for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)) if left < size * 1000
        )
        return f"{sign}{_decimal(left, size)}{unit}"
    minutes, rest = divmod(left, 60 * 10**9)
    text = f"{_decimal(rest, 10**9)}s"
    if minutes:
        text = f"{minutes % 60}m{text}"
    return f"{sign}{minutes // 60}h{text}" if minutes >= 60 else sign + text


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    decimals = str(rest + unit)[1:].rstrip("0")
    return f"{whole}.{decimals}" if decimals else str(whole)


def _timestamp(value: Timestamp) -> str:
    """A time as Go prints it: ``2020-02-29 12:34:56.789 +0000 UTC``; a nameless zone's offset is there twice."""
    seconds, rest = divmod(value.nanoseconds + value.offset * 10**9, 10**9)
    moment = _EPOCH + timedelta(seconds=seconds)
    decimals = f".{rest:09}".rstrip("0") if rest else ""
    minutes = abs(value.offset) // 60
    zone = f"{'-' if value.offset < 0 else '+'}{minutes // 60:02}{minutes % 60:02}"
    return f"{moment.year:04}-{moment:%m-%d %H:%M:%S}{decimals} {zone} {zone if value.offset else 'UTC'}"
