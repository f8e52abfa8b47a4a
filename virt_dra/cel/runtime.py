"""The run-time support of generated code besides library functions: selection, literals and macros."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from virt_dra.cel.errors import EvaluationError, InternalFault
from virt_dra.cel.functions.lists import SORT_BY, sorted_by
from virt_dra.cel.functions.operators import differs_native, equals_native, index, index_map, optional_index
from virt_dra.cel.functions.printing import printed
from virt_dra.cel.functions.registry import no_such_overload
from virt_dra.cel.limits.budget import Budget
from virt_dra.cel.values import NONE, Optional, Value, go_type, is_key, key_value, map_key

__all__ = [
    "boolean", "differs_native", "equals_native", "has", "has_key", "in_constants", "index", "macro_all",
    "macro_all_pairs", "macro_exists", "macro_exists_one", "macro_exists_one_pairs", "macro_exists_pairs",
    "macro_filter", "macro_map", "macro_sortBy", "macro_transformList_pairs", "macro_transformMapEntry_pairs",
    "macro_transformMap_pairs", "make_list", "make_map", "optional_flat_map", "optional_index", "optional_map",
    "optional_or", "optional_or_value", "optional_select", "select",
]  # fmt: skip

Body = Callable[..., Value]
Test = Callable[..., bool]
NO_SUCH_OVERLOAD = "no such overload"
UNFIT = (KeyError, IndexError, TypeError, AttributeError, ValueError, ArithmeticError)
"""Exceptions of library functions that mean that a value's type did not fit."""


def boolean(value: Value) -> bool:
    """The value, which must be a bool."""
    if value is True or value is False:
        return value is True
    raise EvaluationError("no such overload")


# --- selection ---


def _refuse_list(operand: Value) -> None:
    if isinstance(operand, list):
        raise EvaluationError("unsupported index type 'string' in list")


def select(operand: Value, name: str) -> Value:
    """``operand.name`` for a map, or where the operand's type is known only at run time."""
    if isinstance(operand, dict):
        return index_map(operand, name)
    if isinstance(operand, Optional):
        return optional_select(operand, name)
    _refuse_list(operand)
    raise EvaluationError(f"no such key: {name}")


def optional_select(operand: Value, name: str) -> Optional:
    """``operand.?name``."""
    if isinstance(operand, Optional):
        if not operand.present:
            return NONE
        operand = operand.value
    if isinstance(operand, dict):
        try:
            return Optional(True, operand[name])
        except KeyError:
            return NONE
    _refuse_list(operand)
    return NONE


def has_key(operand: dict[Value, Value], name: str) -> bool:
    """``has(map.name)``."""
    return name in operand or hasattr(type(operand), "__missing__")


def has(operand: Value, name: str) -> bool:
    """``has(operand.name)`` where the operand's type is known only at run time."""
    if isinstance(operand, Optional):
        return operand.present and has(operand.value, name)
    if isinstance(operand, dict):
        return has_key(operand, name)
    _refuse_list(operand)
    return False


# --- literals ---


def make_list(parts: list[tuple[int, Value]]) -> list[Value]:
    """A list literal with optional elements (marked 1)."""
    made: list[Value] = []
    for optional, value in parts:
        if optional:
            add_element(made, value)
        else:
            made.append(value)
    return made


def add_element(made: list[Value], value: Value) -> None:
    """Add an optional element to a list, if there is one."""
    if not isinstance(value, Optional):
        raise EvaluationError(f"cannot initialize optional list element from non-optional value {printed(value)}")
    if value.present:
        made.append(value.value)


def make_map(parts: list[tuple[int, Value, Value]]) -> dict[Value, Value]:
    """A map literal; of equal keys the last wins, as in cel-go."""
    made: dict[Value, Value] = {}
    for optional, key, value in parts:
        add_entry(made, bool(optional), key, value)
    return made


def add_entry(made: dict[Value, Value], optional: bool, key: Value, value: Value) -> None:
    """Add an entry to a map. As in cel-go, an absent optional removes an earlier entry of the same key."""
    if optional:
        if not isinstance(value, Optional):
            raise EvaluationError(
                f"cannot initialize optional entry '{printed(key)}' from non-optional value {printed(value)}"
            )
        if not value.present:
            try:
                made.pop(map_key(key), None)
            except InternalFault:
                raise InternalFault(f"hash of unhashable type: {go_type(key)}") from None
            return
        value = value.value
    made[map_key(key)] = value


def in_constants(value: Value, constants: frozenset[Value]) -> bool:
    """``value in [literals]``. Upstream uses a hash table, so this fails for types that it can't hash."""
    return map_key(value) in constants


# --- macros ---


def elements(budget: Budget, over: Value, weight: float) -> Iterable[Value]:
    """A list's elements, or a map's keys; ``weight``: microseconds of a step."""
    if isinstance(over, list):
        return budget.loop(over, weight)
    if isinstance(over, dict):
        return budget.loop([key_value(key) for key in over], weight)
    raise EvaluationError(f"got '{go_type(over)}', expected iterable type")


