"""Device attributes as constraints see them (A-15.2, A-15.4, A-15.6): looked up by qualified name, compared as a typed
set of values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from virt_dra.allocator.errors import Aborted, DeadlineExceeded, FatalError
from virt_dra.allocator.features import derived_attributes
from virt_dra.allocator.gates import Features
from virt_dra.allocator.memo import remember
from virt_dra.allocator.model import AttributeName, Check, Label, PoolDevice, Rejection, Request, SymmetryKey, Upcoming
from virt_dra.allocator.published import Elements, PublishedValues, Values, values_of
from virt_dra.cel import Work


def applies(requests: tuple[str, ...], request: Request) -> bool:
    """True if a constraint's list of requests covers this one: empty covers all; a subrequest also by its parent
    (A-15.1)."""
    if not requests:
        return True
    if request.parent is None:
        return request.name in requests
    return request.parent in requests or request.full_name in requests


class ValuesOf(dict[PoolDevice, "Values | FatalError | None"]):
    """The values of one attribute, published or derived, by device; computed when first needed. Errors are cached
    too."""

    def __init__(self, name: str, *, lists: bool, expression: str | None, numbers: PublishedValues) -> None:
        self._name = name
        self._published = AttributeName(name)
        self._numbers = numbers
        self._lists = lists
        self._expression = expression
        self._facts: dict[int, Hashable] = {}
        """Of published values, by their numbers."""

    def __missing__(self, device: PoolDevice) -> Values | FatalError | None:
        values = self[device] = self._values(device)
        return values

    @property
    def derived(self) -> bool:
        return self._expression is not None

    def within(self, device: PoolDevice, work: Work | None) -> Values | FatalError | None:
        """The values of a device. ``work``: for deriving them; if it is interrupted, raises DeadlineExceeded and caches
        nothing."""
        values = self.get(device, _UNKNOWN_VALUES)
        if values is _UNKNOWN_VALUES:
            values = self[device] = self._values(device, work)
        return values

    def _values(self, device: PoolDevice, work: Work | None = None) -> Values | FatalError | None:
        if self._expression is None:
            attribute = self._published.find(device)
        else:
            try:
                attribute = derived_attributes.evaluate(self._name, self._expression, device, work)
            except Aborted:
                raise
            except FatalError as error:
                return error
        return None if attribute is None else values_of(attribute, lists=self._lists)

    def reuse_keys(self, devices: Sequence[PoolDevice], work: Work | None = None) -> list[Hashable]:
        """Reuse keys (model.Check): labels, None for a device without a value, an error's text."""
        if self._expression is not None:
            return [self._fact(device, work) for device in devices]
        keys: list[Hashable] = []
        for number in self._published.numbers(devices):
            fact = self._facts.get(number, _UNKNOWN)
            if fact is _UNKNOWN:
                if len(self._facts) >= _REMEMBERED_VALUES:
                    self._facts.clear()
                fact = self._facts[number] = self._label(self._numbers.elements(number, lists=self._lists))
            keys.append(fact)
        return keys

    def _fact(self, device: PoolDevice, work: Work | None) -> Hashable:
        values = self.within(device, work)
        if isinstance(values, Values):
            return self._label((values.type, self._numbers.numbered(values)))
        return None if values is None else str(values)  # whatever else is the same, an error names this device

    def _label(self, elements: Elements | None) -> Label | None:
        """All constraints on one attribute share one space of labels, derived or not."""
        return None if elements is None else Label((self._name, elements[0]), elements[1])


_UNKNOWN = object()
_UNKNOWN_VALUES: Final = FatalError("not derived yet")
_REMEMBERED_VALUES = 16384
"""Of one attribute; values that occur once gain nothing by more."""
_REMEMBERED_ATTRIBUTES = 4096
"""Attributes whose values are cached. A cluster has few; only generated texts reach this."""


class Attributes:
    """The values of all attributes that constraints have read, for one set of slices."""

    def __init__(self, numbers: PublishedValues) -> None:
        self._numbers = numbers
        self._values: dict[tuple[str, str | None, bool], ValuesOf] = {}

    def values_of(self, request: Request, name: str, *, lists: bool) -> ValuesOf:
        """The values that ``name`` stands for in the request: of the attribute it derives, else of the published one
        (A-15.2)."""
        key = (name, request.derived.get(name), lists)
        values = self._values.get(key)
        if values is None:
            values = ValuesOf(name, lists=lists, expression=key[1], numbers=self._numbers)
            remember(self._values, key, values, _REMEMBERED_ATTRIBUTES)
        return values


@dataclass(eq=False)
class AttributeConstraint(Check):
    """A constraint that compares the values of one attribute."""

    name: str
    requests: tuple[str, ...]
    """Those of the claim that it covers; empty: all."""
    features: Features
    attributes: Attributes
    work: Work | None = None
    """Of the attempt, for deriving attributes."""
    _of: dict[Request, ValuesOf | None] = field(init=False, default_factory=dict)
    """None for a request that isn't covered."""

    def _values_of(self, request: Request) -> ValuesOf | None:
        try:
            return self._of[request]
        except KeyError:
            covered, lists = applies(self.requests, request), self.features.list_type_attributes
            values = self._of[request] = self.attributes.values_of(request, self.name, lists=lists) if covered else None
            return values

    def constrains(self, request: Request) -> bool:
        return self._values_of(request) is not None

    def matters(self, upcoming: Upcoming) -> bool:
        """True if an upcoming request is covered."""
        return any(self.constrains(request) for request in upcoming.requests)

    def values(self, request: Request, device: PoolDevice) -> Values | None:
        """The device's values for a request that is covered. Raises :class:`FatalError` (E19, E20)."""
        of = self._values_of(request)
        if of is None:
            return None
        try:
            values = of.within(device, self.work) if of.derived else of[device]
        except DeadlineExceeded as error:
            raise _of_request(request, error) from None
        if isinstance(values, FatalError):
            raise FatalError(str(values))
        return values

    def symmetry_key(self, request: Request, device: PoolDevice) -> SymmetryKey:
        return self.values(request, device) if self.constrains(request) else NOT_CONSTRAINED

    def reuse_keys(
        self, request: Request, devices: Sequence[PoolDevice], work: Work | None = None
    ) -> Sequence[Hashable]:
        of = self._values_of(request)
        if of is None:
            return [NOT_CONSTRAINED] * len(devices)
        try:
            return of.reuse_keys(devices, work)
        except DeadlineExceeded as error:
            raise _of_request(request, error) from None

    def reuse_key(self, request: Request, device: PoolDevice) -> Hashable:
        return self.reuse_keys(request, (device,), self.work)[0]

    def missing(self, constraint: str, request: Request, device: PoolDevice) -> Rejection:
        """The refusal of a device without a value. ``constraint``: its name in the message."""
        detail = "derived value is not comparable" if self.name in request.derived else "no comparable value"
        return Rejection(MISSING, f"attribute {self.name} missing", device.id, f"{constraint} {self.name}: {detail}")


def _of_request(request: Request, error: DeadlineExceeded) -> DeadlineExceeded:
    """The same error with the request whose attribute was being derived."""
    return DeadlineExceeded(error.progress, f"claim {request.claim.key}, request {request.full_name}, {error.subject}")


NOT_CONSTRAINED = True
"""The symmetry and reuse key of any device to a constraint that doesn't cover the request."""

MISSING = "AttributeMissing"
"""A constraint needs an attribute that the device doesn't publish, or not with a type that can be compared."""
