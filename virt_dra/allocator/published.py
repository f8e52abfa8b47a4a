"""Interning of what devices publish: attribute values as constraints compare them, and small numbers for equal values
and profiles, given once, when slices are read."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import NamedTuple

from virt_dra.api import resource_v1
from virt_dra.api.resource_v1 import DeviceAttribute
from virt_dra.cel import convertible

Scalar = int | str | bool


class Values:
    """The values of one attribute: a type name and a set. Values of different types are never equal; versions compare
    as text."""

    __slots__ = ("_set", "published", "type")

    def __init__(self, type: str, published: tuple[Scalar, ...], common: frozenset[Scalar] | None = None) -> None:
        """``published``: in the order of the slice. ``common``: what several devices have in common, instead."""
        self.type = type
        self.published = published
        self._set = common

    @property
    def values(self) -> frozenset[Scalar]:
        if self._set is None:  # lists of many values are more often published than compared
            self._set = frozenset(self.published)
        return self._set

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and self.type == other.type and self.values == other.values

    def __hash__(self) -> int:
        return hash((self.type, self.values))

    def __str__(self) -> str:
        # Only JSON types occur, and sorting by text makes the wording independent of hashing.
        shown = sorted(str(v).lower() if isinstance(v, bool) else str(v) for v in self.values)
        return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"


def values_of(attribute: DeviceAttribute, *, lists: bool) -> Values | None:
    """The values of an attribute; None if it has none of a known type. Lists count only with ``lists``
    (ListTypeAttributes): AC-18."""
    if lists:
        if attribute.ints:
            return Values("int", attribute.ints)
        if attribute.bools:
            return Values("bool", attribute.bools)
        if attribute.strings:
            return Values("string", attribute.strings)
        if attribute.versions:
            return Values("version", attribute.versions)
    if attribute.int_value is not None:
        return _single("int", attribute.int_value)
    if attribute.bool_value is not None:
        return _single("bool", attribute.bool_value)
    if attribute.string is not None:
        return _single("string", attribute.string)
    if attribute.version is not None:
        return _single("version", attribute.version)
    return None


@lru_cache(maxsize=4096)
def _single(type: str, value: Scalar) -> Values:
    """Few values occur often. The type keeps 1 and true apart, which Python holds equal."""
    return Values(type, (value,))


Elements = tuple[str, tuple[int, ...]]
"""A type and a number for each value: equal numbers mean equal values of equal types."""


class DeviceFacts(NamedTuple):
    """What a `PoolDevice` says of what is published; its fields of the same names."""

    profile: int
    columns: Mapping[str, int]
    numbers: tuple[int, ...]
    convertible: bool


_KEPT_DEVICES = 4_096
"""Devices that are remembered by their identity: those that many slices share come early."""


class PublishedValues:
    """The numbers, for one set of slices, which must outlive this: equal parts are recognized by their identity first,
    as most are shared (`api.reading.interning`), then by their values."""

    def __init__(self) -> None:
        self._facts_of_shared: dict[tuple[str, int], DeviceFacts] = {}
        self._profiles: dict[Hashable, int] = {}
        self._profiles_of_shared: dict[Hashable, int] = {}
        """By the identity of every part."""
        self._numbers: dict[Hashable, int] = {}
        self._numbers_of_shared: dict[int, int] = {}
        """By the identity of the attribute."""
        self._attributes: list[DeviceAttribute] = []
        """By number, the first with that value."""
        self._columns: dict[tuple[str, ...], Mapping[str, int]] = {}
        self._inconvertible: set[int] = set()
        self._lists: dict[int, Elements] = {}
        """Of lists of several values, by number."""
        self._elements: dict[tuple[str, Scalar], int] = {}

    def facts(self, driver: str, device: resource_v1.Device, context: str) -> DeviceFacts:
        """The facts of a device. ``context``: a text with the driver, and everything that slice and pool say for all
        their devices."""
        key = context, id(device)
        facts = self._facts_of_shared.get(key)
        if facts is None:
            columns, numbers = self._columns_and_numbers(driver, device)
            facts = DeviceFacts(
                self._profile(device, context), columns, numbers, self._inconvertible.isdisjoint(numbers)
            )
            if len(self._facts_of_shared) < _KEPT_DEVICES:
                self._facts_of_shared[key] = facts
        return facts

    def _profile(self, device: resource_v1.Device, context: str) -> int:
        parts = [id(part) for name, part in device.__dict__.items() if name not in ("name", "attributes")]
        shared = (context, id(device.model_fields_set), id(device.model_extra), *parts)
        profile = self._profiles_of_shared.get(shared)
        if profile is None:
            own = device.model_dump_json(exclude={"name", "attributes"}, exclude_unset=True)
            profile = self._profiles_of_shared[shared] = self._profiles.setdefault((context, own), len(self._profiles))
        return profile

    def _columns_and_numbers(
        self, driver: str, device: resource_v1.Device
    ) -> tuple[Mapping[str, int], tuple[int, ...]]:
        attributes, numbers = device.attributes, self._numbers_of_shared
        names = (driver, *attributes)
        columns = self._columns.get(names)
        if columns is None:
            columns = self._columns[names] = {name: place for place, name in enumerate(attributes)}
        return columns, tuple(
            [numbers.get(id(attribute)) or self._number(attribute) for attribute in attributes.values()]
        )

    def _number(self, attribute: DeviceAttribute) -> int:
        value = tuple(attribute.__dict__.values())  # all fields, in a third of the time that naming each takes
        number = self._numbers_of_shared[id(attribute)] = self._numbers.get(value) or self._new(value, attribute)
        return number

    def _new(self, value: Hashable, attribute: DeviceAttribute) -> int:
        self._attributes.append(attribute)
        number = self._numbers[value] = len(self._attributes)
        if not convertible(attribute):
            self._inconvertible.add(number)
        values = values_of(attribute, lists=True)
        if values is not None and len(values.published) > 1:
            self._lists[number] = values.type, self.numbered(values)  # now, while the values are at hand
        return number

    def elements(self, number: int, *, lists: bool) -> Elements | None:
        """The numbered elements of a value; None if none can be compared (0: no such attribute). ``lists``: see
        `values_of`."""
        if lists and number in self._lists:
            return self._lists[number]
        values = values_of(self._attributes[number - 1], lists=lists) if number else None
        return None if values is None else (values.type, self.numbered(values))

    def numbered(self, values: Values) -> tuple[int, ...]:
        """Numbers of the elements, in the order in which they are published."""
        type_, elements = values.type, self._elements
        return tuple([elements.setdefault((type_, value), len(elements)) for value in values.published])
