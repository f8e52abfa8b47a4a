"""Arithmetic, comparison, membership and indexing (L-2.1, L-2.2), with cel-go's overflow checks and errors."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.functions.printing import printed
from virt_dra.cel.functions.registry import Library
from virt_dra.cel.limits.budget import Budget
from virt_dra.cel.values import (
    INT_MAX,
    INT_MIN,
    NONE,
    UINT_MAX,
    Duration,
    Optional,
    Timestamp,
    UInt,
    Value,
    Zone,
    compare_numbers,
    equal_scalars,
    go_type,
    incomparable,
    is_key,
    lookup_key,
    type_name,
)
from virt_dra.cel.values import equals as deep_equals

library = Library()
library.declare("_?_:_(bool, <A>, <A>) -> <A>")
library.define({"!_(bool) -> bool": operator.not_})

_SPAN, _INSTANT = "google.protobuf.Duration", "google.protobuf.Timestamp"
_COMPARED = 0.15
"""Microseconds of comparing two scalars."""
_FIRST_INSTANT = -62135596800 * 10**9
_LAST_INSTANT = 253402300800 * 10**9 - 1
Text = TypeVar("Text", str, bytes)


def int64(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def uint64(value: int) -> UInt:
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise EvaluationError("unsigned integer overflow")


def duration(nanoseconds: int) -> Duration:
    if INT_MIN <= nanoseconds <= INT_MAX:
        return Duration(nanoseconds)
    raise EvaluationError("duration overflow")


def timestamp(nanoseconds: int, zone: Zone | None = None) -> Timestamp:
    if _FIRST_INSTANT <= nanoseconds <= _LAST_INSTANT:
        return Timestamp(nanoseconds, zone)
    raise EvaluationError("timestamp overflow")


# --- arithmetic ---


def _width(*texts: str | bytes) -> int:
    """The most bytes that a character of a text built from these takes."""
    return 1 if all(isinstance(text, bytes) or text.isascii() for text in texts) else 4


@library.function("_+_(bytes, bytes) -> bytes", "_+_(string, string) -> string", budget=True)
def concatenate(budget: Budget, left: Text, right: Text) -> Text:
    budget.build(len(left) + len(right), _width(left, right))
    return left + right


@library.function("_/_(double, double) -> double")
def divide_double(left: float, right: float) -> float:
    if right == 0:
        if left == 0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    return left / right


def truncated(left: int, right: int) -> int:
    """The quotient, rounded towards zero."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


