"""Resource pools from ResourceSlices: generation, completeness, validity (A-4.7, A-5), and the devices a node can reach
(A-4.4, A-5.6).

Completeness and validity are properties of *all* slices of a pool in the cluster, not of those a node can see (AC-4,
AC-15, AC-16): they are the same for every node and computed once. Only reachability depends on the node.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from virt_dra.allocator.counter_sets import CounterSets
from virt_dra.allocator.errors import FatalError
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import DeviceId, PoolDevice, PoolId
from virt_dra.allocator.published import PublishedValues
from virt_dra.api import resource_v1
from virt_dra.api.core_v1 import Node, NodeSelector
from virt_dra.api.policies.node_selection import NodeMatcher, NodeSelectorError, describe_selector
from virt_dra.api.pool_generations import generation_of, newest_generation
from virt_dra.api.resource_v1 import ResourceSlice

INCOMPLETE = "PoolIncomplete"
"""The highest generation does not have exactly `resourceSliceCount` slices (A-5.2, AC-4, AC-15)."""
INVALID = "PoolInvalid"
"""The slices contradict each other, e.g. two devices with one name (A-5.4, AC-16)."""


@dataclass(frozen=True, slots=True)
class PoolProblem:
    """Why no device of a pool may be allocated. ``reason`` is INCOMPLETE or INVALID."""

    pool: PoolId
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, eq=False)
class PoolSlice:
    """A slice and its devices (none for a slice that only declares counters)."""

    slice: ResourceSlice
    pool: PoolId
    devices: tuple[PoolDevice, ...]
    has_binding_conditions: bool


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The newest generation of a pool, slices sorted by name (A-5.3). One object per version of its slices: identity
    compares."""

    id: PoolId
    slices: tuple[PoolSlice, ...]
    problem: PoolProblem | None
    positions: Mapping[str, int]
    """Device name -> its place among all devices of the pool."""
    local_node: str | None
    """The node that all slices belong to; None for a pool that several nodes may see."""


@dataclass(frozen=True, slots=True)
class ReachablePool:
    """The part of a pool that one node can reach. A pool with a problem has no devices."""

    id: PoolId
    devices: tuple[PoolDevice, ...]
    problem: PoolProblem | None


@dataclass(frozen=True, slots=True, eq=False)
class Reachable:
    """Everything one node can reach, in search order (A-5.6, A-5.7). One object per node, as long as its labels and
    declared features stay: identity compares."""

    node: str
    declared_features: tuple[str, ...]
    pools: tuple[ReachablePool, ...]
    devices: tuple[PoolDevice, ...]

    @property
    def problems(self) -> tuple[PoolProblem, ...]:
        return tuple(pool.problem for pool in self.pools if pool.problem)


