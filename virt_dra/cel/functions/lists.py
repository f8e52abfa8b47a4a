"""Functions on lists: Kubernetes' list library 1, the lists extension 3, and sets (L-2.7, L-2.8, L-2.10)."""

from __future__ import annotations

from functools import cmp_to_key, reduce
from itertools import pairwise

from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.functions.operators import ADDITIONS, compare, equals, later
from virt_dra.cel.functions.registry import Library
from virt_dra.cel.limits.budget import Budget
from virt_dra.cel.values import NONE, Duration, Optional, Timestamp, UInt, Value, type_name

library = Library()

_ORDERED = ("int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp", "string", "bytes")


_SORTED = 0.7
_ORDERING = 0.7
_VISITED = 0.1
"""Microseconds of work: for a comparison while sorting, for comparing an element with others, for visiting one."""
_POINTED = 16
"""Bytes of an element and, halved for those that are shared, of the number it is."""


def _order(left: Value, right: Value) -> int:
    return compare(left, right) or 0


def _loose_order(value: Value, other: Value) -> int:
    """Order as upstream's: pairs without an order are skipped, a value without an order to any other is an error."""
    if type_name(value) not in _ORDERED:
        raise EvaluationError("no such overload")
    try:
        return _order(value, other)
    except EvaluationError:
        return 0


def sorted_by(budget: Budget, values: list[Value], keys: list[Value]) -> list[Value]:
    """The values by their keys; equal keys keep their order. Raises EvaluationError for several or orderless types."""
    budget.spend(len(values) * max(1, len(values).bit_length()) * _SORTED)
    budget.grow(2 * len(values))
    if keys and type_name(keys[0]) not in _ORDERED:
        raise EvaluationError("list elements must be comparable")
    if len({type_name(key) for key in keys}) > 1:
        raise EvaluationError("list elements must have the same type")
    ordered = cmp_to_key(_order)
    return [value for _, value in sorted(zip(keys, values, strict=True), key=lambda pair: ordered(pair[0]))]


@library.function(*(f"list({kind})::sort() -> list({kind})" for kind in _ORDERED), budget=True)
def sort(budget: Budget, values: list[Value]) -> list[Value]:
    return sorted_by(budget, values, values)


@library.function(*(f"list({kind})::isSorted() -> bool" for kind in _ORDERED), budget=True)
def is_sorted(budget: Budget, values: list[Value]) -> bool:
    return all(_loose_order(after, before) >= 0 for before, after in pairwise(budget.charged(values, _ORDERING)))


def _declare_sum(kind: str, zero: Value) -> None:
    """Declare sum for one element type: the sum of an empty list is the zero of its static type."""

    @library.function(f"list({kind})::sum() -> {kind}", budget=True)
    def total(budget: Budget, values: list[Value]) -> Value:
        if not values:
            return zero
        return reduce(_plus, budget.charged(values, _ORDERING), zero)


def _plus(total: Value, value: Value) -> Value:
    """The sum with one more element. To durations one timestamp may be added, and to that further durations."""
    if isinstance(total, Timestamp) and isinstance(value, Duration):
        return later(total, value)
    if isinstance(total, Duration) and isinstance(value, Timestamp):
        return later(value, total)
    kind = type_name(total)
    if kind not in ADDITIONS or type_name(value) != kind:
        raise EvaluationError("no such overload")
    return ADDITIONS[kind](total, value)


_declare_sum("int", 0)
_declare_sum("uint", UInt(0))
_declare_sum("double", 0.0)
_declare_sum("google.protobuf.Duration", Duration(0))


def _extreme(budget: Budget, values: list[Value], wanted: int, name: str) -> Value:
    if not values:
        raise EvaluationError(f"{name} called on empty list")
    best = values[0]
    for value in budget.charged(values, _ORDERING, start=1):
        if _loose_order(value, best) * wanted > 0:
            best = value
    return best


@library.function(*(f"list({kind})::max() -> {kind}" for kind in _ORDERED), budget=True)
def largest(budget: Budget, values: list[Value]) -> Value:
    return _extreme(budget, values, 1, "max")


