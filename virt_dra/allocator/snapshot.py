"""Everything that decides an allocation: slices, classes, and what is in use. Immutable, shared by every node and pod.
A snapshot with one more allocation shares everything but one pool's entry; what is computed from slices and classes
lies beside the snapshots, in reuse/caches.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from virt_dra.allocator.features.taints import with_rules
from virt_dra.allocator.model import PoolId
from virt_dra.allocator.reuse.caches import SnapshotCaches
from virt_dra.allocator.usage import NOTHING_USED, DeviceUse, PoolUse, by_pool, changed, uses_of
from virt_dra.api.persistent_map import PersistentMap
from virt_dra.api.resource_v1 import AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice

T = TypeVar("T")


@dataclass(frozen=True)
class Snapshot:
    """The slices and classes of a cluster, and the devices in use. Build with :meth:`build`, derive with
    :meth:`with_allocation` and :meth:`without_allocation`."""

    slices: tuple[ResourceSlice, ...] = field(compare=False)
    classes: Mapping[str, DeviceClass] = field(compare=False)
    caches: SnapshotCaches = field(repr=False)
    used: PersistentMap[PoolId, PoolUse] = field(default_factory=PersistentMap)
    allocated: PersistentMap[str, ResourceClaim] = field(default_factory=PersistentMap, compare=False, repr=False)
    """The claims with an allocation that it was built with, by ``namespace/name``."""

    @classmethod
    def build(
        cls,
        slices: Iterable[ResourceSlice],
        classes: Iterable[DeviceClass],
        claims: Iterable[ResourceClaim] = (),
        taint_rules: Iterable[DeviceTaintRule] = (),
    ) -> Snapshot:
        """All slices and classes of the cluster and all claims (those without allocation don't count, A-3.2).
        ``taint_rules`` are applied to the slices here (A-24); pass none when DRADeviceTaintRules is off. Nothing is
        validated before a node is tried (A-1.1); raises TypeError for objects of another type."""
        tainted = tuple(
            with_rules(of_type(slices, ResourceSlice, "slices"), of_type(taint_rules, DeviceTaintRule, "taint_rules"))
        )
        by_name = MappingProxyType(
            {device_class.name: device_class for device_class in of_type(classes, DeviceClass, "classes")}
        )
        caches = SnapshotCaches(tainted, by_name)
        return cls(tainted, by_name, caches).with_claims(claims)

    def with_claims(self, claims: Iterable[ResourceClaim]) -> Snapshot:
        """A snapshot built with these claims, too."""
        there = [claim for claim in of_type(claims, ResourceClaim, "claims") if claim.status.allocation is not None]
        allocated = self.allocated.changed({claim.key: claim for claim in there if claim.name})
        allocations = (claim.status.allocation for claim in there if claim.status.allocation is not None)
        return replace(self, allocated=allocated).with_allocation(*allocations)

    def with_allocation(self, *allocations: AllocationResult) -> Snapshot:
        """A snapshot in which these allocations are in use too (A-3.3)."""
        return self.with_uses(uses_of(allocations))

    def including(self, allocations: Iterable[AllocationResult]) -> Snapshot:
        """A snapshot in which these allocations are in use. Unlike :meth:`with_allocation` it skips those that are
        already."""
        return self.with_uses([use for use in uses_of(allocations) if not self._knows(use)])

    def allocation_of(self, claim: ResourceClaim) -> AllocationResult | None:
        """The allocation that the snapshot was built with for the claim of that name, unless it was released or has
        another UID."""
        allocated = self.allocated.get(claim.key)
        if allocated is None or (
            claim.metadata.uid and allocated.metadata.uid and claim.metadata.uid != allocated.metadata.uid
        ):
            return None
        allocation = allocated.status.allocation
        return allocation if allocation is not None and all(self._knows(use) for use in uses_of([allocation])) else None

    def _knows(self, use: DeviceUse) -> bool:
        pool = self.used.get(PoolId(use.driver, use.pool), NOTHING_USED)
        return use.device in pool.exclusive if use.share_id is None else (use.device, use.share_id) in pool.shares

    def without_allocation(self, *allocations: AllocationResult) -> Snapshot:
        """A snapshot in which these allocations are released (A-3.4)."""
        return self.changed(by_pool(uses_of(allocations)), -1)

    def with_uses(self, uses: Iterable[DeviceUse]) -> Snapshot:
        """A snapshot in which these devices are in use too."""
        return self.changed(by_pool(uses), 1)

    def changed(self, uses: Mapping[PoolId, Sequence[DeviceUse]], by: int) -> Snapshot:
        """A snapshot in which these devices are in use too (``by`` 1), or released (-1)."""
        used = self.used
        for pool, changes in uses.items():
            after = changed(used.get(pool, NOTHING_USED), changes, by)
            used = used.without(pool) if after.empty else used.set(pool, after)
        return self if used is self.used else Snapshot(self.slices, self.classes, self.caches, used, self.allocated)


def of_type(objects: Iterable[T], wanted: type[T], argument: str) -> Iterator[T]:
    """The objects one by one. Raises TypeError at the first of another type. ``argument``: its name in the message."""
    for position, obj in enumerate(objects):
        if not isinstance(obj, wanted):
            read = f"; {wanted.__name__}.from_wire reads one" if isinstance(obj, Mapping) else ""
            raise TypeError(
                f"{argument}[{position}]: a {wanted.__name__} is needed, this is of type {type(obj).__name__}{read}"
            )
        yield obj
