"""The static estimate of a call: its worst-case cost and the size of its result, from the sizes of its operands (L-4.2,
L-4.3).

Kubernetes' libraries come first (save where an extension's own estimate does), then cel-go's operators; anything else
costs 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from virt_dra.cel.cost.actual import AUTHORIZER_CHECK, LIST_BASE, REGEX_FACTOR, REQUIREMENT, REQUIREMENTS, STRING_FACTOR
from virt_dra.cel.cost.expansion import ConstantExpr, Expr
from virt_dra.cel.cost.sizes import MAXIMUM, ONE, UNKNOWN, Size, ValuePath, add, multiply, scale, whole, wrapped
from virt_dra.cel.functions.lists import SORT_BY
from virt_dra.cel.types import BYTES, INT, STRING, Type, TypeKind


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand with its path and size, as far as they are known."""

    expr: Expr
    path: ValuePath | None
    computed: Size | None
    declared: Callable[[ValuePath], Size | None]

    @property
    def type(self) -> Type:
        return self.expr.type

    @property
    def size(self) -> Size:
        """Its size: computed, else declared for its path, else unknown."""
        if self.computed is not None:
            return self.computed
        return self._at(self.path)

    def _at(self, path: ValuePath | None) -> Size:
        declared = self.declared(path) if path is not None else None
        return UNKNOWN if declared is None else declared

    def element_size(self) -> Size:
        """The declared size of a list's element."""
        return self._at(ValuePath.of_steps([*self.path.steps(), "@items"]) if self.path is not None else None)


class OverloadCall(NamedTuple):
    """A call by one of its overloads, whose parameters (with the receiver's type) are ``params``."""

    function: str
    params: tuple[Type, ...]
    target: Operand | None
    args: Sequence[Operand]

    @property
    def operands(self) -> list[Operand]:
        return [*([self.target] if self.target is not None else []), *self.args]


class Estimate(NamedTuple):
    """The cost without the operands', and the size of the result, if the function says it."""

    cost: int
    size: Size | None = None


Estimator: TypeAlias = Callable[[OverloadCall], Estimate | None]
_NOMINAL: Final = Estimate(1)


def _text(size: Size) -> int:
    return scale(size.most, STRING_FACTOR)


def _regex(text: Size, pattern: Size) -> int:
    return multiply(scale(add(text.most, 1), STRING_FACTOR), scale(pattern.most, REGEX_FACTOR))


# --- lists and sets ---


def _built(factor: float, size: Size) -> Estimate:
    return Estimate(add(scale(size.most, factor), 1 + LIST_BASE), size)


def _integer(operand: Operand, default: int) -> int:
    """An integer literal's value, 0 if negative; the default for any other expression."""
    if not isinstance(operand.expr, ConstantExpr) or operand.type is not INT or not isinstance(operand.expr.value, int):
        return default
    return max(operand.expr.value, 0)


def _slice(call: OverloadCall) -> Estimate:
    whole_list, start, end = call.operands
    length = wrapped(_integer(end, whole_list.size.most) - _integer(start, 0))
    return _built(1, Size(length, length))


def _range(call: OverloadCall) -> Estimate:
    length = _integer(call.args[0], MAXIMUM)
    return _built(1, Size(length, length))


def _flatten(call: OverloadCall) -> Estimate:
    depth = _integer(call.args[0], MAXIMUM) if call.args else 1
    return _built(float(depth), call.operands[0].size)


def _squared(size: Size, element: Type) -> Estimate:
    return _built(2.0 + (STRING_FACTOR if element in (STRING, BYTES) else 0.0), size.times(size))


def _sets(factor: float) -> Estimator:
    return lambda call: Estimate(add(scale(call.args[0].size.times(call.args[1].size).most, factor), 1))


def _walk(call: OverloadCall) -> Estimate | None:
    """The estimate of ``sum``, ``min``, ``indexOf`` …: every element once, with its text if that is what it is."""
    if call.target is None:
        return None
    size, target = call.target.size, call.target
    if target.type.params:
        per_element = 1
        if target.type.params[0] in (STRING, BYTES):
            per_element = add(per_element, _text(target.element_size()))
        return Estimate(multiply(size.most, per_element))
    return Estimate(size.most if call.function == "includes" else _text(size))


# --- texts ---


def _scan(call: OverloadCall) -> Estimate:
    size = call.operands[0].size
    return Estimate(_text(size), size)


def _replace(call: OverloadCall) -> Estimate:
    text, old, new = (operand.size for operand in call.operands[:3])
    most = kept_most = least = kept_least = 0
    if old.least == 0:
        most, kept_most = add(text.most, 1), text.most
    elif new.most <= old.least:
        kept_most = text.most
    else:
        most = whole(math.ceil(float(text.most) / float(old.least)))
    if old.most == 0:
        least, kept_least = add(text.least, 1), text.least
    elif old.most <= new.least:
        kept_least = text.least
    else:
        least = whole(math.ceil(float(text.least) / float(old.most)))
    result = Size(least, most).times(new).plus(Size(kept_least, kept_most))
    return Estimate(scale(text.most, 2 * STRING_FACTOR), result)


def _split(call: OverloadCall) -> Estimate:
    text = call.operands[0].size
    most = text.most
    if len(call.args) > 1:
        limit = call.args[1].expr
        if isinstance(limit, ConstantExpr) and isinstance(limit.value, int) and limit.type is INT:
            most = wrapped(limit.value)
    return Estimate(scale(text.most, 2 * STRING_FACTOR), Size(0, most))


