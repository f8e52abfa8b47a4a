"""Device attributes as constraints see them (A-15.2, A-15.4, A-15.6): looked up by qualified name, compared as a typed set of values."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from virt_dra.allocator.model import Device, Kind, Label, Request, Upcoming
from virt_dra.api.resource_v1 import DeviceAttribute


@dataclass(frozen=True, slots=True)
class Values:
    """The values of one attribute: a type name and a set. Values of different types are never equal; versions compare as text."""

    type: str
    values: frozenset[int | str | bool]

    def __str__(self) -> str:
        # Only JSON types occur, and sorting by text makes the wording independent of hashing.
        shown = sorted(str(v).lower() if isinstance(v, bool) else str(v) for v in self.values)
        return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"


def find(device: Device, name: str) -> DeviceAttribute | None:
    """The exact qualified name, else, in the driver's own domain, the bare identifier (A-15.2)."""
    attributes = device.published.attributes
    found = attributes.get(name)
    if found is None:
        domain, slash, identifier = name.partition("/")
        if slash and domain == device.id.driver:
            found = attributes.get(identifier)
    return found


def values_of(attribute: DeviceAttribute, *, lists: bool) -> Values | None:
    """None for an attribute without a value of a known type. Lists count only with ``lists`` (ListTypeAttributes): AC-18."""
    if lists:
        for kind, many in (
            ("int", attribute.ints),
            ("bool", attribute.bools),
            ("string", attribute.strings),
            ("version", attribute.versions),
        ):
            if many:
                return Values(kind, frozenset(many))
    if attribute.int_value is not None:
        return Values("int", frozenset((attribute.int_value,)))
    if attribute.bool_value is not None:
        return Values("bool", frozenset((attribute.bool_value,)))
    if attribute.string is not None:
        return Values("string", frozenset((attribute.string,)))
    if attribute.version is not None:
        return Values("version", frozenset((attribute.version,)))
    return None


def applies(requests: tuple[str, ...], request: Request) -> bool:
    """Whether a constraint's list of requests covers this one: empty covers all; a subrequest also by its parent (A-15.1)."""
    if not requests:
        return True
    if request.parent is None:
        return request.name in requests
    return request.parent in requests or request.full_name in requests


@dataclass(frozen=True, slots=True)
class Constrained:
    """The attribute and the requests that a constraint speaks of. ``requests`` empty: all of the claim."""

    name: str
    requests: tuple[str, ...]
    lists: bool

    def covers(self, request: Request) -> bool:
        return applies(self.requests, request)

    def matters(self, upcoming: Upcoming) -> bool:
        """Whether a request still to come is covered."""
        return any(self.covers(request) for request in upcoming.requests)

    def values(self, device: Device) -> Values | None:
        attribute = find(device, self.name)
        return None if attribute is None else values_of(attribute, lists=self.lists)

    def kind(self, request: Request, device: Device) -> Kind:
        """Devices with equal values are alike to the constraint, and all devices of a request that it doesn't cover."""
        return self.values(device) if self.covers(request) else NOT_CONSTRAINED

    def fact(self, request: Request, device: Device) -> Hashable:
        """Two constraints on one attribute see the same values, hence one space of labels for it."""
        if not self.covers(request):
            return NOT_CONSTRAINED
        values = self.values(device)
        return None if values is None else Label(self.name, tuple((values.type, value) for value in sorted(values.values, key=str)))


NOT_CONSTRAINED = True
"""The kind (model.Kind) of any device to a constraint that doesn't cover the request."""

MISSING = "AttributeMissing"
"""A constraint needs an attribute that the device doesn't publish, or not with a type that can be compared."""
