"""Cards: what the devices of a node are parts of, and how much of each card is free. A *card* is the unit in which
devices strand one another: a counter set whose partitions exclude one another (KEP-4815), a device of which many VMs
may have a share (KEP-5075), or a device that one VM has alone. Amounts are thousandths of a card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from virt_dra.allocator.counter_sets import CounterSets
from virt_dra.allocator.features.capacity import Resolver, is_shared
from virt_dra.allocator.features.consumption import Consumption
from virt_dra.allocator.model import PoolDevice, PoolId, Request
from virt_dra.allocator.pools import Pools, Reachable
from virt_dra.allocator.usage import NOTHING_USED, Used
from virt_dra.api.quantity import Quantity

WHOLE = 1000
"""A whole card, in thousandths."""

_PCIE_ROOT = frozenset({"pcieRoot"})
_NUMA = frozenset({"numaNode", "numa", "numaNodeID", "numaNodeId"})
"""Identifiers, in any domain, under which drivers publish where a device sits."""

DeviceSeat = int | None
"""A PCIe root or NUMA node of a node; None: not published."""


@dataclass(frozen=True, slots=True)
class Part:
    """What taking a device takes of a card."""

    card: int
    amount: int
    """Thousandths. Of a shared device: of its whole; a request for a share takes less (`CardCatalog.taken`)."""


@dataclass(frozen=True, slots=True)
class CardLayout:
    """The cards of nodes that are alike to policies. Tuples are by position in `Reachable.devices`."""

    count: int
    """Number of cards."""
    parts: tuple[tuple[Part, ...], ...]
    """The cards that the device is part of."""
    roots: tuple[DeviceSeat, ...]
    """The PCIe root, numbered in the order of appearance."""
    numa: tuple[DeviceSeat, ...]
    """The NUMA node, numbered in the order of appearance."""
    sizes: tuple[int, ...]
    """How large the device is beside the largest of the cluster, in thousandths (`CardCatalog.size`)."""
    alike: tuple[int, ...]
    """By card: equal numbers for cards whose devices publish the same but for names and attributes."""


class _CountedDevice(NamedTuple):
    name: str
    parts: tuple[Part, ...]
    device: PoolDevice
    is_partition: bool
    """True if it consumes counters: other devices take parts of its cards, too."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeCards:
    """The cards of one node. ``layout`` is the same object for nodes with equal ones."""

    reachable: Reachable
    layout: CardLayout
    by_pool: tuple[tuple[_CountedDevice, ...], ...]
    """What the use of each pool takes of the cards."""


@dataclass(frozen=True, slots=True)
class CardState:
    """How the cards of a node are used. Both tuples are by card."""

    free: tuple[int, ...]
    """Thousandths that are left."""
    users: tuple[int, ...]
    """Devices and shares in use on the card."""


