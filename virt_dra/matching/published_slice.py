"""Published devices as inventories hold them, slice by slice. Immutable, so that unchanged slices are shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from virt_dra.api.integration.attribute_keys import Addresses, DriverKeys, Unusable, addresses
from virt_dra.api.resource_v1 import Device, ResourceSlice
from virt_dra.cel import DeviceInput
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
    """The pool, name and devices of a ResourceSlice; made with :meth:`of`. Compared by identity."""

    pool: PoolKey
    generation: int
    name: str
    devices: tuple[SliceDevice, ...]

    @classmethod
    def from_slice(cls, slice_: ResourceSlice, keys: Mapping[str, tuple[DriverKeys, ...]]) -> PublishedSlice:
        """Convert a slice. ``keys``: configured attribute keys of device addresses, by driver (K-6.6)."""
        spec = slice_.spec
        own = keys.get(spec.driver, ())
        devices = tuple(
            SliceDevice(spec.driver, spec.pool.name, device, spec.node_name or device.node_name or "", own)
            for device in spec.devices
        )
        return cls((spec.driver, spec.pool.name), spec.pool.generation, slice_.name, devices)

    @cached_property
    def by_name(self) -> Mapping[str, SliceDevice]:
        return {published.device.name: published for published in self.devices}