@library.function("_/_(int, int) -> int")
def divide_int(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    return int64(truncated(left, right))


@library.function("_%_(int, int) -> int")
def modulo_int(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == INT_MIN and right == -1:
        raise EvaluationError("integer overflow")
    return left - right * truncated(left, right)


@library.function("_/_(uint, uint) -> uint")
def divide_uint(left: int, right: int) -> UInt:
    if right == 0:
        raise EvaluationError("division by zero")
    return UInt(left // right)


@library.function("_%_(uint, uint) -> uint")
def modulo_uint(left: int, right: int) -> UInt:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return UInt(left % right)


@library.function("_+_(list(<A>), list(<A>)) -> list(<A>)", budget=True)
def append(budget: Budget, left: list[Value], right: list[Value]) -> list[Value]:
    budget.grow(len(left) + len(right))
    return left + right


@library.beyond(f"-_({_SPAN}) -> {_SPAN}")
def negate_duration(value: Duration) -> Duration:
    return Duration(int64(-value.nanoseconds))


ADDITIONS: Final[Mapping[str, Callable[..., Value]]] = {
    "double": operator.add,
    "int": lambda left, right: int64(left + right),
    "uint": lambda left, right: uint64(int(left) + int(right)),
    _SPAN: lambda left, right: duration(left.nanoseconds + right.nanoseconds),
}
"""The sum of two values of a type."""


def later(left: Timestamp, right: Duration) -> Timestamp:
    return timestamp(left.nanoseconds + right.nanoseconds, left.zone)


library.define(
    {
        **{f"_+_({kind}, {kind}) -> {kind}": addition for kind, addition in ADDITIONS.items()},
        "_-_(double, double) -> double": operator.sub,
        "_*_(double, double) -> double": operator.mul,
        "-_(double) -> double": operator.neg,
        "_-_(int, int) -> int": lambda left, right: int64(left - right),
        "_*_(int, int) -> int": lambda left, right: int64(left * right),
        "-_(int) -> int": lambda value: int64(-value),
        "_-_(uint, uint) -> uint": lambda left, right: uint64(int(left) - int(right)),
        "_*_(uint, uint) -> uint": lambda left, right: uint64(int(left) * int(right)),
        f"_+_({_INSTANT}, {_SPAN}) -> {_INSTANT}": later,
        f"_+_({_SPAN}, {_INSTANT}) -> {_INSTANT}": lambda left, right: later(right, left),
        f"_-_({_SPAN}, {_SPAN}) -> {_SPAN}": lambda left, right: duration(left.nanoseconds - right.nanoseconds),
        f"_-_({_INSTANT}, {_SPAN}) -> {_INSTANT}": lambda left, right: timestamp(
            left.nanoseconds - right.nanoseconds, left.zone
        ),
        f"_-_({_INSTANT}, {_INSTANT}) -> {_SPAN}": lambda left, right: Duration(
            int64(left.nanoseconds - right.nanoseconds)
        ),
    }
)


# --- comparison ---

_ORDERED = (
    "bool", "int", "uint", "double", "string", "bytes", "google.protobuf.Timestamp", "google.protobuf.Duration",
)  # fmt: skip
_OTHERS = {"int": ("double", "uint"), "uint": ("double", "int"), "double": ("int", "uint")}
_PAIRS = tuple((type_, other) for type_ in _ORDERED for other in (type_, *_OTHERS.get(type_, ())))


def compare(left: Value, right: Value) -> int | None:
    """-1, 0, 1, or None for not-a-number. Raises EvaluationError for values that have no order between them."""
    if isinstance(left, bool) or isinstance(right, bool):
        if isinstance(left, bool) and isinstance(right, bool):
            return int(left) - int(right)
        raise EvaluationError("no such overload")
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return compare_numbers(left, right)
    if isinstance(left, str) and isinstance(right, str):
        return -1 if left < right else int(left > right)
    if isinstance(left, bytes) and isinstance(right, bytes):
        return -1 if left < right else int(left > right)
    if (isinstance(left, Timestamp) and isinstance(right, Timestamp)) or (
        isinstance(left, Duration) and isinstance(right, Duration)
    ):
        return -1 if left.nanoseconds < right.nanoseconds else int(left.nanoseconds > right.nanoseconds)
    raise EvaluationError("no such overload")


def _order(left: Value, right: Value) -> int:
    order = compare(left, right)
    if order is None:
        raise EvaluationError("NaN values cannot be ordered")
    return order


_ORDERINGS: Final[Mapping[str, Callable[[Value, Value], bool]]] = {
    "_<_": lambda left, right: _order(left, right) < 0,
    "_<=_": lambda left, right: _order(left, right) <= 0,
    "_>_": lambda left, right: _order(left, right) > 0,
    "_>=_": lambda left, right: _order(left, right) >= 0,
}
for _operator, _holds in _ORDERINGS.items():
    library.function(*(f"{_operator}({left}, {right}) -> bool" for left, right in _PAIRS))(_holds)


@library.function("_==_(<A>, <A>) -> bool", budget=True)
def operator_equals(budget: Budget, left: Value, right: Value) -> bool:
    """The value of ``==``. Raises EvaluationError for values that can't be compared, also within optionals."""
    first, second = left, right
    null_too = False
    while isinstance(first, Optional) and isinstance(second, Optional) and first.present and second.present:
        first, second = first.value, second.value
        null_too = True
    if incomparable(first, second, null_too=null_too):
        raise EvaluationError("no such overload")
    return equals(budget, left, right)


def equals_native(left: Value, right: Value) -> bool:
    """``left == right`` where the right side is known to be a bool, a number, a string or bytes."""
    if type(left) is type(right):
        return left == right
    if incomparable(left, right):
        raise EvaluationError("no such overload")
    return equal_scalars(left, right)


def differs_native(left: Value, right: Value) -> bool:
    """``left != right`` where either side is known to be one of those."""
    return not equal_scalars(left, right)


def equals(budget: Budget, left: Value, right: Value) -> bool:
    """Whether two values are equal, of whatever types."""
    return deep_equals(left, right, budget.spend)


@library.function("_!=_(<A>, <A>) -> bool", budget=True)
def differs(budget: Budget, left: Value, right: Value) -> bool:
    return not equals(budget, left, right)


# --- membership and indexing ---


@library.function("@in(<A>, list(<A>)) -> bool", budget=True)
def in_list(budget: Budget, value: Value, values: list[Value]) -> bool:
    if isinstance(value, (list, dict, Optional)):
        return any(equals(budget, value, other) for other in values)
    return any(equal_scalars(value, other) for other in budget.charged(values, _COMPARED))


@library.function("@in(<A>, map(<A>, <B>)) -> bool")
def in_map(key: Value, entries: dict[Value, Value]) -> bool:
    return is_key(entries, key)


_QUALIFIERS = (str, int, float)


def is_qualifier(key: Value) -> bool:
    """True if upstream accepts a value as an index: bools, numbers and strings."""
    return isinstance(key, _QUALIFIERS)


def invalid_qualifier(key: Value) -> str:
    return f"invalid qualifier type: {go_type(key)}"


def require_qualifier(key: Value) -> None:
    if not isinstance(key, _QUALIFIERS):
        raise EvaluationError(invalid_qualifier(key))


@library.function("_[_](map(<A>, <B>), <A>) -> <B>")
def index_map(entries: dict[Value, Value], key: Value) -> Value:
    require_qualifier(key)
    try:
        return entries[lookup_key(entries, key)]
    except KeyError:
        raise EvaluationError(f"no such key: {printed(key)}") from None


def _position(values: list[Value], index: Value) -> int | None:
    """The position that an index denotes, None if out of range. Raises EvaluationError for what is no index."""
    require_qualifier(index)
    if isinstance(index, float) and index.is_integer() and INT_MIN < index < INT_MAX:
        index = int(index)
    if isinstance(index, float) or (isinstance(index, UInt) and index > INT_MAX):
        raise EvaluationError(f"unsupported index value {printed(index)} in list")
    if isinstance(index, int) and not isinstance(index, bool):
        return index if 0 <= index < len(values) else None
    raise EvaluationError(f"unsupported index type '{type_name(index)}' in list")


@library.function("_[_](list(<A>), int) -> <A>")
def index_list(values: list[Value], index: Value) -> Value:
    place = _position(values, index)
    if place is None:
        raise EvaluationError(f"index out of bounds: {printed(index)}")
    return values[place]


@library.function(
    "_[_](optional_type(list(<V>)), int) -> optional_type(<V>)",
    "_[_](optional_type(map(<K>, <V>)), <K>) -> optional_type(<V>)",
    "_[?_](list(<V>), int) -> optional_type(<V>)",
    "_[?_](optional_type(list(<V>)), int) -> optional_type(<V>)",
    "_[?_](map(<K>, <V>), <K>) -> optional_type(<V>)",
    "_[?_](optional_type(map(<K>, <V>)), <K>) -> optional_type(<V>)",
)
def optional_index(container: Value, index: Value) -> Optional:
    if isinstance(container, Optional):
        if not container.present:
            return NONE
        container = container.value
    require_qualifier(index)
    if isinstance(container, dict):
        try:
            return Optional(True, container[lookup_key(container, index)])
        except KeyError:
            return NONE
    if isinstance(container, list):
        place = _position(container, index)
        return NONE if place is None else Optional(True, container[place])
    return NONE


def index(container: Value, key: Value) -> Value:
    """``container[key]`` where the container's type is known only at run time."""
    if isinstance(container, dict):
        return index_map(container, key)
    if isinstance(container, list):
        return index_list(container, key)
    if isinstance(container, Optional):
        return optional_index(container, key)
    require_qualifier(key)
    raise EvaluationError(f"no such key: {printed(key)}")


# An operand of unknown type, such as the element of [], gets the type of the first overload that fits, so the order is
# upstream's.

library.order(
    "_+_",
    *("bytes, bytes", "double, double", f"{_SPAN}, {_SPAN}", f"{_SPAN}, {_INSTANT}", f"{_INSTANT}, {_SPAN}"),
    *("int, int", "list(<A>), list(<A>)", "string, string", "uint, uint"),
)
library.order(
    "_-_",
    *("double, double", f"{_SPAN}, {_SPAN}", "int, int", f"{_INSTANT}, {_SPAN}", f"{_INSTANT}, {_INSTANT}"),
    "uint, uint",
)
library.order(
    "_[_]", "list(<A>), int", "map(<A>, <B>), <A>", "optional_type(list(<V>)), int", "optional_type(map(<K>, <V>)), <K>"
)
