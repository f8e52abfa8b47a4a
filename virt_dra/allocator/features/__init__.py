"""The features, one per module, and the ordered tables that combine them (A-7.2, A-8, A-10).

Filters have no memory and come first; checks have memory and are undone in reverse. Off selects another row, never an
`if` in the search. Prioritized list and allocation mode are not here: they shape the search (requests.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from virt_dra.allocator.features import binding_conditions, node_operations
from virt_dra.allocator.features.attributes import MISSING, Attributes
from virt_dra.allocator.features.binding_conditions import NoBindingConditions
from virt_dra.allocator.features.capacity import (
    EXHAUSTED,
    POLICY,
    TOO_SMALL,
    UNKNOWN,
    Capacities,
    CapacityFilter,
    Resolver,
    RoomFirst,
    SharedCapacity,
)
from virt_dra.allocator.features.compatibility_groups import INCOMPATIBLE, CompatibilityGroups
from virt_dra.allocator.features.counters import INSUFFICIENT, UNKNOWN_USE, Counters, CountersOff
from virt_dra.allocator.features.distinct_attribute import REPEATED, DistinctAttribute
from virt_dra.allocator.features.in_use import IN_USE, TAKEN, InUse
from virt_dra.allocator.features.match_attribute import DIFFERS, MatchAttribute
from virt_dra.allocator.features.node_operations import NOT_DECLARED
from virt_dra.allocator.features.per_device_nodes import NOT_ON_NODE, PerDeviceNodes
from virt_dra.allocator.features.selectors import MISMATCH, SelectorFilter
from virt_dra.allocator.features.static import FEATURE_OFF
from virt_dra.allocator.features.taints import TAINTED, Taints
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import Bound, Check, Device, Filter, Request
from virt_dra.allocator.pools import Pools
from virt_dra.allocator.usage import Used
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import ResourceClaim


class DeviceCaches(Protocol):
    """The cached facts of published devices (reuse/caches.py)."""

    attributes: Attributes
    capacities: Capacities


class FeatureTable:
    """The features of one attempt on one node, in the order in which they are asked."""

    def __init__(self, used: Used, caches: DeviceCaches, pools: Pools, node: Node, features: Features, selectors: SelectorFilter) -> None:
        self._features = features
        self._attributes = caches.attributes
        self._node_operations = node_operations.checks(features, node)
        self._counters, counted = _counters(used, pools, node, features)
        self.availability = InUse(used, features, selectors.matches)
        """Asked first, of every candidate, and the first check of every claim (A-7.2, A-10.2)."""
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
        """Asked of every candidate that is free, whatever is chosen."""

    def selectable(self, request: Request, device: Device) -> bool:
        """Whether the device is one of those that an All request asks for, free or not (A-8, A-9.2). Raises FatalError."""
        return all(each.admits(request, device) for each in self.filters)

    def checks(self, claim: ResourceClaim) -> tuple[Check, ...]:
        """The stateful part for one claim, in the order of A-10. Constraints with both kinds apply both (AC-5)."""
        checks: list[Check] = [self.availability, *self._node_operations, *self._counters]
        if self._features.device_taints:
            checks.append(Taints())
        if self._capacity is not None and _derives(claim):
            checks.append(RoomFirst(self._capacity))
        for constraint in claim.spec.devices.constraints:
            common = (constraint.requests, self._features, self._attributes, self.selectors.interrupt)
            if constraint.match_attribute is not None:
                checks.append(MatchAttribute(constraint.match_attribute, *common))
            if constraint.distinct_attribute is not None:
                checks.append(DistinctAttribute(constraint.distinct_attribute, *common))
        if self._capacity is not None:
            checks.append(self._capacity)
        return tuple(checks)


def _derives(claim: ResourceClaim) -> bool:
    """Whether a constraint may be an error."""
    wanted = [each for request in claim.spec.devices.requests for each in (request.exactly, *request.first_available) if each is not None]
    return any(each.derived_attributes for each in wanted)


def _counters(used: Used, pools: Pools, node: Node, features: Features) -> tuple[tuple[Check, ...], tuple[Bound, ...]]:
    """A-10.4: groups before counters; with counters off, groups don't matter."""
    if not features.partitionable_devices:
        return (CountersOff(),), ()
    counters = Counters(used, pools)
    found = (CompatibilityGroups(used, pools, node), counters) if features.compatibility_groups else (counters,)
    return found, (counters,)


REASONS = (
    *(EXHAUSTED, DIFFERS, REPEATED, MISSING, TAINTED, INSUFFICIENT, UNKNOWN_USE, INCOMPATIBLE, NOT_DECLARED, FEATURE_OFF),
    *(TOO_SMALL, POLICY, UNKNOWN, IN_USE, TAKEN),
)
"""Reasons to refuse a device that the selectors select, last check first: an explanation names the device that came furthest."""

SELECTION_REASONS = (NOT_ON_NODE, MISMATCH)
"""Reasons of devices that aren't selected on this node."""

Writer: TypeAlias = Callable[[dict[str, Any], Device], None]
"""Adds to the fields (Python names) of a device's result what a feature has to say about all devices alike (model.Device)."""


def writers(features: Features) -> tuple[Writer, ...]:
    """What the features write into results (A-18.1)."""
    found: list[Writer] = []
    if features.device_binding_and_status:
        found.append(binding_conditions.write)
    if features.optional_node_operations:
        found.append(node_operations.write)
    return tuple(found)
