"""Everything the search may know: slices, classes, and what is in use. Immutable, shared by every node and pod.

The two parts change at different rates: the :class:`Inventory` (slices, classes, and all that follows from them alone, remembered)
with the cluster's hardware, the used state with every allocation. `Snapshot.with_allocation` therefore changes one pool's entry of a
persistent map.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from virt_dra.allocator import cel_engine
from virt_dra.allocator.features.attributes import Attributes
from virt_dra.allocator.features.capacity import Capacities
from virt_dra.allocator.features.derived_attributes import CompileDerived
from virt_dra.allocator.features.selectors import CompileSelector, SelectorOutcomes
from virt_dra.allocator.features.taints import with_rules
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import DeviceId, PoolId
from virt_dra.allocator.pools import Pools
from virt_dra.allocator.published import PublishedValues
from virt_dra.allocator.reuse.pod_classes import Demands
from virt_dra.allocator.usage import NOTHING_USED, PoolUse, Use, by_pool, changed, uses_of
from virt_dra.api.persistent_map import PersistentMap
from virt_dra.api.resource_v1 import AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice

T = TypeVar("T")


class Inventory:
    """Slices and classes, and what is derived from them alone. Memory inside only saves work; it never changes an answer."""

    def __init__(
        self,
        slices: tuple[ResourceSlice, ...],
        classes: Mapping[str, DeviceClass],
        compile_selector: CompileSelector,
        compile_derived: CompileDerived,
    ) -> None:
        self.slices = slices
        self.classes = classes
        self.selectors = SelectorOutcomes(compile_selector)
        self._numbers = PublishedValues()
        self.attributes = Attributes(compile_derived, self._numbers)
        self.capacities = Capacities()
        self._pools: dict[Features, Pools] = {}
        self._demands: dict[Features, Demands] = {}

    def pools(self, features: Features) -> Pools:
        found = self._pools.get(features)
        if found is None:
            found = self._pools[features] = Pools(self.slices, features, self._numbers)
        return found

    def demands(self, features: Features) -> Demands:
        found = self._demands.get(features)
        if found is None:
            found = self._demands[features] = Demands(self.pools(features), self.classes, self.capacities, features)
        return found


@dataclass(frozen=True)
class Snapshot:
    """See the module. Build with :meth:`build`, derive with :meth:`with_allocation` and :meth:`without_allocation`."""

    inventory: Inventory
    used: PersistentMap[PoolId, PoolUse] = field(default_factory=PersistentMap)
    """Persistent: a snapshot with one more allocation shares all the rest with the one before."""
    allocated: Mapping[str, ResourceClaim] = field(default_factory=dict, compare=False, repr=False)
    """The claims with an allocation that it was built with, by ``namespace/name``."""

    @classmethod
    def build(
        cls,
        slices: Iterable[ResourceSlice],
        classes: Iterable[DeviceClass],
        claims: Iterable[ResourceClaim] = (),
        taint_rules: Iterable[DeviceTaintRule] = (),
        *,
        compile_selector: CompileSelector | None = None,
        compile_derived: CompileDerived | None = None,
    ) -> Snapshot:
        """All slices and classes of the cluster and all claims (those without allocation don't count, A-3.2).

        ``taint_rules`` are applied to the slices here (A-24); pass none when DRADeviceTaintRules is off. ``compile_selector``
        and ``compile_derived`` replace the CEL engine. Nothing is validated before a node is tried (A-1.1); raises TypeError for
        objects of another kind.
        """
        tainted = tuple(with_rules(of_type(slices, ResourceSlice, "slices"), of_type(taint_rules, DeviceTaintRule, "taint_rules")))
        allocated = [each for each in of_type(claims, ResourceClaim, "claims") if each.status.allocation is not None]
        inventory = Inventory(
            tainted,
            {each.name: each for each in of_type(classes, DeviceClass, "classes")},
            compile_selector or cel_engine.compile_selector,
            compile_derived or cel_engine.compile_derived,
        )
        return cls(inventory, allocated={each.key: each for each in allocated if each.name}).with_allocation(
            *(each.status.allocation for each in allocated if each.status.allocation is not None)
        )

    def with_allocation(self, *allocations: AllocationResult) -> Snapshot:
        """A snapshot in which these allocations are in use too (A-3.3)."""
        return self.with_uses(uses_of(allocations))

    def including(self, allocations: Iterable[AllocationResult]) -> Snapshot:
        """A snapshot in which these allocations are in use, unlike :meth:`with_allocation` also if some are already: each counts once."""
        return self.with_uses([use for use in uses_of(allocations) if not self._knows(use)])

    def allocation_of(self, claim: ResourceClaim) -> AllocationResult | None:
        """What the claim of that name has, of those that the snapshot was built with, unless it was released or is another by its UID."""
        known = self.allocated.get(claim.key)
        if known is None or (claim.metadata.uid and known.metadata.uid and claim.metadata.uid != known.metadata.uid):
            return None
        allocation = known.status.allocation
        return allocation if allocation is not None and all(self._knows(use) for use in uses_of([allocation])) else None

    def _knows(self, use: Use) -> bool:
        pool = self.used.get(PoolId(use.driver, use.pool), NOTHING_USED)
        return use.device in pool.exclusive if use.share_id is None else (use.device, use.share_id) in pool.shares

    def without_allocation(self, *allocations: AllocationResult) -> Snapshot:
        """A snapshot in which these allocations are released (A-3.4)."""
        return self.changed(by_pool(uses_of(allocations)), -1)

    def with_uses(self, uses: Iterable[Use]) -> Snapshot:
        """A snapshot in which these devices are in use too."""
        return self.changed(by_pool(uses), 1)

    def is_allocated(self, device: DeviceId) -> bool:
        """A-3.5."""
        return device.device in self.used.get(PoolId(device.driver, device.pool), NOTHING_USED).devices

    def changed(self, uses: Mapping[PoolId, Sequence[Use]], by: int) -> Snapshot:
        """A snapshot in which these devices are in use too (``by`` 1), or no more (-1)."""
        used = self.used
        for pool, changes in uses.items():
            after = changed(used.get(pool, NOTHING_USED), changes, by)
            used = used.without(pool) if after.empty else used.set(pool, after)
        return self if used is self.used else Snapshot(self.inventory, used, self.allocated)


def of_type(objects: Iterable[T], kind: type[T], what: str) -> Iterator[T]:
    """The objects one by one. Raises TypeError at the first that isn't of the kind."""
    for position, each in enumerate(objects):
        if not isinstance(each, kind):
            read = f"; {kind.__name__}.from_wire reads one" if isinstance(each, Mapping) else ""
            raise TypeError(f"{what}[{position}]: a {kind.__name__} is needed, this is of type {type(each).__name__}{read}")
        yield each
