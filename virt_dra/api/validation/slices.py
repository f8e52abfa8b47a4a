"""Validation of ResourceSlices (A-22.6, A-22.7, C-14.4). The allocator checks that consumed counters exist, since
counter sets may be in other slices.
"""

from __future__ import annotations

from virt_dra.api.resource_v1 import Device, ResourcePool, ResourceSlice, ResourceSliceSpec
from virt_dra.api.validation.device_operations import skipped_operations
from virt_dra.api.validation.devices import counter_set, declared_faults, device
from virt_dra.api.validation.field_errors import Errors, forbidden, immutable, invalid, required
from virt_dra.api.validation.formats import (
    driver,
    fully_qualified_name,
    is_qualified_name,
    items,
    pool,
    subdomain,
    unique_items,
)
from virt_dra.api.validation.go_values import internal, versioned
from virt_dra.api.validation.node_selectors import node_selector
from virt_dra.api.validation.rules import Rules

DEVICES_MAX = 128
ADVANCED_DEVICES_MAX = 64
"""The limit as soon as one device has taints, consumes counters or has a list attribute."""
COUNTER_SETS_MAX = 8

_ONE_PLACE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_UNSET_OR_TRUE = "must be either unset or set to true"


def resource_slice(obj: ResourceSlice, old: ResourceSlice | None, rules: Rules) -> Errors:
    """The faults of a slice; ``old`` is the object that an update replaces, None on creation."""
    spec, path = obj.spec, "spec"
    yield from driver(spec.driver, f"{path}.driver")
    yield from _pool(spec.pool, f"{path}.pool")
    if old is not None:
        if spec.driver != old.spec.driver:
            yield immutable(f"{path}.driver", spec.driver)
        if spec.pool.name != old.spec.pool.name:
            yield immutable(f"{path}.pool.name", spec.pool.name)
        if spec.node_name != old.spec.node_name:
            yield immutable(f"{path}.nodeName", spec.node_name)
    yield from _place(spec, path)
    if spec.given("shared_counters") and spec.given("devices"):  # even if one is empty
        yield invalid(path, "", "only one of `sharedCounters` or `devices` is allowed")
    stored = {entry.name: entry for entry in old.spec.devices} if old is not None else {}
    places_itself = bool(spec.per_device_node_selection)

    def one_device(entry: Device, at: str) -> Errors:
        yield from device(entry, at, old=stored.get(entry.name), places_itself=places_itself, rules=rules)

    limit = ADVANCED_DEVICES_MAX if any(map(_is_advanced, spec.devices)) else DEVICES_MAX
    yield from unique_items(spec.devices, f"{path}.devices", one_device, lambda entry: entry.name, limit)
    if len(spec.devices) > limit and not (old is not None and spec.devices == old.spec.devices):
        yield from items(spec.devices, f"{path}.devices", declared_faults)
    sets = spec.shared_counters
    yield from unique_items(
        sets, f"{path}.sharedCounters", counter_set, lambda entry: entry.name, COUNTER_SETS_MAX, versioned
    )
    if spec.partition_type_attribute is not None:
        unchanged = old is not None and spec.partition_type_attribute == old.spec.partition_type_attribute
        yield from _partition_type(spec, spec.partition_type_attribute, path, rules, unchanged=unchanged)
    yield from skipped_operations(spec.skip_node_operations, f"{path}.skipNodeOperations")


def _pool(value: ResourcePool, path: str) -> Errors:
    yield from pool(value.name, f"{path}.name")
    if value.generation < 0:
        yield invalid(f"{path}.generation", value.generation, "must be greater than or equal to zero")
    if value.resource_slice_count <= 0:
        yield invalid(f"{path}.resourceSliceCount", value.resource_slice_count, "must be greater than zero")


def _place(spec: ResourceSliceSpec, path: str) -> Errors:
    """The faults of the devices' place: exactly one of four fields must be set."""
    places = []
    if spec.node_name:
        places.append("`nodeName`")
        yield from subdomain(spec.node_name, f"{path}.nodeName")
    elif spec.node_name is not None:
        yield invalid(f"{path}.nodeName", spec.node_name, "must be either unset or set to a non-empty string")
    if spec.node_selector is not None:
        places.append("`nodeSelector`")
        yield from node_selector(spec.node_selector, f"{path}.nodeSelector")
        terms = spec.node_selector.node_selector_terms
        if len(terms) != 1:
            shown = internal(terms) if spec.node_selector.given("node_selector_terms") else None
            yield invalid(f"{path}.nodeSelector.nodeSelectorTerms", shown, "must have exactly one node selector term")
    for field, value in (("allNodes", spec.all_nodes), ("perDeviceNodeSelection", spec.per_device_node_selection)):
        if value:
            places.append(f"`{field}`")
        elif value is not None:
            yield invalid(f"{path}.{field}", value, _UNSET_OR_TRUE)
    if not places:
        yield required(path, _ONE_PLACE)
    elif len(places) > 1:
        yield invalid(path, f"{{{', '.join(places)}}}", f"{_ONE_PLACE}, but multiple fields are set")


def _is_advanced(value: Device) -> bool:
    if value.taints or value.consumes_counters:
        return True
    return any(
        attribute.bools is not None
        or attribute.ints is not None
        or attribute.strings is not None
        or attribute.versions is not None
        for attribute in value.attributes.values()
    )


def _partition_type(spec: ResourceSliceSpec, name: str, path: str, rules: Rules, *, unchanged: bool) -> Errors:
    """The faults of partition types: every counter-consuming device has its type as a string. The full name wins over
    the bare one. ``unchanged``: the stored name is kept, also while its gate is off.
    """
    field = f"{path}.partitionTypeAttribute"
    if not unchanged:
        if not rules.gates.partitionable_devices_type:
            yield forbidden(field, "may not be set while the feature gate DRAPartitionableDevicesType is disabled")
            return
        yield from fully_qualified_name(name, field)
    if not any(entry.consumes_counters for entry in spec.devices):
        yield invalid(field, name, "may only be set on a slice which declares devices that consume counters")
        return
    if "/" not in name or not is_qualified_name(name):  # a domain in upper case passes the checks below
        return
    bare = name.removeprefix(f"{spec.driver}/")
    for index, entry in enumerate(spec.devices):
        if not entry.consumes_counters:
            continue
        at = f"{path}.devices[{index}].attributes[{name}]"
        attribute = entry.attributes.get(name, entry.attributes.get(bare))
        if attribute is None:
            yield required(
                at, "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"
            )
        elif attribute.string is None:
            yield invalid(
                at, internal(attribute), "must be a string value because `partitionTypeAttribute` names this attribute"
            )
