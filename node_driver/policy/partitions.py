"""Parts of cards as devices: mediated devices (D-49) and vGPU profiles of virtual functions (D-61).

A card has one type at a time. Kubernetes' shared counters express that exactly: a counter for each instance of all
types but the one with the most. The instance consumes the whole counter, instances of other types one unit of it, and
it has as many units as any type has instances. So two instances of different types never fit together, and all of one
type do. (The conflicts form a complete multipartite graph; each counter covers the star of one instance.)
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from node_driver.devices import DeviceKind, ExcludedDevice, PassthroughDevice, Sanitizing
from node_driver.hardware.inventory import Hardware, MdevType, PciFunction, no_entries
from node_driver.policy import exclusions
from node_driver.policy.attributes import (
    mdev_attributes,
    mdev_memory,
    memory_capacity,
    profile_memory,
    vgpu_attributes,
)
from node_driver.policy.exclusions import ExclusionReason
from node_driver.policy.functions import FunctionGroups, device_name
from virt_dra.api.nearest import did_you_mean
from virt_dra.api.policies.node_policy_v1alpha1 import PolicyDeviceSet
from virt_dra.api.resource_v1 import DeviceAttribute, DeviceCapacity

COUNTERS_MAX: Final = 32
"""Counters of a set, and of what a device consumes."""
UNITS_MAX: Final = 10**9
_LABEL_MAX: Final = 63
_SHARE: Final = "share"


@dataclass(frozen=True, slots=True)
class Partition:
    """A type that a card offers, as the devices that it is published as."""

    type_id: str
    devices: tuple[PassthroughDevice, ...]


@dataclass(frozen=True, slots=True)
class CardDevices:
    """The devices of one card or set, and the counters that they consume: counter set -> counter -> units."""

    devices: tuple[PassthroughDevice, ...] = ()
    excluded: tuple[ExcludedDevice, ...] = ()
    counter_sets: Mapping[str, Mapping[str, int]] = field(default_factory=no_entries)


def mdev_devices(device_set: PolicyDeviceSet, parent: str, hardware: Hardware, *, lists: bool) -> CardDevices:
    """The mediated devices that a parent is to offer, of the types that the set names."""
    offered = hardware.mdev_types.get(parent, ())
    if not offered:
        cure = "load its driver with mediated devices enabled, or name the card without mdevTypes"
        message = f"it offers no mediated devices (it isn't in /sys/class/mdev_bus); {cure}"
        return CardDevices(excluded=(ExcludedDevice(parent, ExclusionReason.NOT_DIVISIBLE, message),))
    if parent in hardware.protected:
        return CardDevices(excluded=(exclusions.protected(hardware.functions[parent], hardware.protected[parent]),))
    partitions, excluded = [], []
    for wanted in device_set.mdev_types:
        mdev_type = next((item for item in offered if wanted.type in (item.type_id, item.name)), None)
        if mdev_type is None or not mdev_type.available:
            excluded.append(_not_offered(parent, wanted.type, _names(offered), exists=mdev_type is not None))
            continue
        count = min(mdev_type.available, wanted.max or mdev_type.available)
        devices = _mdev_instances(device_set, mdev_type, count, hardware, lists=lists)
        partitions.append(Partition(mdev_type.type_id, devices))
    return _card(parent, partitions, excluded, mixed=bool(device_set.mixed_profiles))


def _mdev_instances(
    device_set: PolicyDeviceSet, mdev_type: MdevType, count: int, hardware: Hardware, *, lists: bool
) -> tuple[PassthroughDevice, ...]:
    parent = hardware.functions.get(mdev_type.parent)
    attributes: Mapping[str, DeviceAttribute] = mdev_attributes(mdev_type, parent, hardware, lists=lists)
    capacity: Mapping[str, DeviceCapacity] = memory_capacity(mdev_memory(mdev_type))
    return tuple(
        PassthroughDevice(
            name=label("mdev", mdev_type.parent, mdev_type.type_id, str(index)),
            kind=DeviceKind.MDEV,
            address=mdev_type.parent,
            type_id=mdev_type.type_id,
            sanitizing=Sanitizing(device_set.sanitize or Sanitizing.RESET),
            attributes=attributes,
            capacity=capacity,
        )
        for index in range(count)
    )


def vgpu_devices(
    device_set: PolicyDeviceSet, card: str, functions: Sequence[PciFunction], groups: FunctionGroups, *, lists: bool
) -> CardDevices:
    """The vGPU profiles that the virtual functions of a card are to offer, of those that the set names. The n-th
    instance of a profile is on the n-th function that offers it."""
    hardware = groups.hardware
    creatable = {function.address: hardware.vgpus[function.address].creatable for function in functions}
    offered = {
        profile_id: name for of_function in creatable.values() for profile_id, name in sorted(of_function.items())
    }
    partitions, excluded = [], []
    for wanted in device_set.vgpu_profiles:
        profile_id = next((key for key, name in offered.items() if wanted.profile in (key, name)), None)
        if profile_id is None:
            excluded.append(_not_offered(card, wanted.profile, offered.values(), exists=False))
            continue
        offering = [function for function in functions if profile_id in creatable[function.address]]
        most = min(len(offering), _by_memory(offered[profile_id], offered.values()))
        count = min(len(offering), wanted.max or most)
        devices = tuple(
            PassthroughDevice(
                name=label("vgpu", function.address, profile_id),
                kind=DeviceKind.VGPU,
                address=function.address,
                target_driver=function.driver,
                type_id=profile_id,
                exclusive=groups.exclusive_names((function.address,)),
                sanitizing=Sanitizing(device_set.sanitize or Sanitizing.RESET),
                attributes=vgpu_attributes(function, profile_id, offered[profile_id], hardware, lists=lists),
                capacity=memory_capacity(profile_memory(offered[profile_id])),
            )
            for function in offering[:count]
        )
        partitions.append(Partition(profile_id, devices))
    return _card(card, partitions, excluded, mixed=bool(device_set.mixed_profiles))


def _by_memory(profile: str, offered: Iterable[str]) -> int:
    """How often a profile fits on the card: its largest profile has all of the memory. sysfs doesn't show a number."""
    own = profile_memory(profile)
    return max(1, max(map(profile_memory, offered)) // own) if own else COUNTERS_MAX


def _not_offered(card: str, wanted: str, names: Iterable[str], *, exists: bool) -> ExcludedDevice:
    offered = list(names)
    if exists:
        message = f"it can't make any {wanted} now: another type, or the whole card, is in use; release that first"
    else:
        message = f"it doesn't offer {wanted}{did_you_mean(wanted, offered)}; it offers {exclusions.listed(offered)}"
    return ExcludedDevice(card, ExclusionReason.TYPE_NOT_OFFERED, message)


def _names(types: Iterable[MdevType]) -> list[str]:
    return [name for mdev_type in types for name in (mdev_type.type_id, mdev_type.name) if name]


# --- counters -----------------------------------------------------------------------------------------------------


def _card(card: str, partitions: list[Partition], excluded: list[ExcludedDevice], *, mixed: bool) -> CardDevices:
    count = _mixed if mixed else _one_type_at_a_time
    while len((counters := count(partitions)).units) > COUNTERS_MAX:
        needs = f"{partitions.pop().type_id} needs more than the {COUNTERS_MAX} counters that Kubernetes has"
        message = f"{needs}; name fewer types, or limit them by max"
        excluded.append(ExcludedDevice(card, ExclusionReason.TOO_MANY_TYPES, message))
    name = label("card", card) if counters.units else ""
    devices = tuple(
        replace(device, counter_set=name, counters=counters.consumed.get(device.name, {}))
        for partition in partitions
        for device in partition.devices
    )
    return CardDevices(devices, tuple(excluded), {name: counters.units} if name else {})


@dataclass(frozen=True, slots=True)
class CardCounters:
    """``units``: by counter; ``consumed``: device's name -> counter -> units."""

    units: Mapping[str, int] = field(default_factory=no_entries)
    consumed: Mapping[str, Mapping[str, int]] = field(default_factory=no_entries)


def _one_type_at_a_time(partitions: Sequence[Partition]) -> CardCounters:
    if len(partitions) < 2:
        return CardCounters()
    largest = max(partitions, key=lambda partition: len(partition.devices))
    units = len(largest.devices)
    others = (partition for partition in partitions if partition is not largest)
    owners = [(partition, device) for partition in others for device in partition.devices]
    return CardCounters(
        {owner.name: units for _, owner in owners},
        {
            device.name: {
                owner.name: units if owner is device else 1
                for owning, owner in owners
                if owner is device or owning is not partition
            }
            for partition in partitions
            for device in partition.devices
        },
    )


def _mixed(partitions: Sequence[Partition]) -> CardCounters:
    """Each instance has its share of the card, and its function alone."""
    if len(partitions) < 2:
        return CardCounters()
    whole = min(math.lcm(*(len(partition.devices) for partition in partitions)), UNITS_MAX)
    units, consumed = {_SHARE: whole}, {}
    for partition in partitions:
        for device in partition.devices:
            consumed[device.name] = {_SHARE: whole // len(partition.devices)}
            if device.kind is DeviceKind.VGPU:
                function = device_name("vf", device.address)
                units[function] = consumed[device.name][function] = 1
    return CardCounters(units, consumed)


def label(*parts: str) -> str:
    """A DNS label of any texts, with a digest where it would lose something."""
    joined = device_name(*parts)
    plain = re.sub("[^a-z0-9-]", "-", joined.lower()).strip("-")
    if plain == joined and len(plain) <= _LABEL_MAX:
        return plain
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
    return f"{plain[: _LABEL_MAX - 9].strip('-')}-{digest}"
