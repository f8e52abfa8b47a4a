"""The partitions of each type that a pool has, and how many still fit its shared counters (C-12.6). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import (
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCounterConsumption,
    PartitionTypeStatus,
    ResourcePoolStatusRequestSpec,
    ResourceSlice,
)
from virt_dra.controllers.loops.pool_status.view_problem import (
    COST_MISMATCH,
    MOST_ITEMS,
    PARTITIONS_OVER_CAP,
    TYPE_MISSING,
    ViewProblem,
)

_Counters = dict[tuple[str, str], Quantity]
"""Counter set and counter -> amount."""


@dataclass(frozen=True)
class Grouped:
    """A device with the attribute that says its type ("" for none) and the type (None: it lacks that text)."""

    device: Device
    attribute: str
    type: str | None

    @classmethod
    def devices(cls, spec: ResourcePoolStatusRequestSpec, slices: Iterable[ResourceSlice]) -> list[Grouped]:
        """All devices of a pool's slices. The request's attribute counts only if no slice with devices declares one."""
        published = [
            (slice_.spec.partition_type_attribute or "", device) for slice_ in slices for device in slice_.spec.devices
        ]
        fallback = "" if any(attribute for attribute, _ in published) else spec.default_partition_type_attribute or ""
        return [
            cls(device, attribute or fallback, _type_of(spec.driver, device.attributes, attribute or fallback))
            for attribute, device in published
        ]


def _type_of(driver: str, attributes: dict[str, DeviceAttribute], name: str) -> str | None:
    """The type of a device, by the full name of the attribute, or without the driver's own domain."""
    attribute = attributes.get(name)
    if attribute is None and name.startswith(f"{driver}/"):
        attribute = attributes.get(name.removeprefix(f"{driver}/"))
    return attribute.string if attribute is not None else None


@dataclass
class _Partitions:
    cost: str
    total: int = 0
    unused: list[Device] = field(default_factory=list)


def partition_view(
    devices: Sequence[Grouped], counters: Sequence[CounterSet], in_use: Collection[str], pool: str
) -> tuple[PartitionTypeStatus, ...] | ViewProblem | None:
    """Per attribute and type, sorted: how many devices consume counters, and how many of the unused ones fit one after
    the other, each type on its own. None if no device is grouped."""
    if not any(device.attribute for device in devices):
        return None
    if not counters:
        return ViewProblem(
            f"{TYPE_MISSING} pool {pool} declares partitionTypeAttribute but publishes no sharedCounters"
        )
    groups = _groups(devices, in_use, pool)
    if isinstance(groups, ViewProblem):
        return groups
    if len(groups) > MOST_ITEMS:
        return ViewProblem(
            f"{PARTITIONS_OVER_CAP} pool {pool} has {len(groups)} partition "
            f"types, exceeding the maximum of {MOST_ITEMS}"
        )
    left = {
        (counter_set.name, name): counter.value
        for counter_set in counters
        for name, counter in counter_set.counters.items()
    }
    for grouped in devices:
        if grouped.device.name in in_use:
            _deduct(grouped.device.consumes_counters, left)
    return tuple(
        PartitionTypeStatus(
            attribute=attribute, type=kind, total=group.total, allocatable=_fitting(group.unused, dict(left))
        )
        for (attribute, kind), group in sorted(groups.items())
    )


def _groups(
    devices: Sequence[Grouped], in_use: Collection[str], pool: str
) -> dict[tuple[str, str], _Partitions] | ViewProblem:
    groups: dict[tuple[str, str], _Partitions] = {}
    for grouped in devices:
        consumed = grouped.device.consumes_counters
        if not consumed or not grouped.attribute:
            continue
        if grouped.type is None:
            name = f'device "{grouped.device.name}" in pool {pool}'
            return ViewProblem(f'{TYPE_MISSING} {name} does not carry partition type attribute "{grouped.attribute}"')
        cost = _cost(consumed)
        group = groups.setdefault((grouped.attribute, grouped.type), _Partitions(cost))
        if cost != group.cost:
            return ViewProblem(
                f'{COST_MISMATCH} devices of partition type "{grouped.type}" in pool {pool} consume different counters'
            )
        group.total += 1
        if grouped.device.name not in in_use:
            group.unused.append(grouped.device)
    return groups


def _amounts(consumed: Iterable[DeviceCounterConsumption]) -> Iterator[tuple[tuple[str, str], Quantity]]:
    for consumption in consumed:
        for name, counter in consumption.counters.items():
            yield (consumption.counter_set, name), counter.value


def _cost(consumed: Iterable[DeviceCounterConsumption]) -> str:
    """A text that is the same for devices that consume the same."""
    return ",".join(sorted(f"{counter_set}/{name}={amount}" for (counter_set, name), amount in _amounts(consumed)))


def _fitting(devices: Iterable[Device], left: _Counters) -> int:
    fitting = 0
    for device in devices:
        if all(key in left and left[key] >= amount for key, amount in _amounts(device.consumes_counters)):
            fitting += 1
            _deduct(device.consumes_counters, left)
    return fitting


def _deduct(consumed: Iterable[DeviceCounterConsumption], left: _Counters) -> None:
    for key, amount in _amounts(consumed):
        if key in left:
            left[key] -= amount