@library.function(*(f"list({kind})::min() -> {kind}" for kind in _ORDERED), budget=True)
def smallest(budget: Budget, values: list[Value]) -> Value:
    return _extreme(budget, values, -1, "min")


@library.function("list(<A>)::indexOf(<A>) -> int", budget=True)
def index_of(budget: Budget, values: list[Value], wanted: Value) -> int:
    return next((place for place, value in enumerate(values) if equals(budget, value, wanted)), -1)


@library.function("list(<A>)::lastIndexOf(<A>) -> int", budget=True)
def last_index_of(budget: Budget, values: list[Value], wanted: Value) -> int:
    return next((place for place in range(len(values) - 1, -1, -1) if equals(budget, values[place], wanted)), -1)


@library.function("dyn::includes(dyn) -> bool", budget=True)
def includes(budget: Budget, value: Value, wanted: Value) -> bool:
    """True if a list contains the value, or anything else equals it (L-2.10)."""
    if isinstance(value, list):
        return any(equals(budget, element, wanted) for element in value)
    return equals(budget, value, wanted)


# --- the lists extension ---


@library.function("list(<T>)::slice(int, int) -> list(<T>)", budget=True)
def part(budget: Budget, values: list[Value], start: int, end: int) -> list[Value]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(values):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    budget.grow(end - start)
    return values[start:end]


@library.function("list(list(<T>))::flatten() -> list(<T>)", "list(dyn)::flatten(int) -> list(dyn)", budget=True)
def flatten(budget: Budget, values: list[Value], depth: int = 1) -> list[Value]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    for _ in range(depth):
        if not any(isinstance(value, list) for value in budget.charged(values, _VISITED)):
            break
        flat: list[Value] = []
        for value in budget.charged(values, _VISITED):
            if isinstance(value, list):
                budget.grow(len(value))
                flat.extend(value)
            else:
                flat.append(value)
        values = flat
    return values


@library.function("list(<T>)::distinct() -> list(<T>)", budget=True)
def distinct(budget: Budget, values: list[Value]) -> list[Value]:
    kept: list[Value] = []
    for value in values:
        if not any(equals(budget, value, other) for other in kept):
            kept.append(value)
    return kept


SORT_BY = "@sortByAssociatedKeys"
"""The function that the macro sortBy expands to: takes the list, and the key of each element."""

library.declare(*(f"list(<T>)::{SORT_BY}(list({key})) -> list(<T>)" for key in _ORDERED))

RANGE_LIMIT = 1_000_000
"""Elements that one range may have, as in cel-go."""


@library.function("lists.range(int) -> list(int)", budget=True)
def integers(budget: Budget, count: int) -> list[int]:
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > RANGE_LIMIT:
        raise EvaluationError(f"lists.range: size {count} exceeds maximum allowed ({RANGE_LIMIT})")
    budget.grow(count, _POINTED)
    return list(range(count))


@library.function("list(<T>)::reverse() -> list(<T>)", budget=True)
def reverse(budget: Budget, values: list[Value]) -> list[Value]:
    budget.grow(len(values))
    return values[::-1]


library.define(
    {
        "list(<V>)::first() -> optional_type(<V>)": lambda values: Optional(True, values[0]) if values else NONE,
        "list(<V>)::last() -> optional_type(<V>)": lambda values: Optional(True, values[-1]) if values else NONE,
    }
)


# --- sets ---


@library.function("sets.contains(list(<T>), list(<T>)) -> bool", budget=True)
def contains_all(budget: Budget, values: list[Value], wanted: list[Value]) -> bool:
    return all(any(equals(budget, element, value) for value in values) for element in wanted)


@library.function("sets.equivalent(list(<T>), list(<T>)) -> bool", budget=True)
def equivalent(budget: Budget, left: list[Value], right: list[Value]) -> bool:
    return contains_all(budget, left, right) and contains_all(budget, right, left)


@library.function("sets.intersects(list(<T>), list(<T>)) -> bool", budget=True)
def intersects(budget: Budget, left: list[Value], right: list[Value]) -> bool:
    return any(equals(budget, element, other) for element in left for other in right)
