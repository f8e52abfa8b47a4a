"""Optional values (L-2.4)."""

from __future__ import annotations

from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.functions.printing import printed
from virt_dra.cel.functions.registry import Library, no_such_overload
from virt_dra.cel.limits.budget import Budget
from virt_dra.cel.values import NONE, Optional, Value, is_zero

library = Library()


@library.function("optional.none() -> optional_type(<V>)")
def none() -> Optional:
    return NONE


@library.function("optional.of(<V>) -> optional_type(<V>)")
def of(value: Value) -> Optional:
    return Optional(True, value)


@library.function("optional.ofNonZeroValue(<V>) -> optional_type(<V>)")
def of_non_zero_value(value: Value) -> Optional:
    return NONE if is_zero(value) else Optional(True, value)


@library.function("optional_type(<V>)::hasValue() -> bool")
def has_value(value: Optional) -> bool:
    return value.present


@library.function("optional_type(<V>)::value() -> <V>")
def value_of(value: Optional) -> Value:
    if not value.present:
        raise EvaluationError("optional.none() dereference")
    return value.value


@library.function("optional_type(<V>)::or(optional_type(<V>)) -> optional_type(<V>)")
def either(value: Optional, other: Optional) -> Optional:
    return value if value.present else other


@library.function("optional_type(<V>)::orValue(<V>) -> <V>")
def or_value(value: Optional, other: Value) -> Value:
    return value.value if value.present else other


@library.function("optional.unwrap(list(optional_type(<V>))) -> list(<V>)", budget=True)
def unwrap(budget: Budget, values: list[Value]) -> list[Value]:
    return _unwrapped(budget, "optional.unwrap", values)


@library.function("list(optional_type(<V>))::unwrapOpt() -> list(<V>)", budget=True)
def unwrap_member(budget: Budget, values: list[Value]) -> list[Value]:
    return _unwrapped(budget, "unwrapOpt", values)


def _unwrapped(budget: Budget, name: str, values: list[Value]) -> list[Value]:
    if values and not isinstance(values[0], Optional):  # by which the overload is chosen
        raise EvaluationError(no_such_overload(name, values))
    unwrapped: list[Value] = []
    for value in budget.charged(values, 0.2):
        if not isinstance(value, Optional):
            raise EvaluationError(f"value {printed(value)} is not optional")
        if value.present:
            unwrapped.append(value.value)
    return unwrapped
