"""Optional values (L-2.4)."""

from __future__ import annotations

from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.functions.printing import printed
from virt_dra.cel.functions.registry import Library, no_such_overload
from virt_dra.cel.limits.budget import Budget
from virt_dra.cel.values import NONE, Optional, Value, is_zero

library = Library()


library.define(
    {
        "optional.none() -> optional_type(<V>)": lambda: NONE,
        "optional.of(<V>) -> optional_type(<V>)": lambda value: Optional(True, value),
        "optional.ofNonZeroValue(<V>) -> optional_type(<V>)": lambda value: (
            NONE if is_zero(value) else Optional(True, value)
        ),
        "optional_type(<V>)::hasValue() -> bool": lambda value: value.present,
        "optional_type(<V>)::or(optional_type(<V>)) -> optional_type(<V>)": lambda value, other: (
            value if value.present else other
        ),
        "optional_type(<V>)::orValue(<V>) -> <V>": lambda value, other: value.value if value.present else other,
    }
)


@library.function("optional_type(<V>)::value() -> <V>")
def value_of(value: Optional) -> Value:
    if not value.present:
        raise EvaluationError("optional.none() dereference")
    return value.value


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
