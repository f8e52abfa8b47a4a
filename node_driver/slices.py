"""The ResourceSlices of a node: what they say, and the writes that bring what is published to that. Pure.

The rules are those of Kubernetes' helper for drivers (k8s.io/dynamic-resource-allocation/resourceslice, D-21 to D-26),
so that either could go on with what the other has published.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeVar

from node_driver.devices import PassthroughDevice, PublishedSet
from virt_dra.api.meta import ObjectMeta, OwnerReference
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import (
    Counter,
    CounterSet,
    Device,
    DeviceCounterConsumption,
    DeviceTaint,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)

DEVICES_PER_SLICE: Final = 64
"""Kubernetes' limit where a device has a taint: a taint must not move devices to other slices (D-24)."""
COUNTER_SETS_PER_SLICE: Final = 8
_INDEX_DIGITS: Final = 5

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SliceContent:
    """What one slice says: counter sets or devices, never both (C-14.4)."""

    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolOwner:
    """Whose slices they are. The pool is named as the node (D-21)."""

    driver: str
    node: str
    node_uid: str


@dataclass(frozen=True, slots=True)
class StoredContent:
    """What the API server made of a slice that was written: it drops fields of features that are off."""

    written: SliceContent
    stored: SliceContent


_NO_ANSWERS: Final[Mapping[int, StoredContent]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """Writes in this order. ``updates`` and ``creates`` by the slice's index in the pool."""

    deletes: tuple[ResourceSlice, ...] = ()
    updates: Mapping[int, ResourceSlice] = field(default_factory=dict)
    creates: Mapping[int, ResourceSlice] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.deletes or self.updates or self.creates)


# --- what the slices say ------------------------------------------------------------------------------------------


def slice_contents(published: PublishedSet, taints: Mapping[str, tuple[DeviceTaint, ...]]) -> tuple[SliceContent, ...]:
    """Counter sets first, then devices in their order, which is the order in which schedulers take them (D-22). At
    least one slice: a pool without devices says that the driver runs (D-21). ``taints`` by device."""
    counter_sets = [
        CounterSet(name=name, counters=_counters(counters)) for name, counters in published.counter_sets.items()
    ]
    devices = [_device(device, taints.get(device.name, ())) for device in published.devices]
    return (
        *(SliceContent(counter_sets=part) for part in _parts(counter_sets, COUNTER_SETS_PER_SLICE)),
        *(SliceContent(devices=part) for part in _parts(devices, DEVICES_PER_SLICE) or [()]),
    )


def _device(device: PassthroughDevice, taints: tuple[DeviceTaint, ...]) -> Device:
    fields: dict[str, object] = {"attributes": dict(device.attributes), "capacity": dict(device.capacity)}
    fields["taints"] = taints
    if device.counter_set:
        consumption = DeviceCounterConsumption(counter_set=device.counter_set, counters=_counters(device.counters))
        fields["consumes_counters"] = (consumption,)
    return Device(name=device.name).with_(**{name: value for name, value in fields.items() if value})


def _counters(units: Mapping[str, int]) -> dict[str, Counter]:
    return {name: Counter(value=Quantity(str(number))) for name, number in units.items()}


def _parts(items: Sequence[T], size: int) -> list[tuple[T, ...]]:
    return [tuple(items[start : start + size]) for start in range(0, len(items), size)]


# --- what is to be written ----------------------------------------------------------------------------------------


def plan_slices(
    wanted: Sequence[SliceContent],
    existing: Iterable[ResourceSlice],
    owner: PoolOwner,
    answers: Mapping[int, StoredContent] = _NO_ANSWERS,
) -> SlicePlan:
    """The writes that make ``existing``, the driver's slices on the node, say what is ``wanted``.

    ``answers``: what became of earlier writes, by index. A slice that was stored with fewer fields than it was written
    with is as good as the cluster allows, and isn't written again (D-25).
    """
    slices = sorted(existing, key=lambda obj: obj.name)
    own = [obj for obj in slices if obj.spec.pool.name == owner.node]
    generation = max((obj.spec.pool.generation for obj in own), default=0)
    current: dict[int, ResourceSlice] = {}
    for obj in own:
        index = _index(obj.name, len(wanted))
        if index is not None and obj.spec.pool.generation == generation:
            current.setdefault(index, obj)
    kept = {obj.name for obj in current.values()}
    new = [index for index in range(len(wanted)) if index not in current]
    changed = [
        index
        for index, obj in sorted(current.items())
        if obj.spec.pool.resource_slice_count != len(wanted) or not _says(obj, wanted[index], answers.get(index))
    ]
    if new or len(changed) > 1:  # D-23: readers must not mix old slices with new ones, a generation counts as a whole
        generation += 1
        changed = sorted(current)
    pool = ResourcePool(name=owner.node, generation=generation, resource_slice_count=len(wanted))
    return SlicePlan(
        tuple(obj for obj in slices if obj.name not in kept),
        {index: _updated(current[index], pool, wanted[index]) for index in changed},
        {index: _created(index, pool, wanted[index], owner) for index in new},
    )


