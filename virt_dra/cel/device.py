"""Device selectors: the variable ``device``, its environment, and compiled selectors (L-3.*, A-21.*)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar, Final

from virt_dra.api.resource_v1 import Device, DeviceAttribute
from virt_dra.api.semver import SemVer, SemVerError
from virt_dra.cel.checker import check
from virt_dra.cel.compiler import Program, compile_tree
from virt_dra.cel.environment import Environment
from virt_dra.cel.errors import CompileError, EvaluationError, Issue, compile_error, enhanced
from virt_dra.cel.functions import (
    authorizer,
    conditional,
    conversions,
    formats,
    formatting,
    kubernetes,
    lists,
    network,
    operators,
    optionals,
    regex,
    strings,
    times,
    urls,
)
from virt_dra.cel.functions.registry import Library
from virt_dra.cel.literals import InvalidConstant, check_constants
from virt_dra.cel.parser import parse
from virt_dra.cel.tokens import SyntaxFault
from virt_dra.cel.types import BOOL, DYN, STRING, Type, TypeTooLarge, parse_type
from virt_dra.cel.values import DomainMap, Optional, Value, type_name

CACHE_SIZE: Final = 4096
"""Compiled selectors that are kept: more than the classes and claims of a large cluster have."""


class DeviceInput(dict[str, Value]):
    """A device as expressions see it; attributes and capacity by domain and identifier. Make it with :func:`device_input`."""

    __slots__ = ()
    CEL_TYPE: ClassVar[str] = "map"

    @property
    def driver(self) -> Value:
        return self["driver"]

    @property
    def allow_multiple_allocations(self) -> Value:
        return self["allowMultipleAllocations"]

    @property
    def attributes(self) -> Value:
        return self["attributes"]

    @property
    def capacity(self) -> Value:
        return self["capacity"]


def device_input(driver: str, device: Device) -> DeviceInput:
    """Convert a device for evaluation (A-21.1, A-21.2, L-3.2, L-3.3).

    All attributes are converted, used or not. Where ``NAME`` and ``DRIVER/NAME`` are both published, the qualified one wins (AC-17).
    Raises EvaluationError `attribute NAME: …` for a value that can't be converted.
    """
    attributes: dict[str, Value] = {name: _attribute_value(name, device.attributes[name]) for name in sorted(device.attributes)}
    capacity: dict[str, Value] = {name: device.capacity[name].value for name in sorted(device.capacity)}
    return DeviceInput(
        driver=driver,
        allowMultipleAllocations=bool(device.allow_multiple_allocations),
        attributes=_by_domain(driver, attributes),
        capacity=_by_domain(driver, capacity),
    )


def _by_domain(driver: str, values: Mapping[str, Value]) -> DomainMap:
    domains = DomainMap()
    for qualified in (False, True):
        for name, value in values.items():
            domain, slash, identifier = name.partition("/")
            if bool(slash) is qualified:
                if not qualified:
                    domain, identifier = driver, name
                domains.setdefault(domain, {})[identifier] = value
    return domains


def _attribute_value(name: str, attribute: DeviceAttribute) -> Value:
    for values in (attribute.ints, attribute.bools, attribute.strings):
        if values is not None:
            return list(values)
    if attribute.versions is not None:
        return [_version(name, text) for text in attribute.versions]
    for value in (attribute.int_value, attribute.bool_value, attribute.string):
        if value is not None:
            return value
    if attribute.version is not None:
        return _version(name, attribute.version)
    raise EvaluationError(f"attribute {name}: unsupported attribute value")


def _version(name: str, text: str) -> SemVer:
    try:
        return SemVer.parse(text).require_uint64()
    except SemVerError as error:
        raise EvaluationError(f"attribute {name}: parse semantic version: {error}") from None


FUNCTIONS: Final = Library(
    module.library
    for module in (
        conditional,
        operators,
        conversions,
        times,
        strings,
        formatting,
        lists,
        optionals,
        regex,
        kubernetes,
        network,
        urls,
        formats,
        authorizer,
    )
)
_TYPE_NAMES: Final[dict[str, Type]] = {
    name: parse_type(text)
    for name, text in {
        **{name: name for name in ("bool", "int", "uint", "double", "string", "bytes", "null_type", "type")},
        "list": "list(dyn)",
        "map": "map(dyn, dyn)",
        "optional_type": "optional_type(dyn)",
        "google.protobuf.Duration": "google.protobuf.Duration",
        "google.protobuf.Timestamp": "google.protobuf.Timestamp",
        "net.IP": "net.IP",
        "net.CIDR": "net.CIDR",
    }.items()
}
_ATTRIBUTES: Final = parse_type("map(string, map(string, dyn))")
_CAPACITY: Final = parse_type("map(string, map(string, kubernetes.Quantity))")

LANGUAGE: Final = Environment("language", {}, {}, _TYPE_NAMES, FUNCTIONS)
"""Kubernetes' base environment without variables."""

