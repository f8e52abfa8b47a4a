"""Declaration and overload resolution of CEL functions.

A declaration is written as ``string::contains(string) -> bool`` takes a receiver, ``size(list(<A>)) -> int`` does not.
One Python function may serve several declarations. The checker chooses overloads by static types; where types are only
known at run time, :meth:`Library.dispatch` chooses by value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.functions.printing import with_parameters
from virt_dra.cel.limits.budget import Budget
from virt_dra.cel.types import BOOL, Type, TypeKind, parse_type, parse_types
from virt_dra.cel.values import TypeValue, Value, type_name

Implementation = Callable[..., Value]
"""A Python function over CEL values, with the declaration's arguments (after a Budget if declared so)."""
F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One declaration. ``params`` starts with the receiver's type if it is a ``member``."""

    function: str
    member: bool
    params: tuple[Type, ...]
    result: Type
    implementation: Implementation | None
    budget: bool
    variables: tuple[Type, ...]
    """The type parameters that occur in the declaration."""
    per_character: float = 0.0
    per_call: float = 0.0
    """Microseconds to charge for a character of the arguments and for a call, if the implementation charges nothing."""

    def accepts(self, arguments: Sequence[Value]) -> bool:
        """True if the run-time types fit. Only the first element of a list is checked; for a function of
        :data:`UNGUARDED` none is."""
        if len(arguments) != len(self.params):
            return False
        elements = self.function not in UNGUARDED
        return all(_accepts(param, argument, elements) for param, argument in zip(self.params, arguments, strict=True))

    def called(self, budget: Budget, arguments: Sequence[Value]) -> Value:
        """Call the implementation with arguments that fit."""
        if self.implementation is None:
            raise EvaluationError(no_such_overload(self.function, *arguments))
        if self.budget:
            return self.implementation(budget, *arguments)
        if self.is_charged:
            self._charge(budget, arguments)
        return self.implementation(*arguments)

    @property
    def is_charged(self) -> bool:
        """True if it is to be called by :meth:`charged`."""
        return self.per_character > 0 or self.per_call > 0

    def charged(self, budget: Budget, *arguments: Value) -> Value:
        """The implementation's value, after its work was charged."""
        return self.called(budget, arguments)

    def _charge(self, budget: Budget, arguments: Sequence[Value]) -> None:
        budget.spend(
            sum(len(text) for text in arguments if isinstance(text, (str, bytes))) * self.per_character + self.per_call
        )

    def guarded(self, budget: Budget, arguments: Sequence[Value]) -> Value:
        """The value for arguments that may not fit. Raises EvaluationError if they don't."""
        if not self.accepts(arguments):
            raise EvaluationError(no_such_overload(self.function, *arguments))
        return self.called(budget, arguments)


UNGUARDED = frozenset(
    (
        *("_+_", "_-_", "_*_", "_/_", "_%_", "-_", "!_", "_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_", "_[_]", "_[?_]"),
        *("@in", "size", "type", "dyn", "matches", "contains", "endsWith", "startsWith", "sort", "flatten"),
    )
)
"""Functions with a single implementation upstream, which checks the values itself, whichever overload the checker
chose. For the others upstream calls the overload that the checker chose, if it is only one."""


def _accepts(param: Type, value: Value, elements: bool) -> bool:
    kind = param.kind
    if kind in (TypeKind.PARAM, TypeKind.DYN):
        return True
    if kind is TypeKind.LIST:
        return isinstance(value, list) and (not elements or not value or _accepts(param.params[0], value[0], elements))
    if kind is TypeKind.MAP:
        return isinstance(value, dict)
    if kind is TypeKind.TYPE:
        return isinstance(value, TypeValue)
    return param is BOOL if isinstance(value, bool) else type_name(value) == param.name


