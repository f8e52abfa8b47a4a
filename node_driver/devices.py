"""The devices that the driver publishes: one value for the policy that chooses them, the slices that show them and the
claims that get them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from node_driver.hardware.inventory import no_entries
from virt_dra.api.resource_v1 import DeviceAttribute, DeviceCapacity


class DeviceKind(StrEnum):
    """How a device gets to a VM; one DeviceClass of the manifests each (``vfio.virt-dra.io``, ``sriov...``)."""

    VFIO = "vfio"
    SRIOV = "sriov"
    MDEV = "mdev"
    VGPU = "vgpu"


class Sanitizing(StrEnum):
    """What happens to a device before another claim gets it (D-63)."""

    NONE = "none"
    RESET = "reset"
    ERASE = "erase"


@dataclass(frozen=True, slots=True)
class PassthroughDevice:
    """A device as it is published and prepared.

    ``name``: a DNS label, stable over restarts and reboots (D-41). ``address``: the PCI function that the VM gets, or
    the parent of an mdev. ``members``: the functions that are bound together, the whole IOMMU group or card without
    bridges; empty for mdevs and vGPUs. ``target_driver``: what members are bound to (D-44, D-64). ``type_id``: mdev
    type or vGPU profile. ``exclusive``: names of what two pods must not share (IOMMU group, card): a device is refused
    while another pod holds a device with one of the same names. ``counter_set``, ``counters``: what it consumes of its
    card (D-49).
    """

    name: str
    kind: DeviceKind
    address: str
    members: tuple[str, ...] = ()
    target_driver: str = "vfio-pci"
    type_id: str = ""
    exclusive: tuple[str, ...] = ()
    sanitizing: Sanitizing = Sanitizing.RESET
    attributes: Mapping[str, DeviceAttribute] = field(default_factory=no_entries)
    capacity: Mapping[str, DeviceCapacity] = field(default_factory=no_entries)
    counter_set: str = ""
    counters: Mapping[str, int] = field(default_factory=no_entries)


@dataclass(frozen=True, slots=True)
class ExcludedDevice:
    """A device that isn't published. ``reason`` is a constant of the module that excludes it; ``message`` says what is
    wrong and what to do."""

    subject: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PublishedSet:
    """What a policy makes of a node's hardware. ``counter_sets``: set -> counter -> units (shared by mdevs of a
    card)."""

    devices: tuple[PassthroughDevice, ...] = ()
    excluded: tuple[ExcludedDevice, ...] = ()
    counter_sets: Mapping[str, Mapping[str, int]] = field(default_factory=no_entries)