STORED_EXPRESSIONS: Final = Environment(
    "stored expressions",
    {"device": parse_type("kubernetes.DRADevice")},
    {
        "kubernetes.DRADevice": {
            "driver": STRING,
            "allowMultipleAllocations": BOOL,
            "attributes": _ATTRIBUTES,
            "capacity": _CAPACITY,
        }
    },
    _TYPE_NAMES,
    FUNCTIONS,
)
"""What the scheduler compiles with: knows every field and function, whatever the gates (A-21.4)."""


def compile_expression(text: str, environment: Environment = STORED_EXPRESSIONS, results: Collection[Type] | None = None) -> Program:
    """Parse, check and compile an expression; ``results``: the types its value may have, None for any. Raises CompileError."""
    try:
        root = parse(text)
        issues, nodes = check(root, environment)
    except SyntaxFault as fault:
        raise compile_error(text, [fault.issue]) from None
    except TypeTooLarge as error:
        raise compile_error(text, [Issue(None, f"the expression is too complex: {error}")]) from None
    if issues:
        raise compile_error(text, issues)
    if results is not None and root.type not in results:
        raise CompileError(f"must evaluate to bool or the unknown type, not {root.type}")
    try:
        check_constants(nodes)
    except InvalidConstant as error:
        raise CompileError(f"program instantiation failed: {error}") from None
    return compile_tree(text, root, environment)


@dataclass(frozen=True, slots=True, eq=False)
class Selector:
    """A compiled device selector. Make it with :func:`compile_selector`."""

    expression: str
    _program: Program

    def matches(self, device: DeviceInput) -> bool:
        """Whether the device is selected. Raises EvaluationError with the text that users see (L-3.5, L-3.7)."""
        try:
            value = self._program.evaluate({"device": device})
        except EvaluationError as error:
            raise EvaluationError(enhanced(error.message)) from None
        return _as_bool(value)


_REFUSALS = MappingProxyType(
    {
        "string": "unsupported native conversion from string to 'bool'",
        "int": "unsupported type conversion from 'int' to bool",
        "uint": "unsupported type conversion from 'uint' to bool",
        "double": "type conversion error from Double to 'bool'",
        "bytes": "type conversion error from Bytes to 'bool'",
        "list": "type conversion error from list to 'bool'",
        "map": "type conversion error from map to 'bool'",
        "type": "type conversion not supported for 'type'",
        "null_type": "type conversion error from 'null_type' to 'bool'",
    }
)


def _as_bool(value: Value) -> bool:
    """The result as a bool; an optional bool counts as what it holds (L-3.7)."""
    inner = value
    while isinstance(inner, Optional):
        if not inner.present:
            raise EvaluationError(f"CEL result of type {type_name(value)} could not be converted to bool: optional.none() dereference")
        inner = inner.value
    if inner is True or inner is False:
        return inner is True
    name = type_name(inner)
    why = _REFUSALS.get(name, f"type conversion error from '{name.rpartition('.')[2]}' to 'bool'")
    raise EvaluationError(f"CEL result of type {type_name(value)} could not be converted to bool: {why}")


_SELECTS: Final = (BOOL, DYN)


@lru_cache(maxsize=CACHE_SIZE)
def compile_selector(expression: str) -> Selector:
    """Compile a device selector in the stored-expressions environment; results are cached, errors aren't (A-21.9).

    Raises CompileError: a fault in the text (`compilation failed: …`), or a result that is neither bool nor unknown (L-3.7).
    """
    return Selector(expression, compile_expression(expression, STORED_EXPRESSIONS, _SELECTS))
