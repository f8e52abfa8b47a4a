"""The features, one per module, and the ordered tables that combine them (A-7.2, A-8, A-10). Filters have no memory and
come first; checks have memory and are undone in reverse. Off selects another row, never an `if` in the search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from virt_dra.allocator.features import (
    attributes,
    binding_conditions,
    capacity,
    compatibility_groups,
    counters,
    distinct_attribute,
    in_use,
    match_attribute,
    node_operations,
    per_device_nodes,
    selectors,
    static,
    taints,
)  # fmt: skip
from virt_dra.allocator.features.attributes import Attributes
from virt_dra.allocator.features.binding_conditions import NoBindingConditions
from virt_dra.allocator.features.capacity import Capacities, CapacityFilter, Resolver, RoomFirst, SharedCapacity
from virt_dra.allocator.features.compatibility_groups import CompatibilityGroups
from virt_dra.allocator.features.counters import Counters, CountersOff
from virt_dra.allocator.features.distinct_attribute import DistinctAttribute
from virt_dra.allocator.features.in_use import InUse
from virt_dra.allocator.features.match_attribute import MatchAttribute
from virt_dra.allocator.features.per_device_nodes import PerDeviceNodes
from virt_dra.allocator.features.selectors import SelectorFilter
from virt_dra.allocator.features.taints import Taints
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import Bound, Check, Filter, PoolDevice, Request
from virt_dra.allocator.pools import Pools
from virt_dra.allocator.usage import Used
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import ResourceClaim


class DeviceCaches(Protocol):
    """The cached facts of published devices (reuse/caches.py)."""

    attributes: Attributes
    capacities: Capacities


class FeatureTable:
    """The features of one attempt on one node, in the order in which they run."""

    def __init__(
        self, used: Used, caches: DeviceCaches, pools: Pools, node: Node, features: Features, selectors: SelectorFilter
    ) -> None:
        self._features = features
        self._attributes = caches.attributes
        self._node_operations = node_operations.checks(features, node)
        self._counters, counted = _counters(used, pools, node, features)
        self.availability = InUse(used, features, selectors)
        """Runs first for every candidate, and is the first check of every claim (A-7.2, A-10.2)."""
        resolver = Resolver(caches.capacities, features)
        self._capacity = SharedCapacity(used, resolver) if features.consumable_capacity else None
        self.bounds: tuple[Bound, ...] = counted if self._capacity is None else (*counted, self._capacity)
        self.selectors = selectors
        self.filters: tuple[Filter, ...] = (
            *(() if features.device_binding_and_status else (NoBindingConditions(),)),
            selectors,
            PerDeviceNodes(pools, node),
            *(() if self._capacity is None else (CapacityFilter(resolver),)),
        )
        """For every candidate that is free, whatever is chosen."""

    def selectable(self, request: Request, device: PoolDevice) -> bool:
        """True if the device is one of those that an All request asks for, free or not (A-8, A-9.2). Raises
        FatalError."""
        return all(filter_.admits(request, device) for filter_ in self.filters)

    def checks(self, claim: ResourceClaim) -> tuple[Check, ...]:
        """The checks of one claim, in the order of A-10. A constraint with both attributes gets both checks (AC-5)."""
        checks: list[Check] = [self.availability, *self._node_operations, *self._counters]
        if self._features.device_taints:
            checks.append(Taints())
        if self._capacity is not None and _derives(claim):
            checks.append(RoomFirst(self._capacity))
        for constraint in claim.spec.devices.constraints:
            common = (constraint.requests, self._features, self._attributes, self.selectors.work)
            if constraint.match_attribute is not None:
                checks.append(MatchAttribute(constraint.match_attribute, *common))
            if constraint.distinct_attribute is not None:
                checks.append(DistinctAttribute(constraint.distinct_attribute, *common))
        if self._capacity is not None:
            checks.append(self._capacity)
        return tuple(checks)


def _derives(claim: ResourceClaim) -> bool:
    """True if requests derive attributes, so that a constraint may be an error."""
    return any(
        alternative is not None and alternative.derived_attributes
        for request in claim.spec.devices.requests
        for alternative in (request.exactly, *request.first_available)
    )


def _counters(used: Used, pools: Pools, node: Node, features: Features) -> tuple[tuple[Check, ...], tuple[Bound, ...]]:
    """The checks and bounds for counters: groups before counters; with counters off, groups don't matter (A-10.4)."""
    if not features.partitionable_devices:
        return (CountersOff(),), ()
    counters = Counters(used, pools)
    checks = (CompatibilityGroups(used, pools, node), counters) if features.compatibility_groups else (counters,)
    return checks, (counters,)


REASONS = (
    capacity.EXHAUSTED,
    match_attribute.DIFFERS,
    distinct_attribute.REPEATED,
    attributes.MISSING,
    taints.TAINTED,
    counters.INSUFFICIENT,
    counters.UNKNOWN_USE,
    compatibility_groups.INCOMPATIBLE,
    node_operations.NOT_DECLARED,
    static.FEATURE_OFF,
    capacity.TOO_SMALL,
    capacity.POLICY,
    capacity.UNKNOWN,
    in_use.IN_USE,
    in_use.TAKEN,
)
"""Reasons to refuse a device that the selectors select."""

SELECTION_REASONS = (per_device_nodes.NOT_ON_NODE, selectors.MISMATCH)
"""Reasons of devices that aren't selected on this node."""

Writer: TypeAlias = Callable[[dict[str, Any], PoolDevice], None]
"""Adds a feature's fields (by Python name) to a device's result; they depend on PoolDevice.profile only."""


def writers(features: Features) -> tuple[Writer, ...]:
    """The writers of the features that are on (A-18.1)."""
    enabled: list[Writer] = []
    if features.device_binding_and_status:
        enabled.append(binding_conditions.write)
    if features.optional_node_operations:
        enabled.append(node_operations.write)
    return tuple(enabled)