class CardCatalog:
    """The cards of every node, for one set of slices."""

    def __init__(self, pools: Pools, resolver: Resolver) -> None:
        self._pools = pools
        self._resolver = resolver
        self._cards: dict[Reachable, NodeCards] = {}
        self._largest = _largest_amounts(pools)
        self._layouts: dict[CardLayout, CardLayout] = {}

    def of(self, reachable: Reachable) -> NodeCards:
        cards = self._cards.get(reachable)
        if cards is None:
            cards = self._cards[reachable] = self._build(reachable)
        return cards

    def state(self, reachable: Reachable, used: Used) -> CardState:
        """How the cards of a node are used."""
        cards = self.of(reachable)
        free = [WHOLE] * cards.layout.count
        users = [0] * cards.layout.count
        for pool, counted in zip(reachable.pools, cards.by_pool, strict=True):
            use = used.get(pool.id, NOTHING_USED)
            if use.empty:
                continue
            names = use.devices
            shares = Counter([name for name, _ in use.shares]) if use.shares else {}
            for name, parts, device, is_partition in counted:
                if name in names:
                    for part in parts:
                        users[part.card] += shares.get(name, 1)
                        if is_partition:
                            free[part.card] = max(free[part.card] - part.amount, 0)
                        else:
                            free[part.card] = left_of(device, use.consumed.get(name, {})) if is_shared(device) else 0
        return CardState(tuple(free), tuple(users))

    def taken(self, request: Request, device: PoolDevice, part: Part) -> int | None:
        """The thousandths of a card that the request takes with the device; None: it can't serve the request."""
        if request.admin_access:
            return 0
        if not is_shared(device) or device.published.consumes_counters:
            return part.amount
        resolution = self._resolver.resolution(request, device)
        if not isinstance(resolution, Consumption):
            return None
        shares = [
            -(-amount * WHOLE // limit)
            for amount, limit in zip(resolution.amounts, resolution.limits, strict=True)
            if limit
        ]
        return max(shares, default=0)

    def size(self, device: PoolDevice) -> int:
        """The mean of a device's capacities, each beside the largest of its name in the cluster; else of its counters;
        1000 without either."""
        amounts = _capacities(device) or _counters(device)
        shares = [amount * WHOLE // self._largest[name] for name, amount in amounts if self._largest.get(name)]
        return sum(shares) // len(shares) if shares else WHOLE

    def _build(self, reachable: Reachable) -> NodeCards:
        parts: list[tuple[Part, ...]] = []
        alike: list[int] = []
        sets: dict[tuple[PoolId, int], int] = {}
        for pool in reachable.pools:
            counters = self._pools.counter_sets(pool.id) if pool.problem is None else None
            for device in pool.devices:
                of_sets = {} if counters is None else _of_counter_sets(counters, device)
                if not of_sets:
                    parts.append((Part(len(alike), WHOLE),))
                    alike.append(device.profile)
                    continue
                shares = []
                for number, amount in of_sets.items():
                    card = sets.setdefault((pool.id, number), len(alike))
                    if card == len(alike):
                        alike.append(device.profile)
                    shares.append(Part(card, amount))
                parts.append(tuple(shares))
        devices = reachable.devices
        sizes, roots = tuple([self.size(device) for device in devices]), _places(devices, _PCIE_ROOT)
        layout = CardLayout(len(alike), tuple(parts), roots, _places(devices, _NUMA), sizes, tuple(alike))
        counted = (
            _CountedDevice(device.id.device, of_device, device, bool(device.published.consumes_counters))
            for device, of_device in zip(devices, parts, strict=True)
        )
        by_pool = tuple([tuple(islice(counted, len(pool.devices))) for pool in reachable.pools])
        return NodeCards(reachable, self._layouts.setdefault(layout, layout), by_pool)


def _of_counter_sets(counters: CounterSets, device: PoolDevice) -> Mapping[int, int]:
    """Number of a counter set -> the largest share of one of its counters that the device consumes, in thousandths."""
    shares: dict[int, int] = {}
    names = {name: number for number, name in enumerate(counters.set_names)}
    declared = {
        (counter.counter_set, counter.name): counters.declared[i] * counter.unit
        for i, counter in enumerate(counters.counters)
    }
    for consumption in device.published.consumes_counters:
        number = names[consumption.counter_set]
        shares.setdefault(number, 0)
        for name, counter in consumption.counters.items():
            whole = declared[consumption.counter_set, name]
            if whole:
                shares[number] = max(shares[number], min(WHOLE, -(-counter.value.nano * WHOLE // whole)))
    return shares


def left_of(device: PoolDevice, consumed: Mapping[str, Quantity]) -> int:
    """What is left of the capacity of which least is left; without capacities, a whole."""
    left = WHOLE
    for name, amount in consumed.items():
        capacity = device.published.capacity.get(name)
        whole = 0 if capacity is None else capacity.value.nano
        if whole:
            left = min(left, max(whole - amount.nano, 0) * WHOLE // whole)
    return left


def _places(devices: Sequence[PoolDevice], identifiers: frozenset[str]) -> tuple[DeviceSeat, ...]:
    numbers: dict[Hashable, int] = {}
    places = [_published(device, identifiers) for device in devices]
    return tuple([None if place is None else numbers.setdefault(place, len(numbers)) for place in places])


def _published(device: PoolDevice, identifiers: frozenset[str]) -> Hashable:
    for name, value in device.published.attributes.items():
        if name.rpartition("/")[2] in identifiers:
            return next((part for part in (value.string, value.int_value, value.version) if part is not None), None)
    return None


def _capacities(device: PoolDevice) -> list[tuple[str, int]]:
    return [(_bare(name), capacity.value.nano) for name, capacity in device.published.capacity.items()]


def _counters(device: PoolDevice) -> list[tuple[str, int]]:
    return [
        (_bare(name), counter.value.nano)
        for consumption in device.published.consumes_counters
        for name, counter in consumption.counters.items()
    ]


def _bare(name: str) -> str:
    """An identifier without its domain. Amounts of one identifier are compared whatever their domain."""
    return name.rpartition("/")[2]


def _largest_amounts(pools: Pools) -> Mapping[str, int]:
    """The largest amount of each capacity and counter that a device of the cluster has."""
    largest: dict[str, int] = {}
    seen: set[int] = set()
    for pool in pools.all:
        for part in pool.slices:
            for device in part.devices:
                if device.profile in seen:
                    continue
                seen.add(device.profile)
                for name, amount in (*_capacities(device), *_counters(device)):
                    largest[name] = max(largest.get(name, 0), amount)
    return largest
