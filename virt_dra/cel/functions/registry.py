"""How a CEL function is declared and found.

A declaration is written as ``string::contains(string) -> bool`` takes a receiver, ``size(list(<A>)) -> int`` does not. One
Python function may serve several declarations. The checker chooses overloads by static types; where types are only known at run time,
:meth:`Library.dispatch` chooses by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from virt_dra.cel.budget import Budget
from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.types import BOOL, Kind, Type, parse_type, parse_types
from virt_dra.cel.values import TypeValue, Value, type_name

Implementation = Callable[..., Value]
"""A Python function over CEL values; its number of arguments is the declaration's (plus a leading Budget if declared so)."""
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
    """The type parameters that occur in it."""

    def accepts(self, arguments: tuple[Value, ...]) -> bool:
        """Whether the run-time types fit; elements of lists and maps are not looked at."""
        return len(arguments) == len(self.params) and all(map(_accepts, self.params, arguments))


def _accepts(param: Type, value: Value) -> bool:
    kind = param.kind
    if kind in (Kind.PARAM, Kind.DYN):
        return True
    if kind is Kind.LIST:
        return isinstance(value, list)
    if kind is Kind.MAP:
        return isinstance(value, dict)
    if kind is Kind.TYPE:
        return isinstance(value, TypeValue)
    return param is BOOL if isinstance(value, bool) else type_name(value) == param.name


class Library:
    """Functions by name."""

    def __init__(self, parts: Iterable[Library] = ()) -> None:
        self.functions: dict[str, list[Overload]] = {}
        self._chosen: dict[tuple[object, ...], tuple[Implementation, bool]] = {}
        """What :meth:`dispatch` chose for a function and the types of its arguments, which are few."""
        for part in parts:
            for overloads in part.functions.values():
                for overload in overloads:
                    self._add(overload)

    def without(self, *names: str) -> Library:
        """The same functions but for those named."""
        left = Library()
        left.functions = {name: overloads for name, overloads in self.functions.items() if name not in names}
        return left

    def _add(self, overload: Overload) -> None:
        self.functions.setdefault(overload.function, []).append(overload)

    def function(self, *declarations: str, budget: bool = False) -> Callable[[F], F]:
        """Declare what the decorated function implements; with ``budget`` its first argument is the evaluation's Budget."""

        def declared(implementation: F) -> F:
            for declaration in declarations:
                self._add(_overload(declaration, implementation, budget))
            return implementation

        return declared

    def declare(self, *declarations: str) -> None:
        """Declare what no value can be applied to here, or what the compiler translates itself."""
        for declaration in declarations:
            self._add(_overload(declaration, None, False))

    def dispatch(self, budget: Budget, name: str, member: bool, arguments: tuple[Value, ...]) -> Value:
        """Call the overload that the run-time types fit. Raises EvaluationError if there is none."""
        key = (name, member, *map(type, arguments))
        found = self._chosen.get(key)
        if found is None:
            found = self._choose(name, member, arguments)
            self._chosen[key] = found
        return found[0](budget, *arguments) if found[1] else found[0](*arguments)

    def _choose(self, name: str, member: bool, arguments: tuple[Value, ...]) -> tuple[Implementation, bool]:
        for overload in self.functions[name]:
            if overload.member is member and overload.implementation is not None and overload.accepts(arguments):
                return overload.implementation, overload.budget
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
    "sort": frozenset[str](),
}
"""Functions that upstream's values implement themselves: it names the function only for a first operand of another type.
The receivers are asked in any case."""
_UNNAMED = frozenset(("!_", "@in", "contains", "endsWith", "matches", "startsWith"))


def no_such_overload(name: str, *arguments: Value) -> str:
    """Upstream's message for arguments that no overload takes."""
    types = [type_name(argument) for argument in arguments]
    own = _NAMED_ONLY_BEYOND.get(name)
    if name in _UNNAMED or (own is not None and types[0] in own) or (name == "find" and types[0] != "string"):
        return "no such overload"
    if own is not None:
        return f"no such overload: {name}"
    if name == "flatten":
        return f"no such overload: {types[0]}.flatten({', '.join(types[1:])})"
    return f"no such overload: {name}({', '.join(types)})"


def _overload(declaration: str, implementation: Implementation | None, budget: bool) -> Overload:
    head, result = declaration.rsplit(" -> ", 1)
    opening = _opening(head)
    name, params = head[:opening], head[opening + 1 : -1]
    receiver, _, name = name.rpartition("::")
    types = parse_types(params)
    if receiver:
        types = (parse_type(receiver), *types)
    result_type = parse_type(result)
    return Overload(name, bool(receiver), types, result_type, implementation, budget, _variables((*types, result_type)))


def _opening(head: str) -> int:
    """Where the parenthesis that closes at the end opens."""
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
    found: dict[Type, None] = {}
    stack = list(types)
    while stack:
        item = stack.pop()
        if item.kind is Kind.PARAM:
            found[item] = None
        stack.extend(item.params)
    return tuple(found)
