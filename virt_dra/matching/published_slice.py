"""Published devices as inventories hold them, slice by slice. Immutable, so that unchanged slices are shared."""

from __future__ import annotations

from collections import defaultdict
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
        """Its addresses, or why it has none."""
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
    """The pool, name and devices of a ResourceSlice; made with :meth:`from_slice`. Compared by identity.

    ``position``: of :class:`~virt_dra.matching.positions.SlicePositions`.
    """

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

    @cached_property
    def columns(self) -> Mapping[str, int]:
        """For each attribute and capacity a digest of its values on all devices, by :func:`attribute_column` and
        :func:`capacity_column`; under :data:`ALWAYS` of what every selector depends on, which is unique where a device
        can't be converted. (A driver that made digests collide would deceive about its own slices only: those of one
        driver are compared.)"""
        values: defaultdict[str, list[object]] = defaultdict(list)
        values[ALWAYS] = []
        for number, published in enumerate(self.devices):
            driver, device = published.driver, published.device
            whole = all(map(convertible, device.attributes.values()))
            values[ALWAYS].append((device.allow_multiple_allocations is True, whole or self.position))
            for name, attribute in device.attributes.items():
                if "/" in name or f"{driver}/{name}" not in device.attributes:
                    values[attribute_column(*_qualified(driver, name))].append((number, _content(attribute)))
            for name, capacity in device.capacity.items():
                if "/" in name or f"{driver}/{name}" not in device.capacity:
                    values[capacity_column(*_qualified(driver, name))].append((number, str(capacity.value)))
        return {name: _digest(column) for name, column in values.items()}


ALWAYS: Final = ""


def attribute_column(domain: str, identifier: str) -> str:
    return f"attribute {domain}/{identifier}"


def capacity_column(domain: str, identifier: str) -> str:
    return f"capacity {domain}/{identifier}"


def _qualified(driver: str, name: str) -> tuple[str, str]:
    domain, slash, identifier = name.rpartition("/")
    return (domain, identifier) if slash else (driver, name)


def _content(value: DeviceAttribute) -> object:
    single = value.int_value, value.bool_value, value.string, value.version
    return single, value.ints, value.bools, value.strings, value.versions


def _digest(column: list[object]) -> int:
    """Of 63 bits, and never 0."""
    digest = blake2b(repr(column).encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1 or 1