class Library:
    """Functions by name."""

    def __init__(self, parts: Iterable[Library] = ()) -> None:
        self.functions: dict[str, list[Overload]] = {}
        self._beyond: dict[str, list[Overload]] = {}
        self._by_elements: set[str] = set()
        """Functions with overloads that differ in the type of a list's elements."""
        self._chosen: dict[tuple[object, ...], Overload] = {}
        """Memoized choices of :meth:`dispatch`, by function and argument types."""
        for part in parts:
            for overloads in part.functions.values():
                for overload in overloads:
                    self._add(overload)
            self._beyond.update(part._beyond)

    def without(self, *names: str) -> Library:
        """The library without the named functions."""
        left = Library()
        left.functions = {name: overloads for name, overloads in self.functions.items() if name not in names}
        left._by_elements, left._beyond = self._by_elements, self._beyond
        return left

    def _add(self, overload: Overload) -> None:
        self.functions.setdefault(overload.function, []).append(overload)
        if any(
            param.kind is TypeKind.LIST and param.params[0].kind not in (TypeKind.PARAM, TypeKind.DYN)
            for param in overload.params
        ):
            self._by_elements.add(overload.function)

    def function(
        self, *declarations: str, budget: bool = False, per_character: float = 0.0, per_call: float = 0.0
    ) -> Callable[[F], F]:
        """Declare what the decorated function implements; with ``budget`` its first argument is the evaluation's
        Budget.

        ``per_character``, ``per_call``: microseconds of a character of its texts and of a call, for a function without
        budget.
        """

        def declared(implementation: F) -> F:
            for declaration in declarations:
                self._add(_overload(declaration, implementation, budget, per_character, per_call))
            return implementation

        return declared

    def define(
        self, implementations: Mapping[str, Implementation], *, per_character: float = 0.0, per_call: float = 0.0
    ) -> None:
        """Declare functions that are one expression each; ``per_character``, ``per_call``: as of :meth:`function`."""
        for declaration, implementation in implementations.items():
            self._add(_overload(declaration, implementation, False, per_character, per_call))

    def beyond(self, declaration: str) -> Callable[[F], F]:
        """Define what an operator does with run-time types that it isn't declared for."""

        def declared(implementation: F) -> F:
            overload = _overload(declaration, implementation, False)
            self._beyond.setdefault(overload.function, []).append(overload)
            return implementation

        return declared

    def order(self, name: str, *operands: str) -> None:
        """Sort a function's overloads by parameters: an argument of unknown type gets the type of the first one."""
        wanted = list(map(parse_types, operands))
        self.functions[name].sort(key=lambda overload: wanted.index(overload.params))

    def declare(self, *declarations: str) -> None:
        """Declare a function without implementation: no value here fits it, or the compiler translates it."""
        for declaration in declarations:
            self._add(_overload(declaration, None, False))

    def dispatch(self, budget: Budget, name: str, member: bool, arguments: tuple[Value, ...]) -> Value:
        """Call the overload that the run-time types fit. Raises EvaluationError if there is none."""
        if name in self._by_elements:
            return self._choose(name, member, arguments).called(budget, arguments)
        key = (name, member, *map(type, arguments))
        overload = self._chosen.get(key)
        if overload is None:
            overload = self._chosen[key] = self._choose(name, member, arguments)
        return overload.called(budget, arguments)

    def _choose(self, name: str, member: bool, arguments: tuple[Value, ...]) -> Overload:
        for overload in [*self.functions[name], *self._beyond.get(name, [])]:
            if overload.member is member and overload.implementation is not None and overload.accepts(arguments):
                return overload
        raise EvaluationError(no_such_overload(name, *arguments))


_NUMBERS = ("double", "int", "uint")
_TIMES = ("google.protobuf.Duration", "google.protobuf.Timestamp")
_COMPARABLE = frozenset((*_NUMBERS, *_TIMES, "bool", "bytes", "string"))
_RECEIVERS = (*_TIMES, "string")
_NAMED_ONLY_BEYOND = {
    "_+_": frozenset((*_NUMBERS, *_RECEIVERS, "bytes", "list")),
    "_-_": frozenset((*_NUMBERS, *_RECEIVERS)),
    "_*_": frozenset((*_NUMBERS, *_RECEIVERS)),
    "_/_": frozenset((*_NUMBERS, *_RECEIVERS)),
    "_%_": frozenset(("int", "uint", *_RECEIVERS)),
    "-_": frozenset(("bool", "double", "int", *_RECEIVERS)),
    "_<_": _COMPARABLE,
    "_<=_": _COMPARABLE,
    "_>_": _COMPARABLE,
    "_>=_": _COMPARABLE,
    "size": frozenset(_RECEIVERS),
    "matches": frozenset(_RECEIVERS),
    "sort": frozenset(_RECEIVERS),
}
"""Functions that upstream's values implement themselves: its message names the function only if the first operand has
another type."""
_ORDERINGS = frozenset(("_<_", "_<=_", "_>_", "_>=_"))
_UNNAMED = frozenset(("!_", "@in", "contains", "endsWith", "startsWith"))


def no_such_overload(name: str, *arguments: Value) -> str:
    """Upstream's message for arguments that no overload takes."""
    types = [type_name(argument) for argument in arguments]
    if name in _ORDERINGS and isinstance(arguments[0], float) and math.isnan(arguments[0]):
        return "NaN values cannot be ordered"
    own = _NAMED_ONLY_BEYOND.get(name)
    if name in _UNNAMED or (own is not None and types[0] in own):
        return "no such overload"
    if own is not None:
        return f"no such overload: {name}"
    if name == "flatten":
        return f"no such overload: {with_parameters(types[0])}.flatten({', '.join(types[1:])})"
    return f"no such overload: {name}({', '.join(types)})"


def _overload(
    declaration: str,
    implementation: Implementation | None,
    budget: bool,
    per_character: float = 0.0,
    per_call: float = 0.0,
) -> Overload:
    head, result = declaration.rsplit(" -> ", 1)
    opening = _opening(head)
    name, params = head[:opening], head[opening + 1 : -1]
    receiver, _, name = name.rpartition("::")
    types = parse_types(params)
    if receiver:
        types = (parse_type(receiver), *types)
    of_result = parse_type(result)
    variables = _variables((*types, of_result))
    return Overload(name, bool(receiver), types, of_result, implementation, budget, variables, per_character, per_call)


def _opening(head: str) -> int:
    """The position of the parenthesis that matches the last one."""
    depth = 0
    for place in range(len(head) - 1, -1, -1):
        if head[place] == ")":
            depth += 1
        elif head[place] == "(":
            depth -= 1
            if depth == 0:
                return place
    raise ValueError(f"no parameters in {head!r}")


def _variables(types: tuple[Type, ...]) -> tuple[Type, ...]:
    variables: dict[Type, None] = {}
    stack = list(types)
    while stack:
        item = stack.pop()
        if item.kind is TypeKind.PARAM:
            variables[item] = None
        stack.extend(item.params)
    return tuple(variables)