class Pools:
    """All pools of a cluster for one feature set. `reachable` caches its answer per node."""

    def __init__(self, slices: Iterable[ResourceSlice], features: Features, numbers: PublishedValues) -> None:
        ordered = sorted(slices, key=lambda slice_: slice_.name)
        self._features = features
        self._pools = _gather(ordered, features, numbers)
        current = {id(part.slice): part for pool in self._pools.values() for part in pool.slices}
        self._local: dict[str, list[PoolSlice]] = {}
        self._shared: list[tuple[ResourceSlice, PoolSlice | None]] = []
        for slice_ in ordered:
            if not _usable(slice_, features):
                continue
            part = current.get(id(slice_))
            if not slice_.spec.node_name:
                # Obsolete slices stay in this list: an unreadable node selector is fatal in any generation.
                self._shared.append((slice_, part))
            elif part is not None:
                self._local.setdefault(slice_.spec.node_name, []).append(part)
        self._counter_sets: dict[PoolId, CounterSets] = {}
        self._counter_structures: dict[Hashable, int] = {}
        self._matchers: dict[int, NodeMatcher] = {}
        self._reachable: dict[str, tuple[Node, Reachable]] = {}

    @property
    def all(self) -> tuple[Pool, ...]:
        """Every pool, sorted by driver and name."""
        return tuple(self._pools[key] for key in sorted(self._pools))

    def usable_devices(self) -> Iterator[tuple[PoolDevice, ...]]:
        """The devices that may be allocated on some node, by slice."""
        for pool in self._pools.values():
            if pool.problem is None:
                yield from (part.devices for part in pool.slices)

    def reachable(self, node: Node) -> Reachable:
        """Everything that the node can reach. Raises :class:`FatalError` if a slice's node selector can't be read."""
        cached = self._reachable.get(node.name)
        if cached is not None and (cached[0] is node or _same_facts(cached[0], node)):
            return cached[1]
        reachable = self._reach(node)
        self._reachable[node.name] = (node, reachable)
        return reachable

    def pool(self, pool: PoolId) -> Pool:
        return self._pools[pool]

    def counter_sets(self, pool: PoolId) -> CounterSets:
        """The counters of a valid pool, over all its slices (A-5.8). One object as long as the slices stay."""
        counter_sets = self._counter_sets.get(pool)
        if counter_sets is None:
            parts = self._pools[pool].slices
            devices = (device for part in parts for device in part.devices)
            slices = (part.slice for part in parts)
            counter_sets = CounterSets(
                slices, devices, self._counter_structures, shares=self._features.consumable_capacity
            )
            self._counter_sets[pool] = counter_sets
        return counter_sets

    def _reach(self, node: Node) -> Reachable:
        parts: dict[PoolId, list[PoolSlice]] = {}
        for part in self._local.get(node.name, ()):
            parts.setdefault(part.pool, []).append(part)
        for slice_, current in self._shared:
            if self._selects(slice_, node) and current is not None:
                parts.setdefault(current.pool, []).append(current)
        first: list[ReachablePool] = []
        last: list[ReachablePool] = []
        for key in sorted(parts):
            problem = self._pools[key].problem
            if problem is not None:
                first.append(ReachablePool(key, (), problem))
                continue
            in_order = sorted(parts[key], key=lambda part: part.slice.name)
            pool = ReachablePool(key, tuple(chain.from_iterable([part.devices for part in in_order])), None)
            (last if any(part.has_binding_conditions for part in in_order) else first).append(pool)
        pools = (*first, *last)
        return Reachable(
            node.name,
            node.status.declared_features,
            pools,
            tuple(chain.from_iterable([pool.devices for pool in pools])),
        )

    def _selects(self, slice_: ResourceSlice, node: Node) -> bool:
        spec = slice_.spec
        if spec.all_nodes:
            return True
        if spec.node_selector is not None:
            where = f"gather pool information: failed to perform node selection for slice {slice_.name}: "
            return self._matcher(spec.node_selector, where).matches(node)
        if spec.per_device_node_selection:
            where = "gather pool information: failed to perform node selection for device {} in slice {}: "
            return any(
                self.selects_device(device, node, where.format(device.name, slice_.name)) for device in spec.devices
            )
        return False

    def selects_device(self, device: resource_v1.Device, node: Node, where: str = "") -> bool:
        """Per-device node selection: nodeName, else allNodes, else nodeSelector, else nothing (A-4.5). Raises
        :class:`FatalError`, its text beginning with ``where``."""
        if device.node_name:
            return node.name == device.node_name
        if device.all_nodes:
            return True
        if device.node_selector is None:
            return False
        return self._matcher(device.node_selector, where).matches(node)

    def _matcher(self, selector: NodeSelector, where: str) -> NodeMatcher:
        matcher = self._matchers.get(id(selector))
        if matcher is None:
            try:
                matcher = NodeMatcher(selector)
            except NodeSelectorError as error:
                raise FatalError(
                    f"{where}failed to parse node selector {describe_selector(selector)}: {error}"
                ) from None
            self._matchers[id(selector)] = matcher
        return matcher


def _same_facts(before: Node, node: Node) -> bool:
    return (
        before.metadata.labels == node.metadata.labels
        and before.status.declared_features == node.status.declared_features
    )


def _usable(slice_: ResourceSlice, features: Features) -> bool:
    """False for slices that only a disabled feature could interpret (A-4.2, A-4.3)."""
    spec = slice_.spec
    if not features.partitionable_devices and (spec.per_device_node_selection is not None or spec.shared_counters):
        return False
    return features.compatibility_groups or not _has_groups(slice_)


def _has_groups(slice_: ResourceSlice) -> bool:
    return any(
        consumption.compatibility_groups for device in slice_.spec.devices for consumption in device.consumes_counters
    )


def _gather(slices: list[ResourceSlice], features: Features, numbers: PublishedValues) -> dict[PoolId, Pool]:
    by_pool: dict[PoolId, list[ResourceSlice]] = {}
    for slice_ in slices:
        by_pool.setdefault(PoolId(slice_.spec.driver, slice_.spec.pool.name), []).append(slice_)
    return {key: _pool(key, members, features, numbers) for key, members in by_pool.items()}


