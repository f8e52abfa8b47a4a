"""Slices to pools as one node sees them (A-4, A-5), judged by what the node sees (AC-4, AC-15, AC-16 not corrected) or
by all slices."""

from __future__ import annotations

from dataclasses import dataclass, field

from devtools.allocator.plain.errors import Fatal
from devtools.allocator.plain.facts import Candidate, Facts
from virt_dra.api.core_v1 import NodeSelector
from virt_dra.api.policies.node_selection import NodeMatcher, NodeSelectorError, describe_selector
from virt_dra.api.resource_v1 import Device, ResourceSlice

INCOMPLETE = "currently being updated"
INVALID = "currently invalid"


@dataclass(eq=False)
class Pool:
    driver: str
    name: str
    problem: str | None = None
    targeting: list[Candidate] = field(default_factory=list)
    elsewhere: list[Candidate] = field(default_factory=list)
    """Devices that the node can't have, but that take from counters."""
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    """Billionths by counter set and counter."""

    @property
    def last(self) -> bool:
        """A-5.6."""
        return any(candidate.device.given("binding_conditions") for candidate in self.targeting)


def visible_pools(facts: Facts) -> list[Pool]:
    """In the order of the search."""
    seen: dict[tuple[str, str], list[ResourceSlice]] = {}
    local = [slice_ for slice_ in facts.slices if slice_.spec.node_name == facts.node.name]
    shared = [slice_ for slice_ in facts.slices if not slice_.spec.node_name]
    for slice_ in local + shared:
        if not _usable(facts, slice_) or not _relevant(facts, slice_):
            continue
        group = seen.setdefault((slice_.spec.driver, slice_.spec.pool.name), [])
        if group and slice_.spec.pool.generation > group[0].spec.pool.generation:
            group.clear()
        if not group or slice_.spec.pool.generation == group[0].spec.pool.generation:
            group.append(slice_)
    pools = [pool for key in sorted(seen) if (pool := _pool(facts, key, seen[key])) is not None]
    return [pool for pool in pools if not pool.last] + [pool for pool in pools if pool.last]


def _usable(facts: Facts, slice_: ResourceSlice) -> bool:
    """A-4.2, A-4.3."""
    if not facts.on("PartitionableDevices") and (
        slice_.spec.per_device_node_selection is not None or slice_.spec.shared_counters
    ):
        return False
    return facts.on("CompatibilityGroups") or not _grouped(slice_)


def _grouped(slice_: ResourceSlice) -> bool:
    return any(
        consumption.compatibility_groups for device in slice_.spec.devices for consumption in device.consumes_counters
    )


def _relevant(facts: Facts, slice_: ResourceSlice) -> bool:
    """A-4.4."""
    spec = slice_.spec
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        where = f"gather pool information: failed to perform node selection for slice {slice_.name}: "
        return _selects(facts, spec.node_name, spec.all_nodes, spec.node_selector, where)
    if not spec.per_device_node_selection:
        return False
    where = "gather pool information: failed to perform node selection for device {} in slice {}: "
    return any(selects_device(facts, device, where.format(device.name, slice_.name)) for device in spec.devices)


def selects_device(facts: Facts, device: Device, where: str = "") -> bool:
    return _selects(facts, device.node_name, device.all_nodes, device.node_selector, where)


def _selects(
    facts: Facts, name: str | None, everywhere: bool | None, selector: NodeSelector | None, where: str
) -> bool:
    """A-4.5."""
    if name:
        return name == facts.node.name
    if everywhere:
        return True
    try:
        return selector is not None and NodeMatcher(selector).matches(facts.node)
    except NodeSelectorError as error:
        raise Fatal(
            f"{where}failed to parse node selector {describe_selector(selector) if selector else ''}: {error}"
        ) from None


def _pool(facts: Facts, key: tuple[str, str], seen: list[ResourceSlice]) -> Pool | None:
    """None for a pool of which the node sees only what is obsolete."""
    every = [slice_ for slice_ in facts.slices if (slice_.spec.driver, slice_.spec.pool.name) == key]
    generation, count = seen[0].spec.pool.generation, seen[0].spec.pool.resource_slice_count
    current = [slice_ for slice_ in every if slice_.spec.pool.generation == generation]
    counted = [slice_ for slice_ in current if facts.on("CompatibilityGroups") or not _grouped(slice_)]
    everything = facts.fixed("AC-4/15/16")
    pool = Pool(*key)
    if not everything and len(seen) == count:
        return _filled(facts, pool, seen, [])
    if any(slice_.spec.pool.generation > generation for slice_ in every):
        return None
    agreed = not everything or all(slice_.spec.pool.resource_slice_count == count for slice_ in current)
    if len(counted) != count or not agreed:
        pool.problem = INCOMPLETE
        return pool
    return _filled(
        facts, pool, seen, [slice_ for slice_ in counted if not any(slice_ is seen_slice for seen_slice in seen)]
    )


def _filled(facts: Facts, pool: Pool, seen: list[ResourceSlice], unseen: list[ResourceSlice]) -> Pool:
    """A-5.3, A-5.4."""
    partitions = facts.on("PartitionableDevices")
    counter_slices = [
        slice_ for slice_ in sorted(seen, key=_name) + unseen if partitions and slice_.spec.shared_counters
    ]
    pool.targeting = [
        c
        for slice_ in sorted(seen, key=_name)
        if not any(slice_ is counter_slice for counter_slice in counter_slices)
        for c in _candidates(slice_)
    ]
    pool.elsewhere = [
        c
        for slice_ in unseen
        if not any(slice_ is counter_slice for counter_slice in counter_slices)
        for c in _candidates(slice_)
    ]
    names = [candidate.device.name for candidate in pool.targeting]
    if facts.fixed("AC-4/15/16"):
        names += [candidate.device.name for candidate in pool.elsewhere]
    if len(set(names)) < len(names) or (partitions and not _counters(facts, pool, counter_slices)):
        return Pool(pool.driver, pool.name, INVALID)
    return pool


def _counters(facts: Facts, pool: Pool, slices: list[ResourceSlice]) -> bool:
    """Whether the pool's counters are valid, with AC-3."""
    negative = False
    for counter_set in (counter_set for slice_ in slices for counter_set in slice_.spec.shared_counters):
        if counter_set.name in pool.counters:
            return False
        pool.counters[counter_set.name] = {name: counter.value.nano for name, counter in counter_set.counters.items()}
        negative = negative or any(amount < 0 for amount in pool.counters[counter_set.name].values())
    for consumption in (
        consumption for c in pool.targeting + pool.elsewhere for consumption in c.device.consumes_counters
    ):
        if not consumption.counters.keys() <= pool.counters.get(consumption.counter_set, {}).keys():
            return False
        if consumption.counter_set not in pool.counters:
            return False
        negative = negative or any(counter.value.nano < 0 for counter in consumption.counters.values())
    return not (negative and facts.fixed("AC-3"))


def _candidates(slice_: ResourceSlice) -> list[Candidate]:
    return [Candidate(device, slice_) for device in slice_.spec.devices]


def _name(slice_: ResourceSlice) -> str:
    return slice_.name
