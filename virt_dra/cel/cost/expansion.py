"""An expression with its macros written out as the comprehensions that upstream estimates (:mod:`virt_dra.cel.cost.estimate`)."""

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
    Node,
    OptionalMap,
    Select,
    Variable,
)
from virt_dra.cel.syntax.steps import Step, run
from virt_dra.cel.types import BOOL, DYN, INT, STRING, Type


@dataclass(slots=True, eq=False)
class Expr:
    """``type``: the static type."""

    type: Type


@dataclass(slots=True, eq=False)
class Constant(Expr):
    value: LiteralValue


@dataclass(slots=True, eq=False)
class Name(Expr):
    """A variable: one that is bound, or one of the environment, or a type."""

    name: str


@dataclass(slots=True, eq=False)
class Field(Expr):
    operand: Expr
    name: str
    test: bool


@dataclass(slots=True, eq=False)
class Apply(Expr):
    """A call. ``overloads``: the parameters of each overload that fits, with the receiver's type first."""

    function: str
    target: Expr | None
    args: list[Expr]
    overloads: list[tuple[Type, ...]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Elements(Expr):
    items: list[Expr]


@dataclass(slots=True, eq=False)
class Entries(Expr):
    items: list[tuple[Expr, Expr]]


@dataclass(slots=True, eq=False)
class Let(Expr):
    """A value bound to a variable; ``cel.bind`` and what resembles it."""

    variable: Variable
    value: Expr
    body: Expr


@dataclass(slots=True, eq=False)
class Fold(Expr):
    """A comprehension."""

    over: Expr
    variables: list[Variable]
    accumulator: Variable
    initial: Expr
    condition: Expr
    step: Expr
    result: Expr


INSERT = "cel.@mapInsert"


def expand(root: Node) -> Expr:
    """The expression of a checked tree. A target that a macro repeats is one object in it."""
    expanded: Expr = run(_expand(root))
    return expanded


def _all(nodes: Sequence[Node]) -> Step[list[Expr]]:
    expanded: list[Expr] = []
    for node in nodes:
        one: Expr = yield _expand(node)
        expanded.append(one)
    return expanded


def _expand(node: Node) -> Step[Expr]:
    made: Expr
    match node:
        case Literal():
            return Constant(node.type, node.value)
        case Ident():
            return Name(node.type, node.name)
        case Select():
            made = yield _select(node)
        case Call():
            args: list[Expr] = yield _all(node.args)
            target: Expr | None = None
            if node.target is not None:
                target = yield _expand(node.target)
            return Apply(node.type, node.function, target, args, [overload.params for overload in node.overloads])
        case Logic():
            terms: list[Expr] = yield _all(node.terms)
            return Apply(BOOL, node.function, None, terms, [(BOOL, BOOL)])
        case ListNode():
            items: list[Expr] = yield _all([element for element, _ in node.elements])
            return Elements(node.type, items)
        case MapNode():
            keys: list[Expr] = yield _all([key for key, _, _ in node.entries])
            values: list[Expr] = yield _all([value for _, value, _ in node.entries])
            return Entries(node.type, list(zip(keys, values, strict=True)))
        case Comprehension():
            made = yield _comprehension(node)
        case Bind():
            value: Expr = yield _expand(node.value)
            body: Expr = yield _expand(node.body)
            return Let(body.type, node.variable, value, body)
        case OptionalMap():
            made = yield _optional_map(node)
        case _:
            raise TypeError(f"{type(node).__name__} has no estimate")
    return made


def _select(node: Select) -> Step[Expr]:
    if node.constant is not None:
        return Name(node.type, node.constant)
    operand: Expr = yield _expand(node.operand)
    if node.optional:
        return Apply(node.type, "_?._", None, [operand, Constant(STRING, node.name)], [(DYN, STRING)])
    return Field(node.type, operand, node.name, node.test)


def _optional_map(node: OptionalMap) -> Step[Expr]:
    target: Expr = yield _expand(node.target)
    body: Expr = yield _expand(node.body)
    value = Apply(node.variable.type, "value", target, [], [(target.type,)])
    made: Expr = Let(body.type, node.variable, value, body)
    if not node.flat:
        made = Apply(node.type, "optional.of", None, [made], [(body.type,)])
    present = Apply(BOOL, "hasValue", target, [], [(target.type,)])
    return _choice(node.type, present, made, Apply(node.type, "optional.none", None, [], [()]))


def _choice(kind: Type, condition: Expr, chosen: Expr, other: Expr) -> Expr:
    return Apply(kind, "_?_:_", None, [condition, chosen, other], [(BOOL, kind, kind)])


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
        return Name(kind, accumulator.name)

    if counted:
        one = Constant(INT, 1)
        step = _choice(INT, body, Apply(INT, "_+_", None, [read(), one], [(INT, INT)]), read())
        result: Expr = Apply(BOOL, "_==_", None, [read(), one], [(INT, INT)])
        return Fold(BOOL, over, variables, accumulator, Constant(INT, 0), Constant(BOOL, True), step, result)
    decisive = node.macro == "exists"
    asked = Apply(BOOL, "!_", None, [read()], [(BOOL,)]) if decisive else read()
    going = Apply(BOOL, "@not_strictly_false", None, [asked], [(BOOL,)])
    step = Apply(BOOL, "_||_" if decisive else "_&&_", None, [read(), body], [(BOOL, BOOL)])
    return Fold(BOOL, over, variables, accumulator, Constant(BOOL, not decisive), going, step, read())


def _collection(node: Comprehension, over: Expr, variables: list[Variable], condition: Expr | None, body: Expr) -> Expr:
    kind = node.type
    accumulator = Variable("@result", kind)

    def read() -> Expr:
        return Name(kind, accumulator.name)

    def added(element: Expr) -> Expr:
        return Apply(kind, "_+_", None, [read(), Elements(kind, [element])], [(kind, kind)])

    first = variables[0]
    initial: Expr = Elements(kind, [])
    match node.macro:
        case "filter":
            condition, step = body, added(Name(first.type, first.name))
        case "map" | "transformList":
            step = added(body)
        case "transformMap":
            initial, step = Entries(kind, []), Apply(kind, INSERT, None, [read(), Name(first.type, first.name), body], [(kind,)])
        case _:
            initial, step = Entries(kind, []), Apply(kind, INSERT, None, [read(), body], [(kind,)])
    if condition is not None:
        step = _choice(kind, condition, step, read())
    return Fold(kind, over, variables, accumulator, initial, Constant(BOOL, True), step, read())


def _sort_by(node: Comprehension, over: Expr, body: Expr) -> Expr:
    """The list is bound to a variable, since it is read for its keys and to be sorted."""
    bound = Variable("@__sortBy_input__", over.type)

    def read() -> Expr:
        return Name(over.type, bound.name)

    mapped = Comprehension(node.offset, "map", node.range, node.variable, None, None, node.body, type=node.type)
    keys = _collection(mapped, read(), [node.variable], None, body)
    overloads: list[tuple[Type, ...]] = [(overload.params[0], overload.params[1].params[0]) for overload in node.overloads]
    return Let(node.type, bound, over, Apply(node.type, SORT_BY, read(), [keys], overloads))
