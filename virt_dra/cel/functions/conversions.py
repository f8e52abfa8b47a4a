"""Type conversions, ``type()``, ``dyn()`` and ``size()``."""

from __future__ import annotations

import math
import re

from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.functions.operators import timestamp as checked_timestamp
from virt_dra.cel.functions.printing import format_double
from virt_dra.cel.functions.registry import Library
from virt_dra.cel.functions.times import format_duration, format_timestamp, parse_duration, parse_timestamp
from virt_dra.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, TypeValue, UInt, Value, type_name

library = Library()

_SIGNED = re.compile(r"[-+]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_DIGITS = "[0-9]+(?:_[0-9]+)*"
_DOUBLE = re.compile(
    rf"[-+]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][-+]?{_DIGITS})?|[-+]?(?:inf|infinity)|nan",
    re.IGNORECASE,
)
_HEX_DOUBLE = re.compile(r"[-+]?0x(?:[0-9a-f]+(?:\.[0-9a-f]*)?|\.[0-9a-f]+)p[-+]?[0-9]+", re.IGNORECASE)
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
CONVERSIONS = frozenset(("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"))
"""Functions that Kubernetes evaluates on literals while compiling; if one fails, the expression is invalid."""


def _digits(text: str) -> int | None:
    """The value of an optional sign and decimal digits; None if it has far too many."""
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > 20:
        return None
    return -int(digits) if text.startswith("-") else int(digits)


def _inconvertible(source: str, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{source}' to '{target}'")


@library.function(
    "int(int) -> int",
    "int(double) -> int",
    "int(google.protobuf.Duration) -> int",
    "int(string) -> int",
    "int(google.protobuf.Timestamp) -> int",
    "int(uint) -> int",
    per_character=0.01,
)
def to_int(value: Value) -> int:
    if isinstance(value, float):
        if not -9223372036854775808.0 < value < 9223372036854775808.0:
            raise EvaluationError("integer overflow")
        return int(value)
    if isinstance(value, int):
        if value > INT_MAX:
            raise EvaluationError("integer overflow")
        return int(value)
    if isinstance(value, str):
        number = _digits(value) if _SIGNED.fullmatch(value) else None
        if number is None or not INT_MIN <= number <= INT_MAX:
            raise _inconvertible("string", "int")
        return number
    if isinstance(value, Timestamp):
        return value.nanoseconds // 10**9
    if isinstance(value, Duration):
        return value.nanoseconds
    raise EvaluationError("no such overload")


@library.function(
    "uint(uint) -> uint", "uint(double) -> uint", "uint(int) -> uint", "uint(string) -> uint", per_character=0.01
)
def to_uint(value: Value) -> UInt:
    if isinstance(value, float):
        if not 0 <= value < 18446744073709551616.0:
            raise EvaluationError("unsigned integer overflow")
        return UInt(int(value))
    if isinstance(value, int):
        if value < 0:
            raise EvaluationError("unsigned integer overflow")
        return UInt(value)
    if isinstance(value, str):
        number = _digits(value) if _UNSIGNED.fullmatch(value) else None
        if number is None or number > UINT_MAX:
            raise _inconvertible("string", "uint")
        return UInt(number)
    raise EvaluationError("no such overload")


@library.function(
    "double(double) -> double",
    "double(int) -> double",
    "double(string) -> double",
    "double(uint) -> double",
    per_character=0.08,
)
def to_double(value: Value) -> float:
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str):
        if _HEX_DOUBLE.fullmatch(value) is not None:
            try:
                return float.fromhex(value)
            except OverflowError:
                raise _inconvertible("string", "double") from None
        if _DOUBLE.fullmatch(value) is not None:
            number = float(value)
            if not math.isinf(number) or "n" in value.lower():
                return number
        raise _inconvertible("string", "double")
    raise EvaluationError("no such overload")


@library.function("bool(bool) -> bool", "bool(string) -> bool")
def to_bool(value: Value) -> bool:
    if isinstance(value, bool):
        return value
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise _inconvertible("string", "bool")


@library.function("bytes(bytes) -> bytes", "bytes(string) -> bytes", per_character=0.005)
def to_bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


@library.function(
    "string(string) -> string",
    "string(bool) -> string",
    "string(bytes) -> string",
    "string(double) -> string",
    "string(google.protobuf.Duration) -> string",
    "string(int) -> string",
    "string(google.protobuf.Timestamp) -> string",
    "string(uint) -> string",
    per_character=0.012,
)
def to_string(value: Value) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, float):
        return format_double(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, Timestamp):
        return format_timestamp(value)
    if isinstance(value, Duration):
        return format_duration(value)
    raise EvaluationError("no such overload")


@library.function(
    "timestamp(google.protobuf.Timestamp) -> google.protobuf.Timestamp",
    "timestamp(int) -> google.protobuf.Timestamp",
    "timestamp(string) -> google.protobuf.Timestamp",
    per_character=0.05,
)
def to_timestamp(value: Value) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, str):
        parsed = parse_timestamp(value)
        if parsed is None:
            raise _inconvertible("string", "google.protobuf.Timestamp")
        return parsed
    if isinstance(value, int):
        return checked_timestamp(value * 10**9)
    raise EvaluationError("no such overload")


@library.function(
    "duration(google.protobuf.Duration) -> google.protobuf.Duration",
    "duration(string) -> google.protobuf.Duration",
    per_character=1.0,
)
def to_duration(value: Value) -> Duration:
    if isinstance(value, Duration):
        return value
    parsed = parse_duration(value) if isinstance(value, str) else None
    if parsed is None:
        raise _inconvertible("string", "google.protobuf.Duration")
    return parsed


_SIZED = ("bytes", "list(<A>)", "map(<A>, <B>)", "string")
library.define(
    {
        "dyn(<A>) -> dyn": lambda value: value,
        "type(<A>) -> type(<A>)": lambda value: TypeValue(type_name(value)),
        **{f"size({sized}) -> int": len for sized in _SIZED},
        **{f"{sized}::size() -> int": len for sized in _SIZED},
    }
)