def pairs(budget: Budget, over: Value, weight: float) -> Iterable[tuple[Value, Value]]:
    """A list's positions and elements, or a map's entries."""
    if isinstance(over, list):
        return enumerate(budget.loop(over, weight))
    if isinstance(over, dict):
        return budget.loop([(key_value(key), value) for key, value in over.items()], weight)
    raise EvaluationError(f"unsupported comprehension range type: {go_type(over)}")


def macro_all(budget: Budget, weight: float, over: Value, body: Test) -> bool:
    return all(map(body, elements(budget, over, weight)))


def macro_all_pairs(budget: Budget, weight: float, over: Value, body: Test) -> bool:
    return all(body(key, value) for key, value in pairs(budget, over, weight))


def macro_exists(budget: Budget, weight: float, over: Value, body: Test) -> bool:
    return any(map(body, elements(budget, over, weight)))


def macro_exists_pairs(budget: Budget, weight: float, over: Value, body: Test) -> bool:
    return any(body(key, value) for key, value in pairs(budget, over, weight))


def macro_exists_one(budget: Budget, weight: float, over: Value, body: Test) -> bool:
    return sum(map(body, elements(budget, over, weight))) == 1


def macro_exists_one_pairs(budget: Budget, weight: float, over: Value, body: Test) -> bool:
    return sum(body(key, value) for key, value in pairs(budget, over, weight)) == 1


def macro_filter(budget: Budget, weight: float, over: Value, body: Test) -> list[Value]:
    return [element for element in elements(budget, over, weight) if body(element)]


def macro_map(budget: Budget, weight: float, over: Value, body: Body, condition: Test | None) -> list[Value]:
    return [body(element) for element in elements(budget, over, weight) if condition is None or condition(element)]


def macro_transformList_pairs(
    budget: Budget, weight: float, over: Value, body: Body, condition: Test | None
) -> list[Value]:
    return [
        body(key, value) for key, value in pairs(budget, over, weight) if condition is None or condition(key, value)
    ]


INSERTION: Final = 2.0
"""Microseconds of work to add an entry to a map (measured)."""


def macro_transformMap_pairs(
    budget: Budget, weight: float, over: Value, body: Body, condition: Test | None
) -> dict[Value, Value]:
    made: dict[Value, Value] = {}
    for key, value in pairs(budget, over, weight + INSERTION):
        if condition is None or condition(key, value):
            insert(made, key, body(key, value))
    return made


def macro_transformMapEntry_pairs(
    budget: Budget, weight: float, over: Value, body: Body, condition: Test | None
) -> dict[Value, Value]:
    made: dict[Value, Value] = {}
    for key, value in pairs(budget, over, weight):
        if condition is not None and not condition(key, value):
            continue
        entries = body(key, value)
        if not isinstance(entries, dict):
            raise EvaluationError("no such overload")
        budget.spend(len(entries) * INSERTION)
        for new_key, new_value in entries.items():
            insert(made, key_value(new_key), new_value)
    return made


def insert(made: dict[Value, Value], key: Value, value: Value) -> None:
    """Add an entry whose key must be new, also compared with numbers of other types."""
    if is_key(made, key):
        raise EvaluationError(f"insert failed: key {printed(key)} already exists")
    made[map_key(key)] = value


def macro_sortBy(budget: Budget, weight: float, over: Value, body: Body) -> list[Value]:
    keyed = [(value, body(value)) for value in elements(budget, over, weight)]
    if not isinstance(over, list):
        raise EvaluationError(f"no such overload: {SORT_BY}")
    return sorted_by(budget, [value for value, _ in keyed], [key for _, key in keyed])


def optional_or(target: Value, other: Callable[[], Value]) -> Value:
    """``target.or(other)``; the other one is evaluated only if needed."""
    if not isinstance(target, Optional):
        raise EvaluationError("no such overload")
    if target.present:
        return target
    instead = other()
    if not isinstance(instead, Optional):
        raise EvaluationError("no such overload")
    return instead


def optional_or_value(target: Value, other: Callable[[], Value]) -> Value:
    """``target.orValue(other)``; the other one is evaluated only if needed."""
    if not isinstance(target, Optional):
        raise EvaluationError("no such overload")
    return target.value if target.present else other()


def _require_optional(target: Value) -> Optional:
    """The target of optMap or optFlatMap, whose first step is hasValue()."""
    if isinstance(target, Optional):
        return target
    raise EvaluationError(no_such_overload("hasValue", target))


def optional_map(target: Value, body: Body) -> Optional:
    """``target.optMap(variable, body)``."""
    target = _require_optional(target)
    return Optional(True, body(target.value)) if target.present else NONE


def optional_flat_map(target: Value, body: Body) -> Value:
    """``target.optFlatMap(variable, body)``."""
    target = _require_optional(target)
    return body(target.value) if target.present else NONE
