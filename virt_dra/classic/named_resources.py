"""The model "named resources" of 1.30 (C-18.9): instances of a node, chosen by CEL over their attributes.

An expression sees ``attributes.<type>["name"]`` with the types quantity, bool, int, intslice, string, stringslice and
version. Evaluation is limited as that of device selectors, and one node's attempt by a budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from virt_dra.api.semver import SemVer, SemVerError
from virt_dra.cel import LANGUAGE, CelError, CompiledSelector, Environment, EvaluationError, Work
from virt_dra.cel.compilations import Compilations
from virt_dra.cel.expression import Pieces, compiling
from virt_dra.cel.functions.regex import Spend
from virt_dra.cel.types import BOOL, SHARED, Type, TypeKind, parse_type
from virt_dra.cel.values import NamedValues, Value
from virt_dra.classic.objects import NamedResourcesAttribute, NamedResourcesInstance

_ATTRIBUTES: Final = SHARED.get(TypeKind.OBJECT, "kubernetes.NamedResourcesAttributes")
_FIELDS: Final[Mapping[str, Type]] = {
    "quantity": parse_type("map(string, kubernetes.Quantity)"),
    "bool": parse_type("map(string, bool)"),
    "int": parse_type("map(string, int)"),
    "intslice": parse_type("map(string, list(int))"),
    "string": parse_type("map(string, string)"),
    "stringslice": parse_type("map(string, list(string))"),
    "version": parse_type("map(string, kubernetes.Semver)"),
}
ATTRIBUTE_EXPRESSIONS: Final = Environment(
    "named resources", {"attributes": _ATTRIBUTES}, {_ATTRIBUTES.name: _FIELDS}, LANGUAGE.type_names, LANGUAGE.functions
)

BUDGET: Final = 1e6
"""Microseconds of evaluation for one attempt of a pod, over all nodes: the expressions are a tenant's."""


def _new(expression: str, environment: Environment, spend: Spend) -> Pieces[CompiledSelector]:
    def refusal(result: Type) -> str | None:
        return None if result == BOOL else "must evaluate to bool"

    return CompiledSelector(expression, (yield from compiling(expression, environment, refusal, spend)))


_SELECTORS: Final = Compilations(_new, 8 << 20, 1024)


def compile_attribute_selector(expression: str, work: Work | None = None) -> CompiledSelector:
    """Compile an expression over ``attributes``, or return the cached one. Raises CompileError."""
    return _SELECTORS.get(expression, ATTRIBUTE_EXPRESSIONS, work)


def selects(expression: str, instance: NamedResourcesInstance, work: Work | None = None) -> bool:
    """True if the expression holds for the instance. Raises CompileError or EvaluationError."""
    compiled = compile_attribute_selector(expression, work)
    return compiled.program.evaluate({"attributes": _attributes(instance)}, work) is True


class ExpressionFailed(Exception):
    """An expression of a class or a claim couldn't be evaluated for an instance."""


def _selected(kind: str, expression: str, instance: NamedResourcesInstance, work: Work | None) -> bool:
    """``kind``: filter (of a class) or request. Raises ExpressionFailed."""
    try:
        return selects(expression, instance, work)
    except CelError as error:
        raise ExpressionFailed(f"evaluate {kind} CEL expression: {error}") from error


def choose(
    instances: Sequence[NamedResourcesInstance], selectors: Sequence[str], common: str = "", work: Work | None = None
) -> list[int] | None:
    """For each selector the index of an instance of its own, or None if that is impossible. ``common`` must hold for
    all.

    A bipartite matching by augmenting paths (Kuhn 1955), which finds an assignment whenever there is one, the first in
    the order of instances where that suffices. Raises ExpressionFailed.
    """
    usable = [
        index for index, instance in enumerate(instances) if not common or _selected("filter", common, instance, work)
    ]
    options: dict[str, list[int]] = {}
    for selector in selectors:
        if selector not in options:
            options[selector] = [index for index in usable if _selected("request", selector, instances[index], work)]
    if len(usable) < len(selectors):
        return None
    taken: dict[int, int] = {}
    for request in range(len(selectors)):
        if not _augment(request, [options[selector] for selector in selectors], taken):
            return None
    return [index for index, _ in sorted(taken.items(), key=lambda item: item[1])]


def _augment(first: int, options: Sequence[Sequence[int]], taken: dict[int, int]) -> bool:
    """Give a request an instance, moving earlier ones if need be; breadth-first, so that the stack bounds no depth."""
    came_from: dict[int, int] = {}
    waiting = [first]
    for request in waiting:
        for index in options[request]:
            if index in came_from:
                continue
            came_from[index] = request
            if index not in taken:
                _shift(index, came_from, taken, first)
                return True
            waiting.append(taken[index])
    return False


def _shift(index: int, came_from: Mapping[int, int], taken: dict[int, int], first: int) -> None:
    """Reassign along the path that ends in a free instance."""
    held = {request: instance for instance, request in taken.items()}
    while True:
        request = came_from[index]
        before = held.get(request)
        taken[index] = request
        if request == first or before is None:
            return
        index = before


def _attributes(instance: NamedResourcesInstance) -> Value:
    values: dict[str, dict[Value, Value]] = {name: {} for name in _FIELDS}
    for attribute in instance.attributes:
        typed = _typed(attribute)
        if typed is not None:
            kind, value = typed
            values[kind][attribute.name] = value
    return NamedValues(values)


def _typed(attribute: NamedResourcesAttribute) -> tuple[str, Value] | None:
    """The one value, with the name of its type; None if the driver published none."""
    if attribute.version is not None:
        try:
            return "version", SemVer.parse(attribute.version)
        except SemVerError as error:
            raise EvaluationError(f"attribute {attribute.name}: parse semantic version: {error}") from None
    ints = None if attribute.int_slice is None else list(attribute.int_slice.ints)
    strings = None if attribute.string_slice is None else list(attribute.string_slice.strings)
    plain: tuple[tuple[str, Value | None], ...] = (
        ("quantity", attribute.quantity), ("bool", attribute.bool_value), ("int", attribute.int_value),
        ("intslice", ints), ("string", attribute.string), ("stringslice", strings),
    )  # fmt: skip
    return next(((kind, value) for kind, value in plain if value is not None), None)
