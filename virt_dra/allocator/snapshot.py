"""Everything the search may know: slices, classes, and what is in use. Immutable, shared by every node and pod.

The two parts change at different rates: the :class:`Inventory` (slices, classes, and all that follows from them alone, remembered)
with the cluster's hardware, the used state with every allocation. `Snapshot.with_allocation` therefore copies one small mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from virt_dra.allocator import cel_engine
from virt_dra.allocator.features.selectors import CompileSelector, SelectorOutcomes
from virt_dra.allocator.features.taints import with_rules
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import DeviceId, PoolId
from virt_dra.allocator.pools import Pools
from virt_dra.api.resource_v1 import AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice


@dataclass(frozen=True, slots=True)
class PoolUse:
    """What is in use of one pool (A-3.1). ``exclusive`` counts allocations per device name: two claims may hold one by mistake
    (C-22.10), and releasing one must not free it. ``shares`` are (device name, share id)."""

    exclusive: Mapping[str, int] = field(default_factory=dict)
    shares: frozenset[tuple[str, str]] = frozenset()

    @property
    def empty(self) -> bool:
        return not self.exclusive and not self.shares

    @property
    def shared(self) -> frozenset[str]:
        """Names of devices of which some share is allocated."""
        return frozenset(device for device, _ in self.shares)


NOTHING_USED = PoolUse()


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
    used: Mapping[PoolId, PoolUse] = field(default_factory=dict)

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
        return self._changed(allocations, 1)

    def without_allocation(self, *allocations: AllocationResult) -> Snapshot:
        """A snapshot in which these allocations are released (A-3.4)."""
        return self._changed(allocations, -1)

    def is_allocated(self, device: DeviceId) -> bool:
        """A-3.5."""
        use = self.used.get(PoolId(device.driver, device.pool), NOTHING_USED)
        return device.device in use.exclusive or device.device in use.shared

    def _changed(self, allocations: Iterable[AllocationResult], by: int) -> Snapshot:
        exclusive: dict[PoolId, dict[str, int]] = {}
        shares: dict[PoolId, set[tuple[str, str]]] = {}
        for result in (result for allocation in allocations for result in allocation.devices.results):
            if result.admin_access:
                continue  # admin access leaves no mark
            pool = PoolId(result.driver, result.pool)
            if result.share_id is not None:
                held = shares.get(pool)
                if held is None:
                    held = shares[pool] = set(self.used.get(pool, NOTHING_USED).shares)
                (held.add if by > 0 else held.discard)((result.device, result.share_id))
            else:
                counts = exclusive.get(pool)
                if counts is None:
                    counts = exclusive[pool] = dict(self.used.get(pool, NOTHING_USED).exclusive)
                count = counts.pop(result.device, 0) + by
                if count > 0:
                    counts[result.device] = count
        if not exclusive and not shares:
            return self
        used = dict(self.used)
        for pool in exclusive.keys() | shares.keys():
            before = used.pop(pool, NOTHING_USED)
            after = PoolUse(exclusive.get(pool, before.exclusive), frozenset(shares.get(pool, before.shares)))
            if not after.empty:
                used[pool] = after
        return Snapshot(self.inventory, used)
