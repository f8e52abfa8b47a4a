"""KEP-5075, consumable capacity: devices that many claims share by amounts (A-17, A-10.4 (8), AC-6).

Every device with capacities is filtered by them, shared or not: what a request takes must suit the device's policies
and fit an unused device. Devices with `allowMultipleAllocations` are shared: what is left of them is the check. Admin
access takes nothing of it.

Off: capacities are ignored and such devices are exclusive; neither the filter nor the check exist. A request that asks
for amounts is refused (E2, requests.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from operator import le, sub
from typing import NamedTuple
from uuid import UUID, uuid5

from virt_dra.allocator.effort import Effort
from virt_dra.allocator.errors import FatalError
from virt_dra.allocator.features.consumption import (
    POLICY,
    TOO_SMALL,
    UNKNOWN,
    Consumption,
    Fault,
    Refusal,
    Resolution,
    qualified,
    resolve,
)
from virt_dra.allocator.features.static import StaticCheck
from virt_dra.allocator.gates import Features
from virt_dra.allocator.memo import remember
from virt_dra.allocator.model import Check, Filter, PoolDevice, Rejection, Request, Slots, SymmetryKey, Take, Upcoming
from virt_dra.allocator.usage import Used
from virt_dra.api.quantity import Quantity, QuantityFormat
from virt_dra.api.resource_v1 import ALL, CapacityRequestPolicy, DeviceCapacity, ResourceClaim

__all__ = [
    "EXHAUSTED", "POLICY", "TOO_SMALL", "UNKNOWN", "Capacities", "CapacityFilter", "Share", "ShareNames",
    "SharedCapacity",
]  # fmt: skip

EXHAUSTED = "CapacityExhausted"
"""The request takes more of a shared device than is left."""

_REMEMBERED_REQUESTS = 4096
"""Different capacity requests whose outcomes are kept."""

_SHARE_IDS = UUID("5d0c1a4e-93c7-5b52-8f5e-0b6f7a5c2d11")
"""Namespace of share IDs: they follow from claim, request and device, so that deciding needs no randomness."""


def is_shared(device: PoolDevice) -> bool:
    """True if many claims may hold the device, with the feature on."""
    return bool(device.published.allow_multiple_allocations)


class Stock:
    """The capacities of a driver's devices that publish the same. One object for all of them: identity compares."""

    __slots__ = ("capacities", "driver")

    def __init__(self, driver: str, capacities: Mapping[str, DeviceCapacity]) -> None:
        self.driver = driver
        self.capacities = capacities


_Outcomes = dict[Stock, Resolution]


class Capacities:
    """The amounts that requests take of devices, resolved once per different capacity request and stock, for every pod
    and node."""

    def __init__(self) -> None:
        self._stock_of: dict[PoolDevice, Stock] = {}
        self._stocks: dict[Hashable, Stock] = {}
        self._outcomes: dict[Hashable, _Outcomes] = {}

    def outcomes(self, request: Request, *, fractional: bool) -> _Outcomes:
        """The outcomes known so far for equal capacity requests; the resolver adds to them."""
        key = (fractional, tuple((name, request.capacity[name].spelling) for name in sorted(request.capacity)))
        outcomes = self._outcomes.get(key)
        if outcomes is None:
            outcomes = remember(self._outcomes, key, {}, _REMEMBERED_REQUESTS)
        return outcomes

    def stock(self, device: PoolDevice) -> Stock:
        stock = self._stock_of.get(device)
        if stock is None:
            capacities = device.published.capacity
            key = (device.id.driver, tuple((name, _content(capacities[name])) for name in sorted(capacities)))
            stock = self._stock_of[device] = self._stocks.setdefault(key, Stock(device.id.driver, capacities))
        return stock


def _content(capacity: DeviceCapacity) -> Hashable:
    """All of a capacity, comparable also where quantities are only equal by amount."""
    policy = capacity.request_policy
    return capacity.value.spelling, None if policy is None else _policy_content(policy)


