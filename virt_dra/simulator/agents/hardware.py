"""Devices described in short, and the ResourceSlices that a driver publishes for them. Pure.

HardwarePool("gpu.example.com", "node-1", pci_devices(4), node="node-1", per_slice=2, generation=3)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from virt_dra.api.integration.device_metadata import MDEV_UUID, PCI_BUS_ID
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import (
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceTaint,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from virt_dra.api.wire import Json

MAX_DEVICES = 128
"""Of one slice; half of it where devices have taints (C-14)."""
MAX_TAINTED = 64

AttributeValue = str | int | bool


@dataclass(frozen=True)
class Gadget:
    """One device. ``attributes`` is what its slice says; ``metadata`` what its driver writes into metadata files
    instead, if that differs; ``environment`` the variables its driver sets in containers."""

    name: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[DeviceTaint, ...] = ()
    metadata: Mapping[str, AttributeValue] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def published(self) -> Device:
        return Device(
            name=self.name,
            attributes={key: attribute(value) for key, value in self.attributes.items()},
            capacity={key: DeviceCapacity(value=Quantity(value)) for key, value in self.capacity.items()},
            taints=self.taints,
        )

    def described(self) -> dict[str, DeviceAttribute]:
        """The attributes in metadata files."""
        return {
            key: attribute(value)
            for key, value in (self.attributes if self.metadata is None else self.metadata).items()
        }


def attribute(value: AttributeValue) -> DeviceAttribute:
    if isinstance(value, bool):
        return DeviceAttribute(bool_value=value)
    return DeviceAttribute(int_value=value) if isinstance(value, int) else DeviceAttribute(string=value)


def pci_devices(
    count: int, *, prefix: str = "gpu", bus: int = 1, key: str = PCI_BUS_ID, **attributes: AttributeValue
) -> tuple[Gadget, ...]:
    """Functions 0 of ``count`` slots from a bus on, 32 a bus. ``key``: of the address; metadata has KEP-5304's."""
    gadgets = []
    for number in range(count):
        address = f"{(bus + number // 32) // 256:04x}:{(bus + number // 32) % 256:02x}:{number % 32:02x}.0"
        shown = {**attributes, key: address}
        gadgets.append(Gadget(f"{prefix}-{number}", shown, metadata={**attributes, PCI_BUS_ID: address}))
    return tuple(gadgets)


def mdev_devices(
    count: int, *, prefix: str = "vgpu", parent: str = "", **attributes: AttributeValue
) -> tuple[Gadget, ...]:
    """``count`` mediated devices with own UUIDs. ``parent``: PCI address of their device, published with them."""
    above: Mapping[str, AttributeValue] = {PCI_BUS_ID: parent} if parent else {}
    return tuple(
        Gadget(
            f"{prefix}-{number}",
            {**attributes, MDEV_UUID: f"{sum(prefix.encode()):08x}-0000-4000-8000-{number:012x}", **above},
        )
        for number in range(count)
    )


@dataclass(frozen=True)
class HardwarePool:
    """Devices of one driver under one name, at a node ("": at all), in slices of ``per_slice``."""

    driver: str
    name: str
    devices: tuple[Gadget, ...]
    node: str = ""
    per_slice: int = MAX_TAINTED
    generation: int = 1

    def __post_init__(self) -> None:
        limit = MAX_TAINTED if any(gadget.taints for gadget in self.devices) else MAX_DEVICES
        if not 1 <= self.per_slice <= limit:
            raise ValueError(f"per_slice must be 1 to {limit}, not {self.per_slice}")
        names = [gadget.name for gadget in self.devices]
        if len(set(names)) != len(names):
            raise ValueError(f"pool {self.name}: device names must differ: {', '.join(names)}")

    def gadget(self, name: str) -> Gadget | None:
        return next((gadget for gadget in self.devices if gadget.name == name), None)

    def next_generation(self, devices: tuple[Gadget, ...] | None = None) -> HardwarePool:
        """The pool as it is published after a change, with the same devices or others."""
        return replace(self, generation=self.generation + 1, devices=self.devices if devices is None else devices)

    def tainted(self, device: str, *taints: DeviceTaint) -> HardwarePool:
        """The next generation, in which a device has exactly these taints. Raises KeyError for an unknown device."""
        if self.gadget(device) is None:
            raise KeyError(device)
        changed = tuple(replace(gadget, taints=taints) if gadget.name == device else gadget for gadget in self.devices)
        return replace(self, per_slice=min(self.per_slice, MAX_TAINTED)).next_generation(changed)

    def slices(self) -> tuple[ResourceSlice, ...]:
        """The slices, at least one, named after driver, pool, generation and number."""
        parts = [
            self.devices[start : start + self.per_slice] for start in range(0, len(self.devices), self.per_slice)
        ] or [()]
        pool = ResourcePool(name=self.name, generation=self.generation, resource_slice_count=len(parts))
        place: Json = {"nodeName": self.node} if self.node else {"allNodes": True}
        return tuple(
            ResourceSlice(
                metadata=ObjectMeta(name=f"{self.name}-{self.driver}-{self.generation}-{number}".lower().replace("/",
                    "-")),
                spec=ResourceSliceSpec.from_wire({
                    "driver": self.driver,
                    "pool": pool.to_wire(),
                    **place,
                    "devices": [gadget.published().to_wire() for gadget in part],
                }),
            )
            for number, part in enumerate(parts)
        )  # fmt: skip


def pools_of_nodes(
    driver: str, nodes: tuple[str, ...], devices: tuple[Gadget, ...], *, per_slice: int = MAX_TAINTED
) -> tuple[HardwarePool, ...]:
    """A pool for each node, named like it, with the same devices, as drivers of node-local hardware publish them."""
    return tuple(HardwarePool(driver, node, devices, node=node, per_slice=per_slice) for node in nodes)
