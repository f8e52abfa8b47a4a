"""A ResourceSlice as the inventory keeps it. Immutable, so that unchanged slices are shared by all inventories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.resource_v1 import ResourceSlice
from webhooks.selectors.slice_device import SliceDevice, SliceDeviceName

PoolKey = tuple[str, str]
"""Driver and pool."""


@dataclass(frozen=True, eq=False)
class PublishedSlice:
    """The pool, name and devices of a ResourceSlice; made with :meth:`of`. Compared by identity."""

    pool: PoolKey
    generation: int
    name: str
    devices: tuple[SliceDevice, ...]

    @classmethod
    def of(cls, slice_: ResourceSlice, keys: Mapping[str, tuple[DriverKeys, ...]]) -> PublishedSlice:
        """Convert a slice. ``keys``: configured attribute keys of device addresses, by driver (K-6.6)."""
        spec = slice_.spec
        own = keys.get(spec.driver, ())
        devices = tuple(
            SliceDevice(spec.driver, spec.pool.name, device, spec.node_name or device.node_name or "", own)
            for device in spec.devices
        )
        return cls((spec.driver, spec.pool.name), spec.pool.generation, slice_.name, devices)

    @cached_property
    def by_name(self) -> Mapping[SliceDeviceName, SliceDevice]:
        return {each.name: each for each in self.devices}