def _policy_content(policy: CapacityRequestPolicy) -> Hashable:
    range_ = policy.valid_range
    bounds = () if range_ is None else (range_.min, range_.max, range_.step)
    amounts = (policy.default, *bounds, *policy.valid_values)
    return len(bounds), tuple(None if amount is None else amount.spelling for amount in amounts)


class Resolver:
    """The amounts that the requests of one pod take."""

    def __init__(self, capacities: Capacities, features: Features) -> None:
        self._capacities = capacities
        self._fractional = features.fractional_capacity_range
        self._outcomes: dict[Request, _Outcomes] = {}

    def resolution(self, request: Request, device: PoolDevice) -> Resolution:
        outcomes = self._outcomes.get(request)
        if outcomes is None:
            outcomes = self._outcomes[request] = self._capacities.outcomes(request, fractional=self._fractional)
        stock = self._capacities.stock(device)
        resolution = outcomes.get(stock)
        if resolution is None:
            resolution = outcomes[stock] = resolve(
                stock.driver, stock.capacities, request.capacity, fractional=self._fractional
            )
        return resolution

    def consumption(self, request: Request, device: PoolDevice) -> Consumption:
        """The amounts that the request takes of a device that the filter admits. Raises :class:`FatalError` for a
        fault."""
        resolution = self.resolution(request, device)
        if isinstance(resolution, Fault):
            raise FatalError(
                f"claim {request.claim.key}, request {request.name}: rechecking "
                f"capacity for device {device.id}: {resolution.text}"
            )
        if isinstance(resolution, Refusal):
            raise AssertionError(
                f"{device.id} was to be shared although its capacities can't serve {request.full_name}: "
                f"{resolution.detail}"
            )
        return resolution


class CapacityFilter(Filter):
    """Runs after the selectors, also for requests without capacities: then a device's default or whole capacity counts
    (A-17.2)."""

    reusable = True

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    def admits(self, request: Request, device: PoolDevice) -> bool:
        """True if the request suits the unused device. Raises :class:`FatalError` for amounts that can't be represented
        (E21)."""
        if not device.published.capacity and not request.capacity:
            return True
        resolution = self._resolver.resolution(request, device)
        if isinstance(resolution, Fault):
            shown = device.id.device if request.mode == ALL else device.id
            subject = f"claim {request.claim.key}, request {request.name}"
            raise FatalError(f"{subject}: checking capacity for device {shown}: {resolution.text}")
        return isinstance(resolution, Consumption)

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        resolution = self._resolver.resolution(request, device)
        if not isinstance(resolution, Refusal):
            raise AssertionError(f"the capacity of {device.id} suffices: there is no refusal to explain")
        words = {UNKNOWN: "missing", POLICY: "refuses the amount", TOO_SMALL: "too small"}[resolution.reason]
        return Rejection(resolution.reason, f"capacity {resolution.capacity} {words}", device.id, resolution.detail)


