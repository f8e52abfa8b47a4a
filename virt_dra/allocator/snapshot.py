"""Everything the search may know: slices, classes, and what is in use. Immutable, shared by every node and pod.

The two parts change at different rates: the :class:`Inventory` (slices, classes, and all that follows from them alone, remembered)
with the cluster's hardware, the used state with every allocation. `Snapshot.with_allocation` therefore changes one pool's entry of a
persistent map.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from immutables import Map

from virt_dra.allocator import cel_engine
from virt_dra.allocator.features.selectors import CompileSelector, SelectorOutcomes
from virt_dra.allocator.features.taints import with_rules
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import DeviceId, PoolId
from virt_dra.allocator.pools import Pools
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice


@dataclass(frozen=True)
class PoolUse:
    """What is in use of one pool (A-3.1), by device name.

    ``exclusive`` counts allocations: two claims may hold a device by mistake (C-22.10), and releasing one must not free it. ``shares``
    are (device name, share id). ``consumed`` is the sum over a device's shares, per capacity name.
    """

    exclusive: Mapping[str, int] = field(default_factory=dict)
    shares: frozenset[tuple[str, str]] = frozenset()
    consumed: Mapping[str, Mapping[str, Quantity]] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not self.exclusive and not self.shares and not self.consumed

    @cached_property
    def shared(self) -> frozenset[str]:
        """Names of devices of which a share is allocated, or some capacity consumed (A-12.4)."""
        return frozenset(device for device, _ in self.shares) | self.consumed.keys()

    @cached_property
    def devices(self) -> frozenset[str]:
        """Names of devices that are in use in any way (A-3.5)."""
        return self.shared | self.exclusive.keys()

    @cached_property
    def key(self) -> Hashable:
        """Equal for uses that no check can tell apart: how often a device is held, and by which share ids, doesn't matter."""
        if not self.shares and not self.consumed:
            return frozenset(self.exclusive)
        consumed = frozenset((device, frozenset(amounts.items())) for device, amounts in self.consumed.items())
        return frozenset(self.exclusive), self.shared, consumed


NOTHING_USED = PoolUse()


@dataclass(frozen=True, slots=True)
class Use:
    """One device in use: a result of an allocation, or a line of a state that no claims produce (A-3.1).

    Without ``share_id`` and ``consumed`` it is exclusive. ``consumed`` without a share counts as capacity only.
    """

    driver: str
    pool: str
    device: str
    share_id: str | None = None
    consumed: Mapping[str, Quantity] | None = None


class Inventory:
    """Slices and classes, and what is derived from them alone. Memory inside only saves work; it never changes an answer."""

    def __init__(self, slices: tuple[ResourceSlice, ...], classes: Mapping[str, DeviceClass], compile_selector: CompileSelector) -> None:
        self.slices = slices
        self.classes = classes
        self.selectors = SelectorOutcomes(compile_selector)
        self._pools: dict[Features, Pools] = {}

    def pools(self, features: Features) -> Pools:
        found = self._pools.get(features)
        if found is None:
            found = self._pools[features] = Pools(self.slices, features)
        return found


@dataclass(frozen=True)
class Snapshot:
    """See the module. Build with :meth:`build`, derive with :meth:`with_allocation` and :meth:`without_allocation`."""

    inventory: Inventory
    used: Map[PoolId, PoolUse] = field(default_factory=Map)
    """Persistent: a snapshot with one more allocation shares all the rest with the one before."""

    @classmethod
    def build(
        cls,
        slices: Iterable[ResourceSlice],
        classes: Iterable[DeviceClass],
        claims: Iterable[ResourceClaim] = (),
        taint_rules: Iterable[DeviceTaintRule] = (),
        *,
        compile_selector: CompileSelector | None = None,
    ) -> Snapshot:
        """All slices and classes of the cluster and all claims (those without allocation don't count, A-3.2).

        ``taint_rules`` are applied to the slices here (A-24); pass none when DRADeviceTaintRules is off. ``compile_selector``
        replaces the CEL engine. Never fails: nothing is validated before a node is tried (A-1.1).
        """
        tainted = tuple(with_rules(slices, taint_rules))
        inventory = Inventory(tainted, {each.name: each for each in classes}, compile_selector or cel_engine.compile_selector)
        return cls(inventory).with_allocation(*(claim.status.allocation for claim in claims if claim.status.allocation is not None))

    def with_allocation(self, *allocations: AllocationResult) -> Snapshot:
        """A snapshot in which these allocations are in use too (A-3.3)."""
        return self.with_uses(_uses(allocations))

    def without_allocation(self, *allocations: AllocationResult) -> Snapshot:
        """A snapshot in which these allocations are released (A-3.4)."""
        return self._changed(_uses(allocations), -1)

    def with_uses(self, uses: Iterable[Use]) -> Snapshot:
        """A snapshot in which these devices are in use too."""
        return self._changed(uses, 1)

    def is_allocated(self, device: DeviceId) -> bool:
        """A-3.5."""
        return device.device in self.used.get(PoolId(device.driver, device.pool), NOTHING_USED).devices

    def _changed(self, uses: Iterable[Use], by: int) -> Snapshot:
        by_pool: dict[PoolId, list[Use]] = {}
        for use in uses:
            by_pool.setdefault(PoolId(use.driver, use.pool), []).append(use)
        used = self.used
        for pool, changes in by_pool.items():
            after = _pool_changed(used.get(pool, NOTHING_USED), changes, by)
            if not after.empty:
                used = used.set(pool, after)
            elif pool in used:
                used = used.delete(pool)
        return self if used is self.used else Snapshot(self.inventory, used)


def _uses(allocations: Iterable[AllocationResult]) -> Iterator[Use]:
    """Admin access leaves no mark (A-3.3)."""
    for allocation in allocations:
        for result in allocation.devices.results:
            if not result.admin_access:
                consumed = (result.consumed_capacity or None) if result.share_id is not None else None
                yield Use(result.driver, result.pool, result.device, result.share_id, consumed)


def _pool_changed(before: PoolUse, changes: Iterable[Use], by: int) -> PoolUse:
    exclusive = dict(before.exclusive)
    shares: set[tuple[str, str]] | None = None
    consumed: dict[str, Mapping[str, Quantity]] | None = None
    for use in changes:
        if use.share_id is None and use.consumed is None:
            count = exclusive.pop(use.device, 0) + by
            if count > 0:
                exclusive[use.device] = count
            continue
        if use.share_id is not None:
            shares = set(before.shares) if shares is None else shares
            (shares.add if by > 0 else shares.discard)((use.device, use.share_id))
        if use.consumed is not None:
            consumed = dict(before.consumed) if consumed is None else consumed
            amounts = dict(consumed.get(use.device, {}))
            for name, amount in use.consumed.items():
                known = amounts.get(name)
                if by > 0:
                    amounts[name] = amount if known is None else known + amount
                elif known is not None:
                    amounts[name] = known - amount
            if by < 0 and not any(amounts.values()):  # nothing is left of it
                consumed.pop(use.device, None)
            else:
                consumed[use.device] = amounts
    return PoolUse(exclusive, before.shares if shares is None else frozenset(shares), before.consumed if consumed is None else consumed)
