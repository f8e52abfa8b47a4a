"""The counters of one pool as plain integers: what is declared, what each device takes, and what allocated devices
leave (A-12.1). What is left is updated by the devices that came and went: quantities are never summed per pod or
node."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import gcd
from typing import NamedTuple

from virt_dra.allocator.model import PoolDevice
from virt_dra.allocator.usage import PoolUse
from virt_dra.api.quantity import Quantity, QuantityFormat
from virt_dra.api.resource_v1 import ResourceSlice

_NANO = 10**9


class Charge(NamedTuple):
    """A device's consumption of its pool's counters, charged when it is allocated."""

    amounts: tuple[tuple[int, int], ...]
    """Number of the counter and a positive amount in the counter's unit. A counter of which a device takes nothing
    doesn't refuse it (AC-10); counters that all devices of the pool together can't exhaust are left out."""
    groups: tuple[tuple[int, frozenset[str]], ...]
    """For every counter set consumed from: its number and the device's compatibility groups there."""
    sharable: bool
    """True if several shares of the device can be allocated, of which only the first is charged (A-10.1, A-12.4)."""


_NO_CHARGE = Charge((), (), sharable=False)


@dataclass(frozen=True, slots=True)
class PoolCounter:
    """A counter of a pool. ``unit``: the number of nano-units that its integers count in; all its amounts are multiples
    of it."""

    counter_set: str
    name: str
    unit: int
    format: QuantityFormat

    def quantity(self, units: int) -> Quantity:
        return Quantity.from_number(Fraction(units * self.unit, _NANO), self.format)


@dataclass(slots=True, eq=False)
class Account:
    """A pool's counters under one use. Immutable but for the cached ``members``."""

    use: PoolUse | None
    devices: frozenset[str]
    """Names of the devices in use (A-3.5)."""
    left: list[int]
    """Per counter, declared minus taken; may be negative."""
    unknown: frozenset[str]
    """Devices in use that the pool no longer publishes, so that their consumption is unknown (AC-2)."""
    members: dict[int, frozenset[str] | None] | None = field(default=None)
    """Cached by compatibility_groups.py."""


class CounterSets:
    """The counter sets of a valid pool. Counters, counter sets and devices are numbered in the order of the slices."""

    def __init__(
        self,
        slices: Iterable[ResourceSlice],
        devices: Iterable[PoolDevice],
        structures: dict[Hashable, int],
        *,
        shares: bool,
    ) -> None:
        """``slices`` of the newest generation and their ``devices``, in order; ``structures`` numbers the pools'
        counter structures; ``shares``: whether devices may be shared at all (ConsumableCapacity)."""
        self.devices = tuple(devices)
        declared: list[tuple[str, str, Quantity]] = []
        self.set_names: list[str] = []
        for counter_set in (counter_set for slice_ in slices for counter_set in slice_.spec.shared_counters):
            self.set_names.append(counter_set.name)
            declared += [
                (counter_set.name, name, counter_set.counters[name].value) for name in sorted(counter_set.counters)
            ]
        units = [value.nano for _, _, value in declared]
        numbers = {(set_name, name): number for number, (set_name, name, _) in enumerate(declared)}
        set_numbers = {name: number for number, name in enumerate(self.set_names)}
        taken = {device.id.device: _taken(device, numbers) for device in self.devices}
        total = [0] * len(declared)
        for amounts in taken.values():
            for number, amount in amounts.items():
                units[number] = gcd(units[number], amount)
                total[number] += amount
        scarce = frozenset(
            number for number, (_, _, value) in enumerate(declared) if _is_scarce(value.nano, total[number])
        )
        self.counters = tuple(
            PoolCounter(set_name, name, unit or 1, value.format)
            for (set_name, name, value), unit in zip(declared, units, strict=True)
        )
        self.declared = [
            value.nano // counter.unit for (_, _, value), counter in zip(declared, self.counters, strict=True)
        ]
        self.charges: Mapping[str, Charge] = {
            device.id.device: self._charge(device, taken[device.id.device], scarce, set_numbers, shares=shares)
            for device in self.devices
        }
        """By device name, for every device of the pool."""
        self.grouped = any(groups for charge in self.charges.values() for _, groups in charge.groups)
        """True if any device declares compatibility groups."""
        shape = (tuple(self.declared), tuple(self.charges[device.id.device] for device in self.devices))
        structure = structures.setdefault(shape, len(structures))
        self.structure: Mapping[str, tuple[int, int]] = {
            device.id.device: (structure, i) for i, device in enumerate(self.devices)
        }
        """By device name: the number of the pool's counter structure (amounts without names), and the device's position
        in it."""
        self._latest = Account(None, frozenset(), self.declared, frozenset())

    def _charge(
        self,
        device: PoolDevice,
        taken: Mapping[int, int],
        scarce: frozenset[int],
        set_numbers: Mapping[str, int],
        *,
        shares: bool,
    ) -> Charge:
        consumed = device.published.consumes_counters
        if not consumed:
            return _NO_CHARGE
        return Charge(
            amounts=tuple(
                (number, amount // self.counters[number].unit)
                for number, amount in sorted(taken.items())
                if amount and number in scarce
            ),
            groups=tuple(
                (set_numbers[consumption.counter_set], frozenset(consumption.compatibility_groups))
                for consumption in consumed
            ),
            sharable=bool(shares and device.published.allow_multiple_allocations),
        )

    @cached_property
    def takers(self) -> tuple[tuple[PoolDevice, ...], ...]:
        """Per counter, the devices that take from it."""
        takers: list[list[PoolDevice]] = [[] for _ in self.counters]
        for device in self.devices:
            for number, _ in self.charges[device.id.device].amounts:
                takers[number].append(device)
        return tuple(tuple(devices) for devices in takers)

    @cached_property
    def members(self) -> tuple[tuple[PoolDevice, ...], ...]:
        """Per counter set, the devices that consume from it."""
        members: list[list[PoolDevice]] = [[] for _ in self.set_names]
        for device in self.devices:
            for number, _ in self.charges[device.id.device].groups:
                members[number].append(device)
        return tuple(tuple(devices) for devices in members)

    def account(self, use: PoolUse | None) -> Account:
        """The account under ``use`` (None: nothing is in use). Compared by identity with the latest; a new one costs
        only what changed."""
        latest = self._latest
        if latest.use is use:
            return latest
        devices = use.devices if use is not None else frozenset()
        came, went = devices - latest.devices, latest.devices - devices
        if came or went:
            left = list(latest.left)
            for names, sign in ((came, -1), (went, 1)):
                for name in names:
                    for number, amount in self.charges.get(name, _NO_CHARGE).amounts:
                        left[number] += sign * amount
            unknown = frozenset(name for name in came if name not in self.charges) | (latest.unknown & devices)
            account = Account(use, devices, left, unknown)
        else:
            account = Account(use, latest.devices, latest.left, latest.unknown, latest.members)
        self._latest = account
        return account


def _is_scarce(declared: int, total: int) -> bool:
    """True if all devices of the pool together, each taken once, exceed the counter: only then can it refuse one."""
    return declared < total


def _taken(device: PoolDevice, numbers: Mapping[tuple[str, str], int]) -> dict[int, int]:
    """Number of the counter -> nano-units, summed where a device names a set twice."""
    taken: dict[int, int] = {}
    for consumption in device.published.consumes_counters:
        for name, counter in consumption.counters.items():
            number = numbers[consumption.counter_set, name]
            taken[number] = taken.get(number, 0) + counter.value.nano
    return taken