class SharedCapacity(Check):
    """The check that shared devices have enough left, after other pods and all claims of this attempt. The last check
    (A-10.4 (8))."""

    def __init__(self, used: Used, resolver: Resolver) -> None:
        self._used = used
        self._resolver = resolver
        self._unused: dict[PoolDevice, tuple[int, ...]] = {}
        """The amounts that other pods leave of a device, by capacity in the order of their names, in billionths."""
        self._left: dict[PoolDevice, list[tuple[int, ...]]] = {}
        """The amounts left after each share of this attempt; devices without one don't occur."""

    def symmetry_key(self, request: Request, device: PoolDevice) -> SymmetryKey:
        if not is_shared(device):
            return _EXCLUSIVE
        if request.admin_access:
            return _SHARED
        consumption = self._resolver.consumption(request, device)
        unused = self._unused_of(device, consumption)
        return (unused, consumption.amounts) if _fits(consumption.amounts, unused) else None

    def reuse_key(self, request: Request, device: PoolDevice) -> Hashable:
        """Devices have equal facts if they publish the same and are shared: then what one more share takes is the same
        too."""
        if not is_shared(device):
            return _EXCLUSIVE
        return _SHARED if request.admin_access else self._resolver.resolution(request, device)

    def has_room(self, request: Request, device: PoolDevice) -> bool:
        """True if `add` would take the device."""
        if not device.published.allow_multiple_allocations or request.admin_access:
            return True
        consumption = self._resolver.consumption(request, device)
        return _fits(consumption.amounts, self._left_of(device, consumption))

    def add(self, request: Request, device: PoolDevice) -> bool:
        if not device.published.allow_multiple_allocations or request.admin_access:
            return True
        consumption = self._resolver.consumption(request, device)
        left = self._left_of(device, consumption)
        if not _fits(consumption.amounts, left):
            return False
        self._left.setdefault(device, []).append(tuple(map(sub, left, consumption.amounts)))
        return True

    def remove(self, request: Request, device: PoolDevice) -> None:
        if not device.published.allow_multiple_allocations or request.admin_access:
            return
        shares = self._left[device]
        shares.pop()
        if not shares:
            del self._left[device]

    def state(self, upcoming: Upcoming) -> Hashable:
        if not self._left:
            return None
        held: dict[Hashable, int] = {}
        for device, shares in self._left.items():
            left = shares[-1]
            if left != self._unused[device] and (key := upcoming.symmetry(device)) is not None:
                held[key, left] = held.get((key, left), 0) + 1
        return frozenset(held.items()) or None

    def takes(self, request: Request, device: PoolDevice) -> Sequence[Take]:
        if request.admin_access or not is_shared(device):
            return ()
        consumption = self._resolver.consumption(request, device)
        capacities = zip(consumption.quantities, consumption.amounts, self._unused_of(device, consumption), strict=True)
        return [Take(name, (device, name), amount, left) for name, amount, left in capacities if amount]

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        consumption = self._resolver.consumption(request, device)
        unused, left = self._unused_of(device, consumption), self._left_of(device, consumption)
        for number, (name, quantity) in enumerate(consumption.quantities.items()):
            if consumption.amounts[number] > left[number]:
                value = device.published.capacity[name].value
                detail = f"capacity {name}: wanted {quantity}, left {_written(left[number], value.format)} of {value}"
                if left[number] != unused[number]:
                    detail += f" ({_written(unused[number] - left[number], value.format)} chosen before for this pod)"
                return Rejection(EXHAUSTED, f"capacity {name} exhausted", device.id, detail)
        raise AssertionError(f"the capacity left of {device.id} suffices: there is no refusal to explain")

    def concerns(self, device: PoolDevice) -> bool:
        return is_shared(device)

    def exceeded(self, wanted: Sequence[Sequence[tuple[Slots, Sequence[PoolDevice]]]], effort: Effort) -> bool:
        """True if the requests take more of some capacity than all shared devices have left, or too many parts of a
        size."""
        left: dict[PoolDevice, dict[str, int]] = {}
        parts: dict[str, list[int]] = {}
        for alternatives in wanted:
            for name, amounts in _fewest(
                [self._parts(slots, devices, left) for slots, devices in alternatives]
            ).items():
                parts.setdefault(name, []).extend(amounts)
        return any(
            _too_much(amounts, [amounts_left[name] for amounts_left in left.values() if name in amounts_left])
            for name, amounts in parts.items()
        )

    def _parts(
        self, slots: Slots, devices: Sequence[PoolDevice], left: dict[PoolDevice, dict[str, int]]
    ) -> dict[str, list[int]]:
        """The least amounts that the slots take, by qualified name, the largest first. Adds to ``left`` what the
        devices have."""
        if slots.request.admin_access:
            return {}
        takes: list[dict[str, int]] = []
        for device in devices:
            if not is_shared(device):
                takes.append({})
                continue
            consumption = self._resolver.consumption(slots.request, device)
            names = [qualified(device.id.driver, name) for name in consumption.quantities]
            takes.append(_totals(names, consumption.amounts))
            if device not in left:
                left[device] = _totals(names, self._unused_of(device, consumption))
        if slots.fixed is None:
            common = [name for name in takes[0] if all(name in amounts for amounts in takes)] if takes else []
            return {name: [min(amounts[name] for amounts in takes)] * slots.count for name in common}
        every = {name for amounts in takes for name in amounts}
        return {name: sorted((amounts[name] for amounts in takes if name in amounts), reverse=True) for name in every}

    def _left_of(self, device: PoolDevice, consumption: Consumption) -> tuple[int, ...]:
        shares = self._left.get(device)
        return shares[-1] if shares else self._unused_of(device, consumption)

    def _unused_of(self, device: PoolDevice, consumption: Consumption) -> tuple[int, ...]:
        unused = self._unused.get(device)
        if unused is None:
            unused = consumption.limits
            use = self._used.get(device.pool)
            consumed = use.consumed.get(device.id.device) if use is not None else None
            if consumed:
                used = (consumed.get(name) for name in consumption.quantities)
                unused = tuple(
                    [limit - (0 if amount is None else amount.nano) for limit, amount in zip(unused, used, strict=True)]
                )
            self._unused[device] = unused
        return unused


