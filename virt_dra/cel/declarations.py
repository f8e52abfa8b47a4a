"""The environments of expressions on devices: Kubernetes' functions, type names and variables (L-2.*, L-3.1, L-3.8)."""

from __future__ import annotations

from functools import cache
from typing import Final

from virt_dra.cel.environment import Environment
from virt_dra.cel.functions import (
    authorizer,
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
from virt_dra.cel.types import BOOL, STRING, Type, parse_type

FUNCTIONS: Final = Library(
    module.library
    for module in (
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
DEVICE: Final = parse_type("kubernetes.DRADevice")
_CAPACITY: Final = parse_type("map(string, map(string, kubernetes.Quantity))")

LANGUAGE: Final = Environment("language", {}, {}, _TYPE_NAMES, FUNCTIONS)
"""Kubernetes' base environment without variables."""


def _for_devices(name: str, functions: Library, *, consumable_capacity: bool, list_attributes: bool) -> Environment:
    attributes = parse_type(f"map(string, map(string, {'dyn' if list_attributes else 'google.protobuf.Any'}))")
    fields = {"driver": STRING, "attributes": attributes, "capacity": _CAPACITY}
    if consumable_capacity:
        fields["allowMultipleAllocations"] = BOOL
    return Environment(name, {"device": DEVICE}, {DEVICE.name: fields}, _TYPE_NAMES, functions)


STORED_EXPRESSIONS: Final = _for_devices(
    "stored expressions", FUNCTIONS, consumable_capacity=True, list_attributes=True
)
"""The environment of the scheduler: every field and function, whatever the gates (A-21.4)."""


@cache
def new_expressions(*, consumable_capacity: bool = True, list_attributes: bool = True) -> Environment:
    """The environment in which the API server compiles new and changed text: what the gates allow (L-3.8, A-21.4,
    A-21.6).

    Without DRAConsumableCapacity a device has no ``allowMultipleAllocations``; without DRAListTypeAttributes an
    attribute's type is ``any``, over which no macro iterates, and there is no ``includes``.
    """
    functions = FUNCTIONS if list_attributes else FUNCTIONS.without("includes")
    gates = {"consumable capacity": consumable_capacity, "list attributes": list_attributes}
    name = f"new expressions ({', '.join(gate for gate, on in gates.items() if on) or 'no gates'})"
    return _for_devices(name, functions, consumable_capacity=consumable_capacity, list_attributes=list_attributes)


def attribute_type(environment: Environment) -> Type:
    """The static type of a device's attribute in an environment for devices: dyn, or any without list attributes."""
    return environment.objects[DEVICE.name]["attributes"].params[1].params[1]
