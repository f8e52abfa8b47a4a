"""``string.format`` of the strings extension (L-2.6).

    clause : "%%" | "%" ["." DIGIT+] ("s" | "d" | "f" | "e" | "b" | "x" | "X" | "o")

Where format and list are literals, faults are found when the expression is compiled (``literals``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from virt_dra.api.go_text import quoted
from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.functions.conversions import to_string
from virt_dra.cel.functions.registry import Library
from virt_dra.cel.limits.budget import TEXT_LIMIT, Budget
from virt_dra.cel.values import Duration, Timestamp, TypeValue, UInt, Value, key_value, type_name

library = Library()

_DIGITS = re.compile(r"[0-9]*")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PRECISION = 6
_PIECE = 1.5
_PER_CHARACTER = 0.01
"""Microseconds of work: for a clause, or a value within a list or map, and for a character."""
_MOST_PRECISE = 200
"""The highest precision. Beyond it the reference's digits depend on its library's buffers, so it is refused here."""
_SPECIAL_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_WANTED = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, "
    "maps, lists, types, durations, and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "X": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}
_SCALARS = ("string", "bool", "bytes", "int", "uint", "double", "null_type")
_ACCEPTED: dict[str, frozenset[str]] = {
    "s": frozenset((*_SCALARS, "google.protobuf.Duration", "google.protobuf.Timestamp", "list", "map", "type")),
    "b": frozenset(("int", "uint", "bool")),
    **dict.fromkeys("do", frozenset(("int", "uint"))),
    **dict.fromkeys("fe", frozenset(("double", "string"))),
    **dict.fromkeys("xX", frozenset(("int", "uint", "string", "bytes"))),
}


@dataclass(frozen=True, slots=True)
class Clause:
    verb: str
    precision: int | None


class FormatFault(ValueError):
    """A format that can't be parsed, or that needs more arguments than there are."""


def parse_format(text: str, arguments: int, *, literal: bool = False) -> Iterator[str | Clause]:
    """The pieces of a format. Raises FormatFault where the reference would stop, for a ``literal`` elsewhere."""
    position = used = 0
    while position < len(text):
        start = text.find("%", position)
        if start < 0:
            yield text[position:]
            return
        if start > position:
            yield text[position:start]
        if text[start + 1 : start + 2] == "%":
            yield "%"
            position = start + 2
            continue
        if literal and start + 1 >= len(text):
            raise FormatFault("unexpected end of string")
        if used >= arguments:
            raise FormatFault(f"index {used} out of range")
        if start + 1 >= len(text):
            raise FormatFault("unexpected end of string")
        clause, position = _clause(text, start + 1)
        used += 1
        yield clause


def _clause(text: str, position: int) -> tuple[Clause, int]:
    precision: int | None = None
    where = "could not parse formatting clause: "
    if text[position] == ".":
        match = _DIGITS.match(text, position + 1)
        digits = match.group() if match is not None else ""
        position += 1 + len(digits)
        if position >= len(text):
            raise FormatFault(f"{where}error while parsing precision: could not find end of precision specifier")
        if not digits or len(digits) > 18:
            why = "value out of range" if digits else "invalid syntax"
            reading = f'error while converting precision to integer: strconv.Atoi: parsing "{digits}": {why}'
            raise FormatFault(f"{where}error while parsing precision: {reading}")
        precision = int(digits)
        if precision > _MOST_PRECISE:
            reading = f"precision {precision} exceeds maximum allowed precision {_MOST_PRECISE}"
            raise FormatFault(f"{where}error while parsing precision: {reading}")
    verb = text[position]
    if verb not in _WANTED:
        raise FormatFault(f'{where}unrecognized formatting clause "{verb}"')
    return Clause(verb, precision), position + 1


def unfit(clause: Clause, kind: str) -> str:
    """The message for an argument of a type that the clause can't write; empty if it can."""
    return (
        "" if kind in _ACCEPTED[clause.verb] else f"error during formatting: {_WANTED[clause.verb]}, was given {kind}"
    )