def content_of(published: ResourceSlice) -> SliceContent:
    return SliceContent(published.spec.devices, published.spec.shared_counters)


def equal(left: SliceContent, right: SliceContent) -> bool:
    """True if both say the same: an absent field says what an empty one does, and the server adds the time to taints
    (D-26). Another order is another content."""
    return _comparable(left) == _comparable(right)


def disabled_features(answer: StoredContent) -> tuple[str, ...]:
    """The feature gates that are probably off, since the server dropped their fields; ``("unknown",)`` for other
    differences, none if it dropped nothing."""
    if equal(answer.written, answer.stored):
        return ()
    pairs = list(zip(answer.written.devices, answer.stored.devices, strict=False))
    gates = []
    if any(len(written.taints) > len(stored.taints) for written, stored in pairs):
        gates.append("DRADeviceTaints")
    if len(answer.written.counter_sets) > len(answer.stored.counter_sets) or any(
        len(written.consumes_counters) > len(stored.consumes_counters) for written, stored in pairs
    ):
        gates.append("DRAPartitionableDevices")
    return tuple(gates) or ("unknown",)


def _says(published: ResourceSlice, wanted: SliceContent, answer: StoredContent | None) -> bool:
    content = content_of(published)
    if equal(content, wanted):
        return True
    return answer is not None and equal(answer.written, wanted) and equal(answer.stored, content)


def _comparable(content: SliceContent) -> object:
    devices = [
        device.with_(taints=tuple(taint.without("time_added") for taint in device.taints)).to_wire()
        for device in content.devices
    ]
    return [_without_empty(devices), _without_empty([counters.to_wire() for counters in content.counter_sets])]


def _without_empty(value: object) -> object:
    if isinstance(value, dict):
        members = {key: _without_empty(member) for key, member in value.items()}
        return {key: member for key, member in members.items() if member not in (None, {}, [])}
    return [_without_empty(item) for item in value] if isinstance(value, (list, tuple)) else value


def _updated(current: ResourceSlice, pool: ResourcePool, content: SliceContent) -> ResourceSlice:
    stored = {device.name: device for device in current.spec.devices}
    devices = tuple(_with_times(device, stored.get(device.name)) for device in content.devices)
    spec = current.spec.without("devices", "shared_counters")
    return current.with_(spec=spec.with_(pool=pool, **_members(SliceContent(devices, content.counter_sets))))


def _with_times(device: Device, stored: Device | None) -> Device:
    """The device, its taints since when they were there before (D-26)."""
    if stored is None or not device.taints:
        return device
    since = {(taint.key, taint.value, taint.effect): taint.time_added for taint in stored.taints}
    times = ((taint, since.get((taint.key, taint.value, taint.effect))) for taint in device.taints)
    return device.with_(
        taints=tuple(t if t.time_added or time is None else t.with_(time_added=time) for t, time in times)
    )


def _created(index: int, pool: ResourcePool, content: SliceContent, owner: PoolOwner) -> ResourceSlice:
    name = f"{index:0{_index_digits(pool.resource_slice_count)}x}-{owner.driver}-{owner.node}-"
    reference = OwnerReference(api_version="v1", kind="Node", name=owner.node, uid=owner.node_uid, controller=True)
    spec = ResourceSliceSpec(driver=owner.driver, pool=pool, node_name=owner.node)
    metadata = ObjectMeta(generate_name=name, owner_references=(reference,))
    return ResourceSlice(metadata=metadata, spec=spec.with_(**_members(content)))


def _members(content: SliceContent) -> dict[str, object]:
    """The one of both lists that the slice has: the other must be absent (C-14.4)."""
    if content.counter_sets:
        return {"shared_counters": content.counter_sets}
    return {"devices": content.devices} if content.devices else {}


def _index(name: str, count: int) -> int | None:
    """The index that a slice's name begins with; None for one that a pool of ``count`` slices doesn't have."""
    prefix, separator, _ = name.partition("-")
    if not separator or not re.fullmatch(f"[0-9a-f]{{{_index_digits(count)}}}", prefix):
        return None
    index = int(prefix, 16)
    return index if index < count else None


def _index_digits(count: int) -> int:
    return max(_INDEX_DIGITS, len(f"{count - 1:x}"))