@dataclass(frozen=True, slots=True)
class NewestSlices:
    """The slices of a pool's newest generation. ``announced``: how many there should be, by the slices. ``problem``:
    why no device of them may be allocated."""

    generation: int
    slices: tuple[ResourceSlice, ...]
    announced: tuple[int, ...]
    problem: PoolProblem | None


def newest_slices(pool: PoolId, slices: Iterable[ResourceSlice], features: Features) -> NewestSlices:
    """The slices of a pool (at least one) that count, in their order (A-5.1 to A-5.4)."""
    newest, current = newest_generation(slices, generation_of)
    counted = tuple(slice_ for slice_ in current if features.compatibility_groups or not _has_groups(slice_))
    wanted = tuple(sorted({slice_.spec.pool.resource_slice_count for slice_ in current}))
    problem: PoolProblem | None = None
    if len(wanted) > 1:
        detail = f"slices of generation {newest} disagree about their number: {', '.join(map(str, wanted))}"
        problem = PoolProblem(pool, INCOMPLETE, detail)
    elif wanted != (len(counted),):
        problem = PoolProblem(pool, INCOMPLETE, f"{len(counted)} of {wanted[0]} slices of generation {newest}")
    elif fault := _fault(counted, features):
        problem = PoolProblem(pool, INVALID, fault)
    return NewestSlices(newest, counted, wanted, problem)


def _pool(key: PoolId, slices: list[ResourceSlice], features: Features, numbers: PublishedValues) -> Pool:
    newest = newest_slices(key, slices, features)
    counters = [
        slice_.spec.model_dump_json(include={"shared_counters"})
        for slice_ in newest.slices
        if slice_.spec.shared_counters
    ]
    parts = tuple(_part(key, slice_, features, counters, numbers) for slice_ in newest.slices)
    names = [device.id.device for part in parts for device in part.devices]
    positions = {name: position for position, name in enumerate(names)}
    nodes = {slice_.spec.node_name for slice_ in newest.slices}
    return Pool(key, parts, newest.problem, positions, local_node=nodes.pop() if len(nodes) == 1 else None)


def _context(slice_: ResourceSlice, counters: Sequence[str]) -> str:
    """Everything that a slice and its pool say for all devices of the slice, apart from names."""
    spec = slice_.spec.model_dump_json(exclude={"devices", "pool", "node_name", "shared_counters"}, exclude_unset=True)
    return f"{spec} {' '.join(counters)}"


def _part(
    key: PoolId, slice_: ResourceSlice, features: Features, counters: Sequence[str], numbers: PublishedValues
) -> PoolSlice:
    spec = slice_.spec
    published = () if features.partitionable_devices and spec.shared_counters else spec.devices
    context = _context(slice_, counters)
    devices = [
        PoolDevice(
            DeviceId(key.driver, key.pool, device.name), key, device, spec, *numbers.facts(key.driver, device, context)
        )
        for device in published
    ]
    return PoolSlice(slice_, key, tuple(devices), any(device.given("binding_conditions") for device in published))


def _fault(slices: Sequence[ResourceSlice], features: Features) -> str | None:
    """The first contradiction between a pool's slices, in the reference's words (A-5.4), or negative counter (AC-3)."""
    partitionable = features.partitionable_devices
    devices = [
        device
        for slice_ in slices
        if not (partitionable and slice_.spec.shared_counters)
        for device in slice_.spec.devices
    ]
    names: set[str] = set()
    for device in devices:
        if device.name in names:
            return f"duplicate device name {device.name}"
        names.add(device.name)
    if not partitionable:
        return None
    sets: dict[str, frozenset[str]] = {}
    for counter_set in (counter_set for slice_ in slices for counter_set in slice_.spec.shared_counters):
        if counter_set.name in sets:
            return f"duplicate counter set name {counter_set.name}"
        sets[counter_set.name] = frozenset(counter_set.counters)
        for counter in sorted(counter_set.counters):
            if counter_set.counters[counter].value.sign() < 0:
                return f"counter {counter} in counter set {counter_set.name} is negative"  # AC-3
    for device in devices:
        for consumption in device.consumes_counters:
            if consumption.counter_set not in sets:
                return f"counter set {consumption.counter_set} not found"
            for counter in sorted(consumption.counters):
                if counter not in sets[consumption.counter_set]:
                    return f"counter {counter} not found in counter set {consumption.counter_set}"
                if consumption.counters[counter].value.sign() < 0:
                    # AC-3
                    return (
                        f"counter {counter} of counter set {consumption.counter_set} is "
                        f"consumed negatively by device {device.name}"
                    )
    return None