class RoomFirst(StaticCheck):
    """Skips devices without room before constraints that can be errors (derived attributes) evaluate them (A-7.2). Not
    for mode All, where constraints come first (A-9.4). SharedCapacity, which keeps the amounts, runs last all the
    same."""

    def __init__(self, shared: SharedCapacity) -> None:
        self._shared = shared

    def add(self, request: Request, device: PoolDevice) -> bool:
        return request.mode == ALL or self._shared.has_room(request, device)

    def symmetry_key(self, request: Request, device: PoolDevice) -> SymmetryKey:
        return True

    def reuse_key(self, request: Request, device: PoolDevice) -> Hashable:
        return True

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        return self._shared.explain(request, device)


_EXCLUSIVE = "exclusive"
_SHARED = "shared"


def _totals(names: Sequence[str], amounts: Sequence[int]) -> dict[str, int]:
    """The amounts by name, summed where a device publishes both forms of one (AC-13)."""
    totals: Counter[str] = Counter()
    for name, amount in zip(names, amounts, strict=True):
        totals[name] += amount
    return totals


def _fewest(alternatives: Sequence[dict[str, list[int]]]) -> dict[str, list[int]]:
    """The parts that every alternative takes at least: as many, each the smallest of the alternatives'."""
    first, *others = alternatives
    return {
        name: list(map(min, zip(parts, *(other.get(name, ()) for other in others), strict=False)))
        for name, parts in first.items()
    }


def _too_much(parts: Sequence[int], left: Sequence[int]) -> bool:
    """True if the parts provably don't fit into what is left: by their sum, or by the number of those of a size and
    above."""
    return sum(parts) > sum(left) or any(
        sum(part >= size for part in parts) > sum(amount // size for amount in left) for size in set(parts) if size
    )


@lru_cache(maxsize=4096)
def _written(amount: int, format: QuantityFormat) -> Quantity:
    return Quantity.from_number(Fraction(amount, 10**9), format)


def _fits(amounts: tuple[int, ...], left: tuple[int, ...]) -> bool:
    return all(map(le, amounts, left))


class Share(NamedTuple):
    """The fields of a result for a share: its id, and the amounts by published name (none for a device without
    capacities, A-17.7)."""

    id: str
    consumed: Mapping[str, Quantity]


class ShareNames:
    """The shares that results name."""

    def __init__(self, capacities: Capacities, features: Features) -> None:
        self._on = features.consumable_capacity
        self._resolver = Resolver(capacities, features)

    def named(self, device: PoolDevice) -> bool:
        """True if a result for the device names a share: not for an exclusive one."""
        return self._on and bool(device.published.allow_multiple_allocations)

    def share(self, claim: ResourceClaim, request: Request, device: PoolDevice) -> Share:
        """The share of the device that ``claim`` owns (``request`` may be an equal one of another claim)."""
        owner = claim.metadata.uid or claim.key
        share_id = uuid5(_SHARE_IDS, "\n".join((owner, request.full_name, *device.id)))
        return Share(str(share_id), self._resolver.consumption(request, device).quantities)
