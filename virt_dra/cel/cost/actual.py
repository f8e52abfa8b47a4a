"""The run-time cost of a call, given its arguments and its result (L-4.3).

Failures among them count as values of size 1, as upstream. Kubernetes' libraries define costs by function name,
cel-go's by overload; where several overloads fit the static types, no cost of cel-go applies and the call costs 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from virt_dra.api.quantity import Quantity
from virt_dra.api.semver import SemVer
from virt_dra.cel.functions.formats import NamedFormat
from virt_dra.cel.functions.network import CIDR, IP
from virt_dra.cel.functions.registry import Overload
from virt_dra.cel.functions.urls import URL
from virt_dra.cel.types import BYTES, STRING, TypeKind
from virt_dra.cel.values import Optional, Value

CallCost: TypeAlias = Callable[[Sequence[Value], Value], int]

STRING_FACTOR: Final = 0.1
REGEX_FACTOR: Final = 0.25
LIST_BASE: Final = 10
MAP_BASE: Final = 30


def tenth(size: int) -> int:
    """The cost of traversing a text once."""
    return math.ceil(size * STRING_FACTOR)


def size_of(value: Value) -> int:
    """The size of a value for the libraries' costs."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    if isinstance(value, (IP, CIDR)):
        return value.size()
    return 1


def operand_size(value: Value) -> int:
    """The size of a value for cel-go's own operators, which unwrap optionals."""
    while isinstance(value, Optional) and value.present:
        value = value.value
    return size_of(value)


def traversal(value: Value, spend: Callable[[float], None]) -> int:
    """The cost of traversing a value with everything in it. Texts count by their bytes, rounded down.

    The work is charged to ``spend``, since the cost does not bound it: values may share parts any number of times, and
    short texts cost nothing.
    """
    total = 0
    stack = [value]
    visited = 0
    while stack:
        item = stack.pop()
        visited += 1
        if visited % _VISITED_AT_ONCE == 0:
            spend(_VISITED_AT_ONCE * _PER_VISIT)
        if isinstance(item, str):
            total += int(len(item.encode("utf-8", "surrogatepass")) * STRING_FACTOR)
        elif isinstance(item, bytes):
            total += int(len(item) * STRING_FACTOR)
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            for key, held in item.items():
                stack.append(key)
                stack.append(held)
        else:
            total += 1
    return total


_VISITED_AT_ONCE: Final = 500
_PER_VISIT: Final = 0.2


def walk(arguments: Sequence[Value], result: Value, spend: Callable[[float], None] = lambda _: None) -> int:
    """Traverse the first operand with everything in it."""
    return traversal(arguments[0], spend)


def _twice(size: int) -> int:
    return math.ceil(size * 2 * STRING_FACTOR)


def _regex(text: int, pattern: int) -> int:
    return math.ceil((1.0 + text) * STRING_FACTOR) * math.ceil(pattern * REGEX_FACTOR)


def _validate(arguments: Sequence[Value], result: Value) -> int:
    given = arguments[0]
    return _regex(size_of(arguments[1]), given.pattern_size) if isinstance(given, NamedFormat) else 1


def compared(arguments: Sequence[Value], result: Value) -> int:
    """Comparisons of texts, and equality of values other than those of Kubernetes' libraries."""
    return tenth(min(operand_size(arguments[0]), operand_size(arguments[1])))


_OWN: Final = (Quantity, IP, CIDR, NamedFormat, URL, SemVer)


def equality(arguments: Sequence[Value], result: Value) -> int:
    """``==``: 1 for values of Kubernetes' libraries, else the smaller of the two sizes."""
    return 1 if isinstance(arguments[0], _OWN) else compared(arguments, result)


# --- lists and sets: what a call builds ---


def _built(factor: float, size: int) -> int:
    return min(int(size * (1.0 if factor < 0.0 else factor)), 1 << 63) + 1 + LIST_BASE


def _flattened(arguments: Sequence[Value], result: Value) -> int:
    depth = arguments[1] if len(arguments) == 2 else 1
    return _built(float(depth) if isinstance(depth, int) else 1.0, size_of(arguments[0]))


def _self_compared(values: Value) -> int:
    """Comparing every element with every other."""
    if not isinstance(values, list) or not values:
        return _built(2.0, 0)
    return _built(2.0 + STRING_FACTOR if isinstance(values[0], (str, bytes)) else 2.0, len(values) ** 2)