def _join(call: OverloadCall) -> Estimate:
    parts = call.operands[0]
    count, total = parts.size, Size(0, 0)
    if parts.type.params:
        total = count.times(parts.element_size())
    if call.args:
        total = total.plus(call.args[0].size.times(Size(max(count.least - 1, 0), max(count.most - 1, 0))))
    return Estimate(_text(total), total)


def _find(call: OverloadCall) -> Estimate:
    text = call.operands[0].size
    return Estimate(_regex(text, call.args[0].size), Size(0, text.most))


def _quote(call: OverloadCall) -> Estimate:
    size = call.args[0].size
    return Estimate(_text(size), Size(wrapped(size.least + 2), wrapped(size.most * 2 + 2)))


def _convert(call: OverloadCall) -> Estimate:
    """The estimate of ``bytes(string)`` and ``string(bytes)``: a character takes up to four bytes."""
    size = call.args[0].size
    if call.function == "bytes" and call.params[0] is STRING:
        return Estimate(_text(size), Size(size.least, wrapped(size.most * 4)))
    if call.function == "string" and call.params[0] is BYTES:
        return Estimate(_text(size), Size(size.least // 4, size.most))
    return _NOMINAL


# --- addresses and formats ---

_ADDRESS: Final = scale(32, STRING_FACTOR)
_PREFIX: Final = _ADDRESS + scale(16, STRING_FACTOR) + 1
_PATTERN: Final = 128 * REGEX_FACTOR


def _within(call: OverloadCall) -> Estimate:
    base = _ADDRESS if call.function == "containsIP" else _PREFIX
    return Estimate(add(base, _text(call.args[0].size)) if call.params[-1] is STRING else base)


# --- operators ---


def _add(call: OverloadCall) -> Estimate:
    """Lists are concatenated without copying."""
    text, size = call.params[0] in (STRING, BYTES), call.args[0].size.plus(call.args[1].size)
    if not text and call.params[0].kind is not TypeKind.LIST:
        return _NOMINAL
    return Estimate(_text(size) if text else 1, size)


def _compared(call: OverloadCall) -> Estimate:
    return Estimate(scale(min(call.args[0].size.most, call.args[1].size.most), STRING_FACTOR))


def _ordered(call: OverloadCall) -> Estimate:
    texts = call.params[0] in (STRING, BYTES) and call.params[0] is call.params[1]
    return _compared(call) if texts else _NOMINAL


_UNIT: Final = frozenset(("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"))


def _equal(call: OverloadCall) -> Estimate:
    left, right = call.args
    if left.type is right.type:
        name = left.type.name
        if name in _UNIT:
            return _NOMINAL
        if name == "kubernetes.NamedFormat":
            return Estimate(scale(64, STRING_FACTOR))
        if name == "kubernetes.URL":
            return Estimate(_text(right.computed or ONE))
    return _compared(call)


def _selector(call: OverloadCall) -> Estimate:
    size = call.args[0].size
    return Estimate(add(add(LIST_BASE, _text(size)), scale(scale(size.most, REQUIREMENTS), REQUIREMENT)))


_ESTIMATORS: Final[Mapping[str, Estimator]] = {
    "check": lambda call: Estimate(AUTHORIZER_CHECK),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _walk),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _scan),
    **dict.fromkeys(
        ("cidr", "ip", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"),
        lambda call: Estimate(_text(call.args[0].size)) if call.args else _NOMINAL,
    ),
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("containsIP", "containsCIDR"), _within),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _sets(1)),
    **dict.fromkeys(("startsWith", "endsWith"), lambda call: Estimate(_text(call.args[0].size))),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _ordered),
    **dict.fromkeys(("bytes", "string"), _convert),
    "sets.equivalent": _sets(2),
    "ip.isCanonical": lambda call: Estimate(scale(call.args[0].size.most, 2 * STRING_FACTOR)),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "validate": lambda call: Estimate(scale(_text(call.args[0].size), _PATTERN)),
    "slice": _slice,
    "lists.range": _range,
    "reverse": lambda call: _built(1, call.operands[0].size),
    "flatten": _flatten,
    "distinct": lambda call: _squared(call.operands[0].size, INT),
    "sort": lambda call: _squared(call.operands[0].size, call.params[0].params[0]),
    SORT_BY: lambda call: _squared(call.args[0].size, call.params[1]),
    "matches": lambda call: Estimate(_regex(call.operands[0].size, call.operands[1].size)),
    "contains": lambda call: Estimate(multiply(*(_text(operand.size) for operand in call.operands))),
    "format": lambda call: Estimate(_text(call.operands[0].size)),
    "strings.quote": _quote,
    "@in": lambda call: Estimate(call.args[1].size.most) if call.params[1].kind is TypeKind.LIST else _NOMINAL,
    "_+_": _add,
    "_==_": _equal,
    "_!=_": _compared,
    # the cost is that of the operands, which the estimate adds
    "_?_:_": lambda call: Estimate(0, call.args[1].size.union(call.args[2].size)),
}


def estimate_call(call: OverloadCall) -> Estimate:
    """The estimate for one overload of a function; 1 for a function without an estimate of its own."""
    estimator = _ESTIMATORS.get(call.function)
    return (estimator(call) if estimator is not None else None) or _NOMINAL
