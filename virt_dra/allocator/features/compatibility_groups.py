"""KEP-5963: devices that take from one counter set at the same time must have a compatibility group in common (A-13).

A device without groups goes only with devices without groups. Existing allocations: the devices in use are members of
the counter sets that their slices say they consume from. Admin access makes no device a member. Runs before counters,
and only with them. Off: a slice that names groups doesn't count, so its pool is incomplete (A-4.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence, Set

from virt_dra.allocator.counter_sets import Account, CounterSets
from virt_dra.allocator.features.charged_once import ChargedOnce
from virt_dra.allocator.model import Check, PoolDevice, PoolId, Rejection, Request, SymmetryKey, Take, Upcoming
from virt_dra.allocator.pools import Pools
from virt_dra.allocator.usage import Used
from virt_dra.api.core_v1 import Node

INCOMPATIBLE = "GroupsIncompatible"
"""The device has no compatibility group in common with those that take from the same counter set."""

Common = frozenset[str] | None
"""The groups that the members of a counter set have in common; None if no member names any. Sets without members aren't
listed."""

_NO_MEMBER = True
"""The symmetry and reuse key of a device to which groups don't matter."""


def _admits(members: Mapping[int, Common], number: int, groups: frozenset[str]) -> bool:
    if number not in members:
        return True
    common = members[number]
    return not groups if common is None else not common.isdisjoint(groups)


def _joined(members: Mapping[int, Common], number: int, groups: frozenset[str]) -> Common:
    """The common groups once a device has joined, also for incompatible members: slices may change under allocated
    devices (A-13.1)."""
    if number not in members:
        return groups or None
    common = members[number]
    return common & groups if common is not None and groups else common


def _baseline(sets: CounterSets, account: Account, targeting: Callable[[], Set[PoolDevice]]) -> Mapping[int, Common]:
    """The members in use (A-13.2). If there are members with and without groups, which correct slices don't produce,
    the order matters: those of the slices that target the node come first."""
    if account.members is None:
        used = [device for device in sets.devices if device.id.device in account.devices]
        if not _is_mixed(sets, used):
            account.members = _folded(sets, used)
            return account.members
        first = targeting()
        return _folded(sets, sorted(used, key=lambda device: device not in first))
    return account.members


def _folded(sets: CounterSets, devices: Sequence[PoolDevice]) -> dict[int, Common]:
    members: dict[int, Common] = {}
    for device in devices:
        for number, groups in sets.charges[device.id.device].groups:
            members[number] = _joined(members, number, groups)
    return members


def _is_mixed(sets: CounterSets, devices: Sequence[PoolDevice]) -> bool:
    memberships = {
        (number, not groups) for device in devices for number, groups in sets.charges[device.id.device].groups
    }
    return len(memberships) > len({number for number, _ in memberships})


class _Members:
    """A pool in this attempt: the common groups of each counter set now, and before each device that joined."""

    __slots__ = ("before", "now", "places", "sets", "start")

    def __init__(self, sets: CounterSets, start: Mapping[int, Common]) -> None:
        self.sets = sets
        self.start = start
        self.now: dict[int, Common] = dict(start)
        self.before: list[dict[int, Common]] = []
        self.places: dict[int, int] = {}
        """Per counter set; cached."""


