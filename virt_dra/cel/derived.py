"""Derived attributes: expressions whose value takes an attribute's place (KEP-6080, A-16.2 to A-16.5, L-3.9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, TypeVar

from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import DeviceAttribute
from virt_dra.api.semver import SemVer
from virt_dra.cel.compilations import Compilations
from virt_dra.cel.declarations import STORED_EXPRESSIONS, attribute_type
from virt_dra.cel.device import DeviceInput
from virt_dra.cel.environment import Environment
from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.examined import DeviceExpression
from virt_dra.cel.expression import Pieces, compiling
from virt_dra.cel.functions.regex import Spend
from virt_dra.cel.limits.budget import InterruptCheck, Work
from virt_dra.cel.types import ANY, BOOL, DYN, INT, SEMVER, STRING, Type, TypeKind
from virt_dra.cel.values import NamedValues, Optional, TypeValue, UInt, Value, go_type

CACHE_SIZE: Final = 1024
CACHE_BYTES: Final = 12 << 20
"""Limits of the cache of compiled derived attributes: their number, and their bytes."""

_SCALARS: Final = (BOOL, INT, STRING, ANY, DYN, SEMVER)


class DerivedAttribute(DeviceExpression[DeviceAttribute]):
    """A compiled derived attribute. Make it with :func:`compile_derived_attribute`."""

    __slots__ = ()

    def evaluate(self, device: DeviceInput, interrupt: Work | InterruptCheck | None = None) -> DeviceAttribute:
        """The attribute's value on a device: one of its fields is set (A-16.3).

        Raises EvaluationError; its text gains no advice on missing keys, as in the allocator of the reference (A-16.4).
        ``interrupt``: as of :meth:`~virt_dra.cel.selector.CompiledSelector.matches`.
        """
        return self._converted(self.program.evaluate({"device": device}, interrupt))

    def _converted(self, value: Value) -> DeviceAttribute:
        """The attribute of a value. As upstream, an optional counts as the scalar in it, and a type as its name."""
        scalar = _scalar(value)
        match scalar:
            case bool():
                return DeviceAttribute(bool_value=scalar)
            case int():
                return DeviceAttribute(int_value=scalar)
            case str():
                return DeviceAttribute(string=scalar)
            case SemVer():
                return DeviceAttribute(version=str(scalar))
        if isinstance(value, list):
            return _list_attribute(value)
        raise EvaluationError(f"unsupported CEL return type: {_native_type(value)}")


def compile_derived_attribute(
    expression: str, environment: Environment = STORED_EXPRESSIONS, work: Work | None = None
) -> DerivedAttribute:
    """Compile a derived attribute, or return the cached one (A-21.9).

    ``environment``, ``work``: as of :func:`~virt_dra.cel.selector.compile_selector`. Raises CompileError: a fault in
    the text, or a result that no attribute can have (A-16.2). Raises Interrupted where the work isn't enough.
    """
    return DERIVED_ATTRIBUTES.get(expression, environment, work)


def _new(expression: str, environment: Environment, spend: Spend) -> Pieces[DerivedAttribute]:
    lists = attribute_type(environment) is DYN  # with DRAListTypeAttributes, and for stored expressions

    def refusal(result: Type) -> str | None:
        if result in _SCALARS or (lists and result.kind is TypeKind.LIST and result.params[0] in _SCALARS):
            return None
        also = " or a list of these scalars" if lists else ""
        return f"must evaluate to a primitive scalar (string, integer, boolean, semver){also}, not {result}"

    return DerivedAttribute(expression, (yield from compiling(expression, environment, refusal, spend)))


DERIVED_ATTRIBUTES: Final = Compilations(_new, CACHE_BYTES, CACHE_SIZE)


AttributeScalar: TypeAlias = bool | int | str | SemVer
S = TypeVar("S", bound=AttributeScalar)


def _scalar(value: Value) -> AttributeScalar | None:
    """A value as an attribute's scalar; None if it is none."""
    while isinstance(value, Optional) and value.present:
        value = value.value
    if isinstance(value, TypeValue):
        return value.name
    return value if isinstance(value, (bool, int, str, SemVer)) and not isinstance(value, UInt) else None


def _list_attribute(values: list[Value]) -> DeviceAttribute:
    """The attribute of a list. The first element's type is the list's; an empty list is one of strings."""
    if not values:
        return DeviceAttribute(strings=())
    match _scalar(values[0]):
        case bool():
            return DeviceAttribute(bools=_alike(values, bool, "bool"))
        case int():
            return DeviceAttribute(ints=_alike(values, int, "int"))
        case str():
            return DeviceAttribute(strings=_alike(values, str, "string"))
        case SemVer():
            return DeviceAttribute(versions=tuple(map(str, _alike(values, SemVer, "semver"))))
    raise EvaluationError(f"unsupported list element type: {_native_type(values[0])}")


def _alike(values: list[Value], kind: type[S], name: str) -> tuple[S, ...]:
    """The elements, all of which must be of one kind."""
    elements: list[S] = []
    for index, value in enumerate(values):
        scalar = _scalar(value)
        if not isinstance(scalar, kind) or type(scalar) is not kind:  # a bool is not an int
            raise EvaluationError(f"expected list element at index {index} to be {name}, got {_native_type(value)}")
        elements.append(scalar)
    return tuple(elements)


_NATIVE_TYPES: Final[Mapping[str, str]] = {
    "types.Bool": "bool",
    "types.Int": "int64",
    "types.Uint": "uint64",
    "types.Double": "float64",
    "types.String": "string",
    "types.Bytes": "[]uint8",
    "types.Null": "structpb.NullValue",
    "types.Timestamp": "time.Time",
    "types.Duration": "time.Duration",
    "*types.Type": "string",
    "*types.baseList": "[]ref.Val",
    "*types.baseMap": "map[ref.Val]ref.Val",
    "cel.Quantity": "*resource.Quantity",
    "*cel.Quantity": "*resource.Quantity",
    "cel.Semver": "semver.Version",
    "cel.URL": "*url.URL",
    "cel.IP": "netip.Addr",
    "cel.CIDR": "netip.Prefix",
}


def _native_type(value: Value) -> str:
    """The Go type in which upstream holds a value; its messages show it."""
    while isinstance(value, Optional):
        if not value.present:
            return "<nil>"
        value = value.value
    if isinstance(value, NamedValues):
        held = next(iter(value.values()), None)
        return "map[string]cel.Quantity" if isinstance(held, Quantity) else "map[string]interface {}"
    name = go_type(value)
    return _NATIVE_TYPES.get(name, name)