@library.function("string::format(list(dyn)) -> string", budget=True)
def format_text(budget: Budget, text: str, arguments: list[Value]) -> str:
    parts: list[str] = []
    length = 0
    remaining = iter(arguments)
    try:
        for piece in parse_format(text, len(arguments)):
            part = piece if isinstance(piece, str) else _formatted(budget, piece, next(remaining))
            length += len(part)
            budget.spend(_PIECE)
            if length > TEXT_LIMIT:
                budget.build(length)
            parts.append(part)
    except FormatFault as fault:
        raise EvaluationError(str(fault)) from None
    budget.build(length, 4)
    return "".join(parts)


def _formatted(budget: Budget, clause: Clause, value: Value) -> str:
    complaint = unfit(clause, type_name(value))
    if complaint:
        raise EvaluationError(complaint)
    if clause.verb == "s":
        try:
            return _string(budget, value)
        except _NoFormat as error:
            raise EvaluationError(f"error during formatting: {error}") from None
    if clause.verb in "fe":
        number = _SPECIAL_NUMBERS.get(value) if isinstance(value, str) else value
        if not isinstance(number, float):
            raise EvaluationError(f"error during formatting: {_WANTED[clause.verb]}, was given string")
        return (_fixed if clause.verb == "f" else _scientific)(number, clause.precision)
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value.hex().upper() if clause.verb == "X" else value.hex()
    return format(int(value), clause.verb) if isinstance(value, int) else str(value)


class _NoFormat(ValueError):
    """A value inside a list or map that has no text."""


def _string(budget: Budget, value: Value) -> str:
    if isinstance(value, (list, dict)):
        return _nested(budget, value)
    if isinstance(value, TypeValue):
        return value.name
    if value is None:
        return "null"
    try:
        return to_string(value)
    except EvaluationError as error:
        raise _NoFormat(f'could not convert argument "{error}" to string') from None


def _nested(budget: Budget, value: Value) -> str:
    """A value inside a list or map, as a CEL literal."""
    budget.spend(_PIECE)
    if isinstance(value, list):
        return "[" + ", ".join(_measured(budget, (_nested(budget, element) for element in value))) + "]"
    if isinstance(value, dict):
        entries = sorted((_map_key(key_value(key)), _nested(budget, element)) for key, element in value.items())
        return "{" + ", ".join(_measured(budget, (f"{key}:{element}" for key, element in entries))) + "}"
    if isinstance(value, float):
        if math.isfinite(value):
            return f"{value:.6f}"
        return f'"{"NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"}"'
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return "b" + quoted(_string(budget, value))
    if isinstance(value, Duration):
        return f'duration("{to_string(value)}")'
    if isinstance(value, Timestamp):
        return f'timestamp("{to_string(value)}")'
    if type_name(value) not in _ACCEPTED["s"]:
        raise _NoFormat(f"no formatting function for {type_name(value)}")
    return _string(budget, value)


def _measured(budget: Budget, parts: Iterator[str]) -> Iterator[str]:
    """The parts of a text. Raises BudgetExceeded as soon as they are too long together."""
    length = 0
    for part in parts:
        length += len(part) + 2
        if length > TEXT_LIMIT:
            budget.build(length)
        budget.read(part, _PER_CHARACTER)
        yield part


def _map_key(key: Value) -> str:
    if isinstance(key, str):
        return quoted(key)
    if isinstance(key, (bool, int, UInt)):
        return to_string(key)
    raise _NoFormat(f"no formatting function for map key of type {type_name(key)}")


def _special(number: float) -> str:
    return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"


def _fixed(number: float, precision: int | None) -> str:
    """A decimal number with grouped thousands, as the reference's locale (en_US) writes it."""
    if not math.isfinite(number):
        return _special(number)
    return f"{number + 0.0:,.{_PRECISION if precision is None else precision}f}"


def _scientific(number: float, precision: int | None) -> str:
    """A number in scientific notation, always with six decimals: the reference takes the precision for the width."""
    width = _PRECISION if precision is None else precision
    if not math.isfinite(number):
        return _special(number).rjust(width)
    mantissa, exponent = f"{number + 0.0:.6e}".split("e")
    return f"{mantissa}×10{exponent.removeprefix('+').translate(_SUPERSCRIPTS)}".rjust(width)
