"""Validation of literal arguments and constants at compile time (L-2.5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from virt_dra.cel.errors import CelError, EvaluationError, Issue
from virt_dra.cel.functions.conversions import CONVERSIONS
from virt_dra.cel.functions.formatting import Clause, FormatFault, parse_format, unfit
from virt_dra.cel.functions.operators import invalid_qualifier, is_qualifier
from virt_dra.cel.functions.patterns import InvalidPattern
from virt_dra.cel.functions.regex import Patterns, Spend, free
from virt_dra.cel.functions.times import parse_duration, parse_timestamp
from virt_dra.cel.syntax.nodes import (
    Bind,
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    LiteralValue,
    MapNode,
    OptionalMap,
    Select,
    SyntaxNode,
    Variable,
    children,
)
from virt_dra.cel.types import ANY, UINT, TypeKind, is_dyn
from virt_dra.cel.values import TypeValue, UInt, Value, type_name

_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799


def invalid_literal(function: str, member: bool, place: int, value: LiteralValue, patterns: Patterns) -> str | None:
    """The fault of a literal as the argument at ``place`` of a function, if any. Raises PatternsTooLarge."""
    if function == "duration" and not member and isinstance(value, str):
        return None if parse_duration(value) is not None else "invalid duration argument"
    if function == "timestamp" and not member:
        if isinstance(value, str):
            return None if _is_timestamp(value) else "invalid timestamp argument"
        if isinstance(value, int) and not _FIRST_SECOND <= value <= _LAST_SECOND:
            return "invalid timestamp argument"
    if function == "matches" and place == (0 if member else 1) and isinstance(value, str):
        try:
            patterns.add(value)
        except InvalidPattern:
            return "invalid matches argument"
    return None


def _is_timestamp(text: str) -> bool:
    try:
        return parse_timestamp(text) is not None
    except EvaluationError:
        return False


class InvalidConstant(CelError):
    """A constant can't be converted, which Kubernetes reports when it builds the program."""


def check_constants(root: SyntaxNode, spend: Spend = free) -> None:
    """Convert constants as Kubernetes does while it builds a program.

    Raises InvalidConstant for the first that can't be converted, for a constant pattern of ``find`` or ``findAll`` that
    is none, and for a variable that stands for a type, which Kubernetes takes for a type's name. Raises
    PatternsTooLarge.
    """
    patterns = Patterns(spend)
    constants: dict[int, Value] = {}
    for part in _in_planning_order(root):
        if isinstance(part, Variable):
            _refuse_type(part)
        else:
            _check_constant(part, constants, patterns)


def _in_planning_order(root: SyntaxNode) -> Iterator[SyntaxNode | Variable]:
    """Nodes after their parts, and the variables that expanded macros read without their text showing it."""
    waiting: list[tuple[SyntaxNode | Variable, bool]] = [(root, False)]
    while waiting:
        part, expanded = waiting.pop()
        if expanded or isinstance(part, Variable):
            yield part
            continue
        waiting.append((part, True))
        waiting.extend((inner, False) for inner in reversed(_parts(part)))


def _parts(node: SyntaxNode) -> Sequence[SyntaxNode | Variable]:
    match node:
        case Bind():
            return (node.value, node.variable, node.body)
        case OptionalMap():
            return (node.target, node.variable, node.body)
        case Comprehension() if node.macro == "filter":
            return (node.range, node.body, node.variable)
        case Comprehension() if node.macro == "transformMap":
            return (*children(node)[:-1], node.variable, node.body)
    return children(node)


def _check_constant(node: SyntaxNode, constants: dict[int, Value], patterns: Patterns) -> None:
    """Check one node after its children, and add its value to the constants if it is one."""
    if isinstance(node, Ident):
        if node.variable is not None:
            _refuse_type(node.variable)
        elif node.type.kind is TypeKind.TYPE:
            constants[id(node)] = TypeValue(node.name)
    elif isinstance(node, Select):
        if node.constant is not None:
            constants[id(node)] = TypeValue(node.constant)
    elif isinstance(node, Literal):
        constants[id(node)] = UInt(node.value) if node.type is UINT and isinstance(node.value, int) else node.value
    elif isinstance(node, ListNode | MapNode):
        if all(id(child) in constants for child in children(node)):
            constants[id(node)] = [] if isinstance(node, ListNode) else {}
    elif isinstance(node, Call):
        arguments = [constants[id(argument)] for argument in node.args if id(argument) in constants]
        if node.function in ("_[_]", "_[?_]"):
            _check_qualifier(node.args[1], constants)
        elif node.function in ("find", "findAll", "matches"):
            _check_pattern(arguments, len(node.args), patterns)
        elif (
            len(arguments) == 1
            and len(node.args) == 1
            and (node.function in CONVERSIONS or node.function in ("dyn", "type"))
        ):
            _convert(node, arguments[0], constants)


def _refuse_type(variable: Variable) -> None:
    if variable.type.kind is TypeKind.TYPE:
        raise InvalidConstant(f"reference to undefined type: {variable.name}")


def _check_qualifier(key: SyntaxNode, constants: dict[int, Value]) -> None:
    if id(key) in constants and not is_qualifier(constants[id(key)]):
        raise InvalidConstant(invalid_qualifier(constants[id(key)]))


def _check_pattern(arguments: list[Value], count: int, patterns: Patterns) -> None:
    if len(arguments) == count and arguments and isinstance(arguments[0], str):
        try:
            patterns.add(arguments[0])
        except InvalidPattern as error:
            raise InvalidConstant(str(error)) from None


def _convert(node: Call, argument: Value, constants: dict[int, Value]) -> None:
    for overload in node.overloads:
        if overload.implementation is not None and not overload.budget and overload.accepts((argument,)):
            try:
                constants[id(node)] = overload.implementation(argument)
            except EvaluationError as error:
                raise InvalidConstant(error.message) from None
            return
    raise InvalidConstant(f"no such overload: {node.function}({type_name(argument)})")


def format_issue(node: Call) -> Issue | None:
    """The fault of ``"…".format([…])`` with literals; None if there is none, or for other calls."""
    if node.function != "format" or not isinstance(node.target, Literal) or not isinstance(node.target.value, str):
        return None
    if len(node.args) != 1 or not isinstance(node.args[0], ListNode):
        return None
    elements = [element for element, _ in node.args[0].elements]
    used = 0
    try:
        for piece in parse_format(node.target.value, len(elements), literal=True):
            if isinstance(piece, Clause):
                fault = _unfit_element(piece, elements[used])
                if fault is not None:
                    return fault
                used += 1
    except FormatFault as malformed:
        return Issue(node.offset, str(malformed))
    if used < len(elements):
        return Issue(
            node.offset, f"too many arguments supplied to string.format (expected {used}, got {len(elements)})"
        )
    return None


def _unfit_element(clause: Clause, element: SyntaxNode) -> Issue | None:
    """The issue for an element of a type that the clause can't format; for %s also within a literal."""
    stack = [element]
    while stack:
        node = stack.pop()
        complaint = "" if is_dyn(node.type) and node.type is not ANY else unfit(clause, node.type.name)
        if complaint:
            return Issue(node.offset, complaint)
        if isinstance(node, ListNode):
            stack.extend(inner for inner, _ in reversed(node.elements))
        elif isinstance(node, MapNode):
            stack.extend(part for key, value, _ in reversed(node.entries) for part in (value, key))
    return None