class CompatibilityGroups(Check):
    """The check of compatibility groups, one for all claims of an attempt."""

    def __init__(self, used: Used, pools: Pools, node: Node) -> None:
        self._used = used
        self._pools = pools
        self._node = node
        self._of: dict[PoolId, _Members] = {}
        self._once = ChargedOnce(used)

    def _pool(self, pool: PoolId) -> _Members:
        members = self._of.get(pool)
        if members is None:
            sets = self._pools.counter_sets(pool)
            start = _baseline(sets, sets.account(self._used.get(pool)), self._targeting) if sets.grouped else {}
            members = self._of[pool] = _Members(sets, start)
        return members

    def _targeting(self) -> Set[PoolDevice]:
        return frozenset(self._pools.reachable(self._node).devices)

    def symmetry_key(self, request: Request, device: PoolDevice) -> SymmetryKey:
        if request.admin_access or not device.published.consumes_counters:
            return _NO_MEMBER
        pool = self._pool(device.pool)
        charge = pool.sets.charges[device.id.device]
        if not pool.sets.grouped or (charge.sharable and self._once.before(device)):
            return _NO_MEMBER
        return (
            (device.pool, charge.groups, charge.sharable)
            if all(_admits(pool.start, *membership) for membership in charge.groups)
            else None
        )

    def reuse_key(self, request: Request, device: PoolDevice) -> Hashable:
        if request.admin_access or not device.published.consumes_counters:
            return _NO_MEMBER
        return self._pools.counter_sets(device.pool).structure[device.id.device]

    def add(self, request: Request, device: PoolDevice) -> bool:
        if not device.published.consumes_counters or request.admin_access:  # AC-6, AC-7
            return True
        pool = self._of.get(device.pool) or self._pool(device.pool)
        if not pool.sets.grouped:
            return True
        charge = pool.sets.charges[device.id.device]
        if charge.sharable and self._once.join(device):
            return True
        before = pool.now
        now = dict(before)
        for number, groups in charge.groups:
            if not _admits(now, number, groups):
                return False
            now[number] = _joined(now, number, groups)
        pool.before.append(before)
        pool.now = now
        if charge.sharable:
            self._once.begin(device)
        return True

    def remove(self, request: Request, device: PoolDevice) -> None:
        if not device.published.consumes_counters or request.admin_access:
            return
        pool = self._of[device.pool]
        if pool.sets.grouped and not (pool.sets.charges[device.id.device].sharable and self._once.leave(device)):
            pool.now = pool.before.pop()

    def state(self, upcoming: Upcoming) -> Hashable:
        """The common groups of each counter set that this attempt changed and that upcoming devices may join."""
        if not self._of or all(request.admin_access for request in upcoming.requests):
            return None
        joined = frozenset(
            (name, number, common)
            for name, pool in self._of.items()
            if pool.before
            for number, common in pool.now.items()
            if (number not in pool.start or pool.start[number] != common)
            and any(
                device not in self._once and upcoming.symmetry(device) is not None
                for device in pool.sets.members[number]
            )
        )
        shared = Counter(key for device in self._once.devices if (key := upcoming.symmetry(device)) is not None)
        return (joined, frozenset(shared.items())) if joined or shared else None

    def takes(self, request: Request, device: PoolDevice) -> Sequence[Take]:
        """A place in each counter set, of which there are as many as its largest group has devices."""
        if request.admin_access or not device.published.consumes_counters:
            return ()
        pool = self._pool(device.pool)
        charge = pool.sets.charges[device.id.device]
        if not pool.sets.grouped or charge.sharable:
            return ()
        return [Take("places", (device.pool, number), 1, self._places(pool, number)) for number, _ in charge.groups]

    def _places(self, pool: _Members, number: int) -> int:
        """The most devices that can take from a counter set in this attempt."""
        places = pool.places.get(number)
        if places is None:
            sizes: Counter[str | None] = Counter()
            for device in pool.sets.members[number]:
                groups = next(
                    groups for set_number, groups in pool.sets.charges[device.id.device].groups if set_number == number
                )
                if _admits(pool.start, number, groups):
                    sizes.update((groups & (pool.start.get(number) or groups)) or (None,))
            places = pool.places[number] = max(sizes.values(), default=0)
        return places

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        pool = self._pool(device.pool)
        now = dict(pool.now)
        for number, groups in pool.sets.charges[device.id.device].groups:
            if not _admits(now, number, groups):
                own = f"in compatibility groups {', '.join(sorted(groups))}" if groups else "in no compatibility group"
                common = now[number]
                others = "are in none" if common is None else f"have {', '.join(sorted(common)) or 'none'} in common"
                detail = (
                    f"counter set {pool.sets.set_names[number]}: the device is {own}, those that take from it {others}"
                )
                return Rejection(INCOMPATIBLE, "incompatible compatibility groups", device.id, detail)
            now[number] = _joined(now, number, groups)
        raise AssertionError(f"compatibility groups accept {device.id}: there is no refusal to explain")