def sorted_by_keys(arguments: Sequence[Value], result: Value) -> int:
    """``sortBy``: arguments are the list and its keys."""
    return _self_compared(arguments[1])


# --- the authorizer: no value here has its types, but its functions' costs still count ---

AUTHORIZER_CHECK: Final = 350_000
REQUIREMENTS: Final = 0.5
"""The number of requirements that upstream assumes for each character of a field or label selector."""
REQUIREMENT: Final = LIST_BASE + 40


def _selector(arguments: Sequence[Value], result: Value) -> int:
    size = size_of(arguments[1])
    return LIST_BASE + tenth(size) + math.ceil(math.ceil(size * REQUIREMENTS) * REQUIREMENT)


_BY_NAME: Final[Mapping[str, CallCost]] = {
    "check": lambda given, _: AUTHORIZER_CHECK,
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), walk),
    **dict.fromkeys(
        (
            *("url", "lowerAscii", "upperAscii", "substring", "trim"),
            *("cidr", "ip", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"),
        ),
        lambda given, _: tenth(size_of(given[0])),
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), lambda given, _: _twice(size_of(given[0]))),
    **dict.fromkeys(("find", "findAll"), lambda given, _: _regex(size_of(given[0]), size_of(given[1]))),
    "join": lambda _, result: _twice(size_of(result)),
    "containsIP": lambda given, _: tenth(2 * size_of(given[0])),
    "containsCIDR": lambda given, _: tenth(2 * size_of(given[0])) + tenth(size_of(given[0])) + 1,
    "validate": _validate,
}
"""Costs in Kubernetes' libraries, by function name, for any overload."""

_BY_OVERLOAD: Final[Mapping[str, CallCost]] = {
    **dict.fromkeys(("slice", "lists.range", "reverse"), lambda _, result: _built(1, size_of(result))),
    **dict.fromkeys(("distinct", "sort"), lambda given, _: _self_compared(given[0])),
    **dict.fromkeys(("startsWith", "endsWith"), lambda given, _: tenth(operand_size(given[1]))),
    **dict.fromkeys(("strings.quote", "format"), lambda given, _: tenth(operand_size(given[0]))),
    **dict.fromkeys(("sets.contains", "sets.intersects"), lambda given, _: 1 + size_of(given[0]) * size_of(given[1])),
    "sets.equivalent": lambda given, _: 1 + 2 * size_of(given[0]) * size_of(given[1]),
    "flatten": _flattened,
    "matches": lambda given, _: _regex(operand_size(given[0]), operand_size(given[1])),
    "contains": lambda given, _: tenth(operand_size(given[0])) * tenth(operand_size(given[1])),
}
"""Costs in cel-go and its extensions, which apply where exactly one overload fits."""

_ORDERINGS: Final = frozenset(("_<_", "_<=_", "_>_", "_>=_"))
_TEXTS: Final = (STRING, BYTES)


def call_cost(function: str, overloads: Sequence[Overload]) -> CallCost | None:
    """The cost function for a call with these overloads, which fit its static types; None: it costs 1."""
    single = overloads[0] if len(overloads) == 1 else None
    if function in ("_==_", "_!=_"):
        return equality if function == "_==_" else compared
    if single is not None:
        cost = _BY_OVERLOAD.get(function)
        if cost is not None:
            return cost
        if function in ("containsIP", "containsCIDR") and single.params[-1] is STRING:
            base = _BY_NAME[function]
            return lambda given, result: base(given, result) + tenth(size_of(given[1]))
        if function == "ip" and single.member:
            return None
    named = _BY_NAME.get(function)
    if named is not None:
        return named
    return _by_params(function, single) if single is not None else None


def _by_params(function: str, overload: Overload) -> CallCost | None:
    params = overload.params
    if function == "@in":
        return (lambda given, _: operand_size(given[1])) if params[1].kind is TypeKind.LIST else None
    if function in _ORDERINGS and params[0] in _TEXTS and params[0] is params[1]:
        return compared
    if function == "_+_" and params[0] in _TEXTS:
        return lambda given, _: tenth(operand_size(given[0]) + operand_size(given[1]))
    if (function == "bytes" and params[0] is STRING) or (function == "string" and params[0] is BYTES):
        return lambda given, _: tenth(operand_size(given[0]))
    return None
