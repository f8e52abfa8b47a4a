"""The expression tree that upstream estimates: macros expanded into comprehensions (for
:mod:`virt_dra.cel.cost.estimate`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from virt_dra.cel.functions.lists import SORT_BY
from virt_dra.cel.syntax.nodes import (
    Bind,
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    LiteralValue,
    Logic,
    MapNode,
    OptionalMap,
    Select,
    SyntaxNode,
    Variable,
)
from virt_dra.cel.syntax.steps import Step, run
from virt_dra.cel.types import BOOL, DYN, INT, STRING, Type


@dataclass(slots=True, eq=False)
class Expr:
    """An expression without macros. ``type``: the static type."""

    type: Type


@dataclass(slots=True, eq=False)
class ConstantExpr(Expr):
    value: LiteralValue


@dataclass(slots=True, eq=False)
class NameExpr(Expr):
    """A bound variable, a variable of the environment, or the name of a type."""

    name: str


@dataclass(slots=True, eq=False)
class FieldExpr(Expr):
    operand: Expr
    name: str
    test: bool


@dataclass(slots=True, eq=False)
class CallExpr(Expr):
    """A call. ``overloads``: the parameters of each overload that fits, with the receiver's type first."""

    function: str
    target: Expr | None
    args: list[Expr]
    overloads: list[tuple[Type, ...]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class ListExpr(Expr):
    items: list[Expr]


@dataclass(slots=True, eq=False)
class MapExpr(Expr):
    items: list[tuple[Expr, Expr]]


@dataclass(slots=True, eq=False)
class LetExpr(Expr):
    """A value bound to a variable: ``cel.bind``, and the variables that other macros bind once."""

    variable: Variable
    value: Expr
    body: Expr


@dataclass(slots=True, eq=False)
class FoldExpr(Expr):
    """A comprehension: iterates over a range and updates an accumulator."""

    over: Expr
    variables: list[Variable]
    accumulator: Variable
    initial: Expr
    condition: Expr
    step: Expr
    result: Expr


INSERT = "cel.@mapInsert"


def expand(root: SyntaxNode) -> Expr:
    """A checked tree, expanded. A target that a macro repeats is the same object in both places."""
    expanded: Expr = run(_expand(root))
    return expanded


def _all(nodes: Sequence[SyntaxNode]) -> Step[list[Expr]]:
    expanded: list[Expr] = []
    for node in nodes:
        expr: Expr = yield _expand(node)
        expanded.append(expr)
    return expanded


def _expand(node: SyntaxNode) -> Step[Expr]:
    made: Expr
    match node:
        case Literal():
            return ConstantExpr(node.type, node.value)
        case Ident():
            return NameExpr(node.type, node.name)
        case Select():
            made = yield _select(node)
        case Call():
            args: list[Expr] = yield _all(node.args)
            target: Expr | None = None
            if node.target is not None:
                target = yield _expand(node.target)
            return CallExpr(node.type, node.function, target, args, [overload.params for overload in node.overloads])
        case Logic():
            terms: list[Expr] = yield _all(node.terms)
            return CallExpr(BOOL, node.function, None, terms, [(BOOL, BOOL)])
        case ListNode():
            items: list[Expr] = yield _all([element for element, _ in node.elements])
            return ListExpr(node.type, items)
        case MapNode():
            keys: list[Expr] = yield _all([key for key, _, _ in node.entries])
            values: list[Expr] = yield _all([value for _, value, _ in node.entries])
            return MapExpr(node.type, list(zip(keys, values, strict=True)))
        case Comprehension():
            made = yield _comprehension(node)
        case Bind():
            value: Expr = yield _expand(node.value)
            body: Expr = yield _expand(node.body)
            return LetExpr(body.type, node.variable, value, body)
        case OptionalMap():
            made = yield _optional_map(node)
        case _:
            raise TypeError(f"{type(node).__name__} has no estimate")
    return made


def _select(node: Select) -> Step[Expr]:
    if node.constant is not None:
        return NameExpr(node.type, node.constant)
    operand: Expr = yield _expand(node.operand)
    if node.optional:
        return CallExpr(node.type, "_?._", None, [operand, ConstantExpr(STRING, node.name)], [(DYN, STRING)])
    return FieldExpr(node.type, operand, node.name, node.test)


def _optional_map(node: OptionalMap) -> Step[Expr]:
    target: Expr = yield _expand(node.target)
    body: Expr = yield _expand(node.body)
    value = CallExpr(node.variable.type, "value", target, [], [(target.type,)])
    made: Expr = LetExpr(body.type, node.variable, value, body)
    if not node.flat:
        made = CallExpr(node.type, "optional.of", None, [made], [(body.type,)])
    present = CallExpr(BOOL, "hasValue", target, [], [(target.type,)])
    return _choice(node.type, present, made, CallExpr(node.type, "optional.none", None, [], [()]))


def _choice(kind: Type, condition: Expr, chosen: Expr, other: Expr) -> Expr:
    return CallExpr(kind, "_?_:_", None, [condition, chosen, other], [(BOOL, kind, kind)])


def _comprehension(node: Comprehension) -> Step[Expr]:
    over: Expr = yield _expand(node.range)
    condition: Expr | None = None
    if node.condition is not None:
        condition = yield _expand(node.condition)
    body: Expr = yield _expand(node.body)
    variables = [node.variable] if node.second is None else [node.variable, node.second]
    if node.macro == "sortBy":
        return _sort_by(node, over, body)
    fold = _quantifier if node.macro in ("all", "exists", "exists_one") else _collection
    return fold(node, over, variables, condition, body)


def _quantifier(node: Comprehension, over: Expr, variables: list[Variable], condition: Expr | None, body: Expr) -> Expr:
    counted = node.macro == "exists_one"
    kind = INT if counted else BOOL
    accumulator = Variable("@result", kind)

    def read() -> Expr:
        return NameExpr(kind, accumulator.name)

    if counted:
        unit = ConstantExpr(INT, 1)
        step = _choice(INT, body, CallExpr(INT, "_+_", None, [read(), unit], [(INT, INT)]), read())
        result: Expr = CallExpr(BOOL, "_==_", None, [read(), unit], [(INT, INT)])
        return FoldExpr(
            BOOL, over, variables, accumulator, ConstantExpr(INT, 0), ConstantExpr(BOOL, True), step, result
        )
    decisive = node.macro == "exists"
    asked = CallExpr(BOOL, "!_", None, [read()], [(BOOL,)]) if decisive else read()
    going = CallExpr(BOOL, "@not_strictly_false", None, [asked], [(BOOL,)])
    step = CallExpr(BOOL, "_||_" if decisive else "_&&_", None, [read(), body], [(BOOL, BOOL)])
    return FoldExpr(BOOL, over, variables, accumulator, ConstantExpr(BOOL, not decisive), going, step, read())


def _collection(node: Comprehension, over: Expr, variables: list[Variable], condition: Expr | None, body: Expr) -> Expr:
    kind = node.type
    accumulator = Variable("@result", kind)

    def read() -> Expr:
        return NameExpr(kind, accumulator.name)

    def added(element: Expr) -> Expr:
        return CallExpr(kind, "_+_", None, [read(), ListExpr(kind, [element])], [(kind, kind)])

    first = variables[0]
    initial: Expr = ListExpr(kind, [])
    match node.macro:
        case "filter":
            condition, step = body, added(NameExpr(first.type, first.name))
        case "map" | "transformList":
            step = added(body)
        case "transformMap":
            initial, step = (
                MapExpr(kind, []),
                CallExpr(kind, INSERT, None, [read(), NameExpr(first.type, first.name), body], [(kind,)]),
            )
        case _:
            initial, step = MapExpr(kind, []), CallExpr(kind, INSERT, None, [read(), body], [(kind,)])
    if condition is not None:
        step = _choice(kind, condition, step, read())
    return FoldExpr(kind, over, variables, accumulator, initial, ConstantExpr(BOOL, True), step, read())


def _sort_by(node: Comprehension, over: Expr, body: Expr) -> Expr:
    """The expansion of sortBy: binds the list to a variable, since it is used twice, for the keys and for sorting."""
    bound = Variable("@__sortBy_input__", over.type)

    def read() -> Expr:
        return NameExpr(over.type, bound.name)

    mapped = Comprehension(node.offset, "map", node.range, node.variable, None, None, node.body, type=node.type)
    keys = _collection(mapped, read(), [node.variable], None, body)
    overloads: list[tuple[Type, ...]] = [
        (overload.params[0], overload.params[1].params[0]) for overload in node.overloads
    ]
    return LetExpr(node.type, bound, over, CallExpr(node.type, SORT_BY, read(), [keys], overloads))
