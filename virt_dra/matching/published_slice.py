"""Published devices as inventories hold them, slice by slice. Immutable, so that unchanged slices are shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Final

from virt_dra.api.integration.attribute_keys import Addresses, DriverKeys, Unusable, addresses
from virt_dra.api.resource_v1 import Device, DeviceAttribute, ResourceSlice
from virt_dra.cel import DeviceInput, convertible
from virt_dra.matching.matcher import readable
from virt_dra.matching.reading import published_value

PoolKey = tuple[str, str]
"""Driver and pool."""


@dataclass(frozen=True, eq=False)
class SliceDevice:
    """A device of a slice. ``node``: the only node that has it, or ""."""

    driver: str
    pool: str
    device: Device
    node: str
    keys: tuple[DriverKeys, ...] = ()
    """Configured attribute keys of addresses, besides the well-known ones (K-6.6)."""

    @cached_property
    def addresses(self) -> Addresses | Unusable:
        """The device's addresses, or why it has none."""
        return addresses(self.driver, self.device.attributes, self.keys)

    @cached_property
    def input(self) -> DeviceInput | str:
        """The device as selectors read it, or why it can't be converted."""
        return readable(self.driver, self.device)

    @property
    def name(self) -> tuple[str, str, str]:
        """Driver, pool, device."""
        return self.driver, self.pool, self.device.name

    def text(self, identifier: str) -> str | None:
        """The string value of one of the driver's own attributes."""
        attribute = published_value(self.device.attributes, self.driver, self.driver, identifier)
        return attribute.string if attribute is not None else None

    def __str__(self) -> str:
        return f"{self.device.name} (driver {self.driver}, pool {self.pool})"


@dataclass(frozen=True, eq=False)
class PublishedSlice:
    """The pool, name and devices of a ResourceSlice; compared by identity. ``position``: of
    :class:`.SlicePositions`."""

    pool: PoolKey
    generation: int
    name: str
    devices: tuple[SliceDevice, ...]
    position: int

    @classmethod
    def from_slice(
        cls, slice_: ResourceSlice, keys: Mapping[str, tuple[DriverKeys, ...]], position: int
    ) -> PublishedSlice:
        """Convert a slice. ``keys``: configured attribute keys of device addresses, by driver (K-6.6)."""
        spec = slice_.spec
        own = keys.get(spec.driver, ())
        devices = tuple(
            SliceDevice(spec.driver, spec.pool.name, device, spec.node_name or device.node_name or "", own)
            for device in spec.devices
        )
        return cls((spec.driver, spec.pool.name), spec.pool.generation, slice_.name, devices, position)

    @cached_property
    def by_name(self) -> Mapping[str, SliceDevice]:
        return {published.device.name: published for published in self.devices}

    @property
    def device_ids(self) -> tuple[int, ...]:
        """The ids of its device objects, valid while it lives: equal for slices with the same devices, as most have."""
        return tuple([id(published.device) for published in self.devices])

    @cached_property
    def _digests(self) -> dict[str, int]:
        """What :meth:`column` computed so far."""
        return {}

    def column(self, name: str) -> int:
        """A digest of the values of an attribute or capacity on all devices, 0 where none has it; for :data:`ALWAYS` of
        what every selector depends on, which is unique where a device can't be converted. (A driver that made digests
        collide would deceive about its own slices only: those of one driver are compared.)"""
        digest = self._digests.get(name)
        if digest is not None:
            return digest
        # Selectors may read any number of names that no device has: they cost no look at the devices, and nothing is
        # kept of them.
        return self._made(name) if name in self._names else 0

    @property
    def columns(self) -> Mapping[str, int]:
        """The columns of every attribute and capacity that a device has, and :data:`ALWAYS`."""
        return {name: self._digests.get(name) or self._made(name) for name in self._column_names()}

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self._column_names())

    def _column_names(self) -> set[str]:
        driver = self.pool[0]
        attributes = set[str]().union(*(published.device.attributes for published in self.devices))
        capacity = set[str]().union(*(published.device.capacity for published in self.devices))
        return {
            ALWAYS,
            *(attribute_column(*_qualified(driver, name)) for name in attributes),
            *(capacity_column(*_qualified(driver, name)) for name in capacity),
        }

    def _made(self, name: str) -> int:
        return self._digests.setdefault(name, _digest(self._always() if name == ALWAYS else self._cells(name)))

    def _always(self) -> list[object]:
        whole = (all(map(convertible, published.device.attributes.values())) for published in self.devices)
        return [
            (published.device.allow_multiple_allocations is True, converts or self.position)
            for published, converts in zip(self.devices, whole, strict=True)
        ]

    def _cells(self, name: str) -> list[object]:
        kind, _, qualified = name.partition(" ")
        domain, _, identifier = qualified.rpartition("/")
        cells: list[object] = []
        for number, published in enumerate(self.devices):
            driver, device = published.driver, published.device
            if kind == _ATTRIBUTE:
                attribute = published_value(device.attributes, driver, domain, identifier)
                if attribute is not None:
                    cells.append((number, _content(attribute)))
            else:
                capacity = published_value(device.capacity, driver, domain, identifier)
                if capacity is not None:
                    cells.append((number, str(capacity.value)))
        return cells


_ATTRIBUTE: Final = "attribute"
_CAPACITY: Final = "capacity"
ALWAYS: Final = ""


def attribute_column(domain: str, identifier: str) -> str:
    return f"{_ATTRIBUTE} {domain}/{identifier}"


def capacity_column(domain: str, identifier: str) -> str:
    return f"{_CAPACITY} {domain}/{identifier}"


def _qualified(driver: str, name: str) -> tuple[str, str]:
    domain, slash, identifier = name.rpartition("/")
    return (domain, identifier) if slash else (driver, name)


def _content(value: DeviceAttribute) -> object:
    single = value.int_value, value.bool_value, value.string, value.version
    return single, value.ints, value.bools, value.strings, value.versions


def _digest(column: list[object]) -> int:
    """A digest of 63 bits, never 0."""
    digest = blake2b(repr(column).encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1 or 1
