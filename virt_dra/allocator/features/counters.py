"""KEP-4815: partitions of one device share its counters, such as memory, and together can't take more than there is
(A-12).

Existing allocations: every device in use has taken what its slice says (AC-2: the consumption of one that isn't
published any more is unknown, which closes the pool's counters). What this attempt adds is kept as one integer per
counter touched. Admin access takes nothing. Off: a device that consumes counters can't be used (A-10.4); slices with
counters don't count (A-4.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from virt_dra.allocator.counter_sets import Account, CounterSets
from virt_dra.allocator.effort import Effort
from virt_dra.allocator.features import counter_supply
from virt_dra.allocator.features.charged_once import ChargedOnce
from virt_dra.allocator.features.static import StaticCheck, feature_off
from virt_dra.allocator.model import Check, PoolDevice, PoolId, Rejection, Request, Slots, SymmetryKey, Take, Upcoming
from virt_dra.allocator.pools import Pools
from virt_dra.allocator.usage import Used

INSUFFICIENT = "CounterInsufficient"
"""Less is left of a counter than the device takes."""
UNKNOWN_USE = "CounterUseUnknown"
"""A device in use is no longer published, so what is left of the pool's counters isn't known."""

_NOT_CHARGED = True
"""The symmetry and reuse key of a device that takes nothing of any counter."""


class _Taken:
    """A pool in this attempt: the account before it, and the amounts taken since, by number of the counter."""

    __slots__ = ("account", "sets", "taken")

    def __init__(self, sets: CounterSets, account: Account) -> None:
        self.sets = sets
        self.account = account
        self.taken: dict[int, int] = {}


class Counters(Check):
    """The check of counters, one for all claims of an attempt."""

    def __init__(self, used: Used, pools: Pools) -> None:
        self._used = used
        self._pools = pools
        self._of: dict[PoolId, _Taken] = {}
        self._once = ChargedOnce(used)

    def _pool(self, pool: PoolId) -> _Taken:
        taken = self._of.get(pool)
        if taken is None:
            sets = self._pools.counter_sets(pool)
            taken = self._of[pool] = _Taken(sets, sets.account(self._used.get(pool)))
        return taken

    def symmetry_key(self, request: Request, device: PoolDevice) -> SymmetryKey:
        if request.admin_access or not device.published.consumes_counters:
            return _NOT_CHARGED
        pool = self._pool(device.pool)
        charge = pool.sets.charges[device.id.device]
        if charge.sharable and self._once.before(device):
            return _NOT_CHARGED
        left = pool.account.left
        if pool.account.unknown or any(amount > left[number] for number, amount in charge.amounts):
            return None
        return (device.pool, charge.amounts, charge.sharable) if charge.amounts else _NOT_CHARGED

    def reuse_key(self, request: Request, device: PoolDevice) -> Hashable:
        if request.admin_access or not device.published.consumes_counters:
            return _NOT_CHARGED
        return self._pools.counter_sets(device.pool).structure[device.id.device]

    def add(self, request: Request, device: PoolDevice) -> bool:
        if not device.published.consumes_counters or request.admin_access:  # AC-6
            return True
        pool = self._of.get(device.pool) or self._pool(device.pool)
        charge = pool.sets.charges[device.id.device]
        if charge.sharable and self._once.join(device):
            return True
        if pool.account.unknown:  # AC-2
            return False
        left, taken = pool.account.left, pool.taken
        for number, amount in charge.amounts:
            if taken.get(number, 0) + amount > left[number]:
                return False
        for number, amount in charge.amounts:
            taken[number] = taken.get(number, 0) + amount
        if charge.sharable:
            self._once.begin(device)
        return True

    def remove(self, request: Request, device: PoolDevice) -> None:
        if not device.published.consumes_counters or request.admin_access:
            return
        pool = self._of[device.pool]
        charge = pool.sets.charges[device.id.device]
        if charge.sharable and self._once.leave(device):
            return
        for number, amount in charge.amounts:
            pool.taken[number] -= amount

    def state(self, upcoming: Upcoming) -> Hashable:
        """The amounts taken of counters that upcoming devices consume, and the shared devices that are charged."""
        if not self._of or all(request.admin_access for request in upcoming.requests):
            return None
        taken = frozenset(
            (name, number, amount)
            for name, pool in self._of.items()
            for number, amount in pool.taken.items()
            if amount
            and any(
                device not in self._once and upcoming.symmetry(device) is not None
                for device in pool.sets.takers[number]
            )
        )
        charged = self._charged(upcoming)
        return (taken, charged) if taken or charged else None

    def _charged(self, upcoming: Upcoming) -> frozenset[tuple[SymmetryKey, int]]:
        keys = Counter(key for device in self._once.devices if (key := upcoming.symmetry(device)) is not None)
        return frozenset(keys.items())

    def concerns(self, device: PoolDevice) -> bool:
        return bool(device.published.consumes_counters)

    def exceeded(self, wanted: Sequence[Sequence[tuple[Slots, Sequence[PoolDevice]]]], effort: Effort) -> bool:
        """True if the requests exceed what is left by some weights of the counters (counter_supply.py)."""

        def pool_of(pool: PoolId) -> tuple[CounterSets, Account]:
            taken = self._pool(pool)
            return taken.sets, taken.account

        return counter_supply.exceeded(wanted, pool_of, effort.counter_bound)

    def takes(self, request: Request, device: PoolDevice) -> Sequence[Take]:
        """Nothing for a device that can be shared: its first share may have been taken already."""
        if request.admin_access or not device.published.consumes_counters:
            return ()
        pool = self._pool(device.pool)
        charge = pool.sets.charges[device.id.device]
        if charge.sharable:
            return ()
        counters, left = pool.sets.counters, pool.account.left
        return [
            Take(
                counters[number].name,
                (device.pool, number),
                amount * counters[number].unit,
                left[number] * counters[number].unit,
            )
            for number, amount in charge.amounts
            if amount
        ]

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        pool = self._pool(device.pool)
        account = pool.account
        if account.unknown:
            gone, are = ", ".join(sorted(account.unknown)), "are" if len(account.unknown) > 1 else "is"
            return Rejection(
                UNKNOWN_USE,
                "use of counters unknown",
                device.id,
                f"pool {device.pool} no longer publishes {gone}, which {are} allocated: "
                "what is left of its counters isn't known",
            )
        for number, amount in pool.sets.charges[device.id.device].amounts:
            left = account.left[number] - pool.taken.get(number, 0)
            if amount > left:
                counter = pool.sets.counters[number]
                detail = (
                    f"counter {counter.name} of counter set {counter.counter_set}: {counter.quantity(left)} of "
                    f"{counter.quantity(pool.sets.declared[number])} left, {counter.quantity(amount)} wanted"
                )
                return Rejection(INSUFFICIENT, f"insufficient counter {counter.name}", device.id, detail)
        raise AssertionError(f"counters accept {device.id}: there is no refusal to explain")


class CountersOff(StaticCheck):
    """The gate is off."""

    def add(self, request: Request, device: PoolDevice) -> bool:
        return not device.published.consumes_counters

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        return feature_off(device, "DRAPartitionableDevices")
