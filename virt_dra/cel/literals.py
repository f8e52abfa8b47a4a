"""Checks on literal arguments at compile time (L-2.5)."""

from __future__ import annotations

from virt_dra.cel.functions.regex import InvalidPattern, compile_pattern
from virt_dra.cel.functions.times import parse_duration, parse_timestamp
from virt_dra.cel.nodes import LiteralValue

_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799


def invalid_literal(function: str, member: bool, place: int, value: LiteralValue) -> str | None:
    """What is wrong with a literal as the argument at ``place`` of a function; None if nothing."""
    if function == "duration" and not member and isinstance(value, str):
        return None if parse_duration(value) is not None else "invalid duration argument"
    if function == "timestamp" and not member:
        if isinstance(value, str):
            return None if parse_timestamp(value) is not None else "invalid timestamp argument"
        if isinstance(value, int) and not _FIRST_SECOND <= value <= _LAST_SECOND:
            return "invalid timestamp argument"
    if function == "matches" and place == (0 if member else 1) and isinstance(value, str):
        try:
            compile_pattern(value)
        except InvalidPattern:
            return "invalid matches argument"
    return None
