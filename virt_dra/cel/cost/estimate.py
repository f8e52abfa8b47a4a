"""The static estimate: the worst-case cost of an expression, from its text and the declared sizes of its input (L-4.1,
L-4.2).

It follows upstream's estimator step by step, because the result depends on the order in which sizes become known: sizes
and paths are stored by expression, and bound variables take those of the expressions they are bound to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from virt_dra.cel.cost.actual import LIST_BASE, MAP_BASE
from virt_dra.cel.cost.call_estimate import Operand, OverloadCall, estimate_call
from virt_dra.cel.cost.declared import Declared, declared_size
from virt_dra.cel.cost.expansion import (
    CallExpr,
    ConstantExpr,
    Expr,
    FieldExpr,
    FoldExpr,
    LetExpr,
    ListExpr,
    MapExpr,
    NameExpr,
    expand,
)
from virt_dra.cel.cost.sizes import ONE, UNKNOWN, ContentSizes, Size, ValuePath, add, multiply
from virt_dra.cel.syntax.nodes import SyntaxNode, Variable
from virt_dra.cel.syntax.steps import Step, run
from virt_dra.cel.types import BOOL, DOUBLE, DURATION, INT, TIMESTAMP, UINT, Type, TypeKind

_SCALARS = (BOOL, DOUBLE, DURATION, INT, TIMESTAMP, UINT)


def estimate_cost(root: SyntaxNode, variables: Mapping[str, Declared], *, every_selection: bool = False) -> int:
    """The most that evaluating a checked tree may cost; 2**64 - 1 where nothing bounds it.

    ``variables``: their declared sizes. ``every_selection``: count selections from values of unknown type, too, which
    the evaluation counts and upstream's estimate doesn't.
    """
    return _Estimator(variables, every_selection).estimate(expand(root))


@dataclass(slots=True)
class _Bound:
    """The path, size and content of a bound variable, as far as known."""

    path: ValuePath | None
    size: Size | None
    entry: ContentSizes | None = None


class _Estimator:
    def __init__(self, variables: Mapping[str, Declared], every_selection: bool) -> None:
        self._variables = variables
        self._every_selection = every_selection
        self._scopes: dict[str, list[_Bound]] = {}
        """The visible bound variables by name; as upstream, their sizes are forgotten at the end of their scope."""
        self._paths: dict[Expr, ValuePath | None] = {}
        self._sizes: dict[Expr, Size] = {}
        self._entries: dict[Expr, ContentSizes] = {}
        self._costs: dict[Expr, int] = {}
        """Memoized costs, for expressions that occur twice (a macro's repeated target)."""

    def estimate(self, root: Expr) -> int:
        cost: int = run(self._cost(root))
        return cost

    # --- what is known of an expression ---

    def _declared(self, path: ValuePath) -> Size | None:
        return declared_size(self._variables, path)

    def _path(self, expr: Expr) -> ValuePath | None:
        bound = self._variable(expr)
        return self._paths.get(expr) if bound is None else bound.path

    def _variable(self, expr: Expr) -> _Bound | None:
        scopes = self._scopes.get(expr.name) if isinstance(expr, NameExpr) else None
        return scopes[-1] if scopes else None

    def _enter(self, variable: Variable, bound: _Bound) -> None:
        self._scopes.setdefault(variable.name, []).append(bound)

    def _leave(self, variable: Variable) -> None:
        self._scopes[variable.name].pop()

    def _extended(self, expr: Expr, name: str) -> ValuePath:
        path = self._path(expr)
        return ValuePath.of_name(name) if path is None else path.extended(name)

    def _size(self, expr: Expr) -> Size | None:
        computed = self._sizes.get(expr)
        if computed is not None:
            return computed
        written = _written_size(expr)
        if written is not None:
            return written
        path = self._path(expr)
        declared = self._declared(path) if path is not None else None
        if declared is not None:
            self._sizes[expr] = declared
            return declared
        if _is_scalar(expr.type):
            return ONE
        bound = self._variable(expr)
        return None if bound is None else bound.size

    def _entry(self, expr: Expr) -> ContentSizes | None:
        computed = self._entries.get(expr)
        bound = self._variable(expr) if computed is None else None
        return computed if bound is None else bound.entry

    def _operand(self, expr: Expr) -> Operand:
        return Operand(expr, self._path(expr), self._size(expr), self._declared)

    def _set_size(self, expr: Expr, size: Size | None) -> None:
        if size is not None:
            self._sizes[expr] = size

    def _set_entry(self, expr: Expr, entry: ContentSizes | None) -> None:
        if entry is not None:
            self._entries[expr] = entry

    # --- costs ---

    def _cost(self, expr: Expr) -> Step[int]:
        computed = self._costs.get(expr)
        if computed is not None:
            return computed
        cost: int
        match expr:
            case ConstantExpr():
                return 0
            case NameExpr():
                bound = self._variable(expr)
                self._paths[expr] = ValuePath.of_name(expr.name) if bound is None else bound.path
                return 1
            case FieldExpr():
                cost = yield self._field(expr)
            case CallExpr():
                cost = yield self._apply(expr)
            case ListExpr():
                cost = yield self._elements(expr)
            case MapExpr():
                cost = yield self._map(expr)
            case LetExpr():
                cost = yield self._let(expr)
            case FoldExpr():
                cost = yield self._fold(expr)
            case _:
                raise TypeError(f"{type(expr).__name__} has no estimate")
        self._costs[expr] = cost
        return cost

    def _field(self, expr: FieldExpr) -> Step[int]:
        cost: int = yield self._cost(expr.operand)
        if expr.test:
            return cost
        self._paths[expr] = self._extended(expr.operand, expr.name)
        counts = self._every_selection or expr.operand.type.kind in (TypeKind.MAP, TypeKind.OBJECT)
        return add(cost, 1) if counts else cost

    def _elements(self, expr: ListExpr) -> Step[int]:
        total = LIST_BASE
        item_size: Size | None = None
        for item in expr.items:
            cost: int = yield self._cost(item)
            total = add(total, cost)
            size = self._size(item) or UNKNOWN
            item_size = size if item_size is None else item_size.union(size)
        self._entries[expr] = ContentSizes(True, ONE, item_size or Size(0, 0))
        return total

    def _map(self, expr: MapExpr) -> Step[int]:
        total = MAP_BASE
        sizes: tuple[Size, Size] | None = None
        for key, value in expr.items:
            key_cost: int = yield self._cost(key)
            value_cost: int = yield self._cost(value)
            total = add(total, add(key_cost, value_cost))
            entry_sizes = (self._size(key) or UNKNOWN, self._size(value) or UNKNOWN)
            sizes = entry_sizes if sizes is None else (sizes[0].union(entry_sizes[0]), sizes[1].union(entry_sizes[1]))
        self._entries[expr] = ContentSizes(False, *(sizes or (Size(0, 0), Size(0, 0))))
        return total

    def _apply(self, expr: CallExpr) -> Step[int]:
        costs: list[int] = []
        args: list[Operand] = []
        for argument in expr.args:
            cost: int = yield self._cost(argument)
            costs.append(cost)
            args.append(self._operand(argument))
        if expr.function == "dyn":
            self._set_size(expr, self._size(expr.args[0]))
            self._set_entry(expr, self._entry(expr.args[0]))
            return add(costs[0], 1)
        target: Operand | None = None
        own = 0
        if expr.target is not None:
            own = yield self._cost(expr.target)
            target = self._operand(expr.target)
        worst = 0
        size: Size | None = None
        for params in _ordered(expr):
            estimate = self._overload(expr, OverloadCall(expr.function, params, target, args))
            worst = max(worst, estimate[0])
            if estimate[1] is not None:
                size = estimate[1] if size is None else size.union(estimate[1])
            if expr.function == "_[_]" and params[0].kind in (TypeKind.LIST, TypeKind.MAP):
                entry = self._entry(expr.args[0])
                size = entry.value if entry is not None else None
                self._paths[expr] = self._extended(
                    expr.args[0], "@items" if params[0].kind is TypeKind.LIST else "@values"
                )
            if size is None:
                size = self._size(expr)
        self._set_size(expr, size)
        operands = costs[0] if expr.function == "_?_:_" else 0
        for cost in [max(costs[1:])] if expr.function == "_?_:_" else costs:
            operands = add(operands, cost)
        return add(own, add(worst, operands))

    def _overload(self, expr: CallExpr, call: OverloadCall) -> tuple[int, Size | None]:
        if expr.function in ("_&&_", "_||_"):
            return 0, None
        merged = expr.args[1:] if expr.function == "_?_:_" else expr.args
        if expr.function == "_?_:_" or (
            expr.function == "_+_" and (call.params[0].kind is TypeKind.LIST or call.params[0].name in _TEXTS)
        ):
            first = self._entry(merged[0])
            self._set_entry(expr, first.union(self._entry(merged[1])) if first is not None else None)
        return estimate_call(call)

    # --- variables ---

    def _let(self, expr: LetExpr) -> Step[int]:
        cost: int = yield self._cost(expr.value)
        self._enter(expr.variable, _Bound(self._path(expr.value), self._size(expr.value), self._entry(expr.value)))
        body: int = yield self._cost(expr.body)
        self._leave(expr.variable)
        self._set_size(expr, self._size(expr.body))
        self._set_entry(expr, self._entry(expr.body))
        return add(LIST_BASE, add(cost, body))

    def _fold(self, expr: FoldExpr) -> Step[int]:
        over: int = yield self._cost(expr.over)
        initial: int = yield self._cost(expr.initial)
        self._enter(
            expr.accumulator, _Bound(self._path(expr.initial), self._size(expr.initial), self._entry(expr.initial))
        )
        self._bind(expr)
        going: int = yield self._cost(expr.condition)
        step: int = yield self._cost(expr.step)
        for variable in expr.variables:
            self._leave(variable)
        result: int = yield self._cost(expr.result)
        self._leave(expr.accumulator)
        count = self._size(expr.over) or UNKNOWN
        if isinstance(expr.initial, ConstantExpr):
            self._set_size(expr, self._size(expr.initial))
        else:
            self._set_size(expr, count)
            self._set_entry(expr, self._entry(expr.step))
        return add(add(over, initial), add(result, multiply(count.most, add(step, going))))

    def _bind(self, expr: FoldExpr) -> None:
        """Enter a fold's variables: two are a key or index and a value, one is a list's element or a map's key."""
        paired = len(expr.variables) == 2
        for number, variable in enumerate(expr.variables):
            entry = self._entry(expr.over)
            is_list = entry.is_list if entry is not None else expr.over.type.kind is TypeKind.LIST
            if number == 1 or (is_list and not paired):
                name, size = "@items" if is_list else "@values", entry.value if entry is not None else None
            else:
                name, size = "@indices" if is_list else "@keys", entry.key if entry is not None else None
            self._enter(variable, _Bound(self._extended(expr.over, name), size))


_TEXTS = frozenset(("string", "bytes"))


def _ordered(expr: CallExpr) -> list[tuple[Type, ...]]:
    """The overloads in upstream's order, since the path of the last one counts."""
    if expr.function != "_[_]":
        return expr.overloads
    return sorted(
        expr.overloads, key=lambda params: (TypeKind.LIST, TypeKind.MAP, TypeKind.OPAQUE).index(params[0].kind)
    )


def _written_size(expr: Expr) -> Size | None:
    match expr:
        case ConstantExpr():
            size = len(expr.value) if isinstance(expr.value, (str, bytes)) else 1
        case ListExpr() | MapExpr():
            size = len(expr.items)
        case _:
            return None
    return Size(size, size)


def _is_scalar(candidate: Type) -> bool:
    while candidate.name == "optional_type" and candidate.params:
        candidate = candidate.params[0]
    return candidate in _SCALARS
