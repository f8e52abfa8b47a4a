"""The devices of a ResourceSlice and the counters they share (A-22.6, A-22.11, C-14.4)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from virt_dra.api.names import LABEL_MAX, byte_length
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import (
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCounterConsumption,
    DeviceTaint,
    NodeAllocatableMapping,
    NodeAllocatableOverhead,
    NodeAllocatableResource,
)
from virt_dra.api.semver import MAX_LENGTH, SemVer, SemVerError
from virt_dra.api.validation.capacity_policy import capacity
from virt_dra.api.validation.device_operations import BINDING_CONDITIONS_MAX, binding_conditions
from virt_dra.api.validation.field_errors import (
    Errors,
    TypedText,
    invalid,
    not_found,
    one_of,
    required,
    too_long,
    too_many,
)
from virt_dra.api.validation.formats import (
    QUALIFIED_MAX,
    declared_label,
    is_node_allocatable,
    is_qualified_name,
    items,
    label,
    map_entries,
    not_negative,
    qualified_name,
    required_by,
    shortened,
    subdomain,
    unique_items,
)
from virt_dra.api.validation.go_values import internal, versioned
from virt_dra.api.validation.node_selectors import node_selector
from virt_dra.api.validation.rules import Rules
from virt_dra.api.validation.taints import TAINTS_MAX, taint, taint_effect
from virt_dra.api.wire import present

ATTRIBUTES_AND_CAPACITIES_MAX = 32
ATTRIBUTE_VALUES_MAX = 48
ATTRIBUTE_TEXT_MAX = 64
CONSUMPTIONS_MAX = 2
COUNTERS_MAX = 32
COMPATIBILITY_GROUPS_MAX = 2

_ONE_PLACE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` "
    "is set to true in the ResourceSlice spec"
)
_NO_PLACE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if "
    "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)


def device(value: Device, path: str, *, old: Device | None, places_itself: bool, rules: Rules) -> Errors:
    """The faults of one device. ``old``: the stored device of that name; its capacity and taints, if unchanged, are not
    checked again.

    ``places_itself``: the slice has perDeviceNodeSelection.
    """
    yield from label(value.name, f"{path}.name")
    named = len(value.attributes) + len(value.capacity)
    if named > ATTRIBUTES_AND_CAPACITIES_MAX:
        yield invalid(
            path,
            named,
            f"the total number of attributes and capacities must not exceed {ATTRIBUTES_AND_CAPACITIES_MAX}",
        )
    values = sum(map(_value_count, value.attributes.values()))
    if values > ATTRIBUTE_VALUES_MAX:
        yield invalid(path, values, f"the total number of attribute values must not exceed {ATTRIBUTE_VALUES_MAX}")
    yield from _attributes(value.attributes, f"{path}.attributes")
    if value.capacity and (old is None or old.capacity != value.capacity):
        check = partial(capacity, shared=bool(value.allow_multiple_allocations), rules=rules)
        yield from map_entries(value.capacity, f"{path}.capacity", qualified_name, check, QUALIFIED_MAX)
    yield from _consumptions(value.consumes_counters, f"{path}.consumesCounters")
    yield from _place(value, old, path, places_itself)
    if value.taints and (old is None or old.taints != value.taints):
        yield from _taints(value.taints, f"{path}.taints")
    if value.binding_conditions or value.binding_failure_conditions:
        yield from binding_conditions(value, path)
    for resource, entry in value.node_allocatable_resources.items():
        yield from _node_allocatable(resource, entry, value.capacity, f"{path}.nodeAllocatableResources[{resource}]")


def declared_faults(value: Device, path: str) -> Errors:
    """The faults of a device in a list that is too long: those of rules declared on the types, which ignore limits."""
    for name, attribute in value.attributes.items():
        yield from _union(attribute, f"{path}.attributes[{name}]")
    yield from _consumptions(value.consumes_counters, f"{path}.consumesCounters", counters_max=None)
    yield from items(value.taints, f"{path}.taints", lambda taint, at: taint_effect(taint.effect, at))
    conditions, failures = value.binding_conditions, value.binding_failure_conditions
    for field, names in (("bindingConditions", conditions), ("bindingFailureConditions", failures)):
        if len(names) > BINDING_CONDITIONS_MAX:
            yield too_many(f"{path}.{field}", len(names), BINDING_CONDITIONS_MAX)
    for resource, entry in value.node_allocatable_resources.items():
        if entry.mapping is not None:
            yield from _mapping_union(entry.mapping, f"{path}.nodeAllocatableResources[{resource}].mapping")


def _taints(values: tuple[DeviceTaint, ...], path: str) -> Errors:
    """The faults of taints. The limit is a rule by hand; that of effects is declared, and applies in any case."""
    if len(values) > TAINTS_MAX:
        yield too_many(path, len(values), TAINTS_MAX)
        yield from items(values, path, lambda value, at: taint_effect(value.effect, at))
    else:
        yield from items(values, path, taint)


# --- attributes ---------------------------------------------------------------------------------------------------


def _value_count(attribute: DeviceAttribute) -> int:
    """The number of values of an attribute: the items of a list, at least one."""
    lists = (attribute.bools, attribute.ints, attribute.strings, attribute.versions)
    return sum(len(entries) for entries in lists if entries) or 1


def _attributes(attributes: Mapping[str, DeviceAttribute], path: str) -> Errors:
    for name, attribute in attributes.items():
        # Nearly all attributes are valid; paths are built only for the others.
        if not is_qualified_name(name):
            yield from qualified_name(name, path)
        if not _is_plain(attribute):
            yield from _attribute(attribute, f"{path}[{shortened(name, QUALIFIED_MAX)}]", f"{path}[{name}]")


def _is_plain(attribute: DeviceAttribute) -> bool:
    """True for exactly one scalar without a fault."""
    text = attribute.string
    if text is not None and 4 * len(text) > ATTRIBUTE_TEXT_MAX and byte_length(text) > ATTRIBUTE_TEXT_MAX:
        return False
    scalars = (attribute.int_value is not None) + (attribute.bool_value is not None) + (text is not None)
    lists = attribute.bools, attribute.ints, attribute.strings, attribute.versions
    return scalars == 1 and attribute.version is None and lists == (None, None, None, None)


def _attribute(attribute: DeviceAttribute, path: str, declared_path: str) -> Errors:
    """The faults of one attribute. The declared rule doesn't shorten names; where the paths differ, Kubernetes reports
    both rules' faults."""
    if attribute.string is not None:
        yield from _text(attribute.string, f"{path}.string")
    if attribute.version is not None:
        yield from _version(attribute.version, f"{path}.version")
    for field, listed in (("bools", attribute.bools), ("ints", attribute.ints)):
        if listed is not None and not listed:
            yield invalid(f"{path}.{field}", listed, "must not be empty if specified")
    for field, texts, check in (("strings", attribute.strings, _text), ("versions", attribute.versions, _version)):
        if texts is not None and not texts:
            yield invalid(f"{path}.{field}", texts, "must not be empty if specified")
        yield from items(texts or (), f"{path}.{field}", check)
    yield from _union(attribute, declared_path)
    given = sum(value is not None for value in _values(attribute).values())  # empty lists count as given
    if given != 1 and (len(_members(attribute)) == 1 or path != declared_path):
        yield invalid(path, internal(attribute) if given else "", "exactly one value must be specified")


def _values(attribute: DeviceAttribute) -> Mapping[str, object]:
    return {
        "int": attribute.int_value, "bool": attribute.bool_value, "string": attribute.string,
        "version": attribute.version, "ints": attribute.ints, "bools": attribute.bools, "strings": attribute.strings,
        "versions": attribute.versions,
    }  # fmt: skip


def _members(attribute: DeviceAttribute) -> list[str]:
    return [name for name, value in _values(attribute).items() if value is not None and value != ()]


def _union(attribute: DeviceAttribute, path: str) -> Errors:
    """The declared rule: exactly one value; an empty list counts as none."""
    return one_of(path, _members(attribute), _values(attribute))


def _text(text: str, path: str) -> Errors:
    if byte_length(text) > ATTRIBUTE_TEXT_MAX:
        yield too_long(path, ATTRIBUTE_TEXT_MAX)


def _version(text: str, path: str) -> Errors:
    if len(text) <= MAX_LENGTH:
        try:
            SemVer.parse(text)
        except SemVerError:
            yield invalid(path, text, "must be a string compatible with semver.org spec 2.0.0")
    yield from _text(text, path)


# --- counters -----------------------------------------------------------------------------------------------------


def counter_set(value: CounterSet, path: str) -> Errors:
    yield from required_by(declared_label, value.name, f"{path}.name")
    yield from _counters(value.counters, f"{path}.counters")


def _counters(counters: Mapping[str, Counter], path: str, limit: int | None = COUNTERS_MAX) -> Errors:
    """The faults of counters. Any quantity is valid, even a negative one: the allocator decides (A-22.12, AC-3)."""
    if not counters:
        yield required(path)
    else:
        yield from map_entries(counters, path, declared_label, lambda _, at: (), LABEL_MAX, limit)


def _consumptions(
    consumptions: tuple[DeviceCounterConsumption, ...], path: str, counters_max: int | None = COUNTERS_MAX
) -> Errors:
    """The faults of consumed counters. The allocator checks that they exist, since the set may be in another slice."""

    def consumption(entry: DeviceCounterConsumption, at: str) -> Errors:
        yield from required_by(declared_label, entry.counter_set, f"{at}.counterSet")
        yield from _counters(entry.counters, f"{at}.counters", counters_max)
        groups = entry.compatibility_groups
        yield from unique_items(
            groups, f"{at}.compatibilityGroups", declared_label, lambda group: group, COMPATIBILITY_GROUPS_MAX
        )

    yield from unique_items(
        consumptions, path, consumption, lambda entry: entry.counter_set, CONSUMPTIONS_MAX, shown=versioned
    )


# --- where the device is ------------------------------------------------------------------------------------------


def _place(value: Device, old: Device | None, path: str, places_itself: bool) -> Errors:
    if not places_itself:
        if value.node_name is not None or value.node_selector is not None or value.all_nodes is not None:
            yield invalid(path, None, _NO_PLACE)
        return
    places = []
    if value.node_name:
        places.append("`nodeName`")
        yield from subdomain(value.node_name, f"{path}.nodeName")
    elif value.node_name is not None:
        yield invalid(f"{path}.nodeName", value.node_name, "must not be empty")
    if value.node_selector is not None:
        places.append("`nodeSelector`")
        yield from node_selector(value.node_selector, f"{path}.nodeSelector")
        terms = value.node_selector.node_selector_terms
        if len(terms) > 1 and (old is None or old.node_selector != value.node_selector):
            # Kubernetes checks this only for the slice's selector, and then can't merge the device's (AC-21a).
            yield invalid(
                f"{path}.nodeSelector.nodeSelectorTerms", internal(terms), "must have exactly one node selector term"
            )
    if value.all_nodes:
        places.append("`allNodes`")
    elif value.all_nodes is not None:
        yield invalid(f"{path}.allNodes", value.all_nodes, "must be either unset or set to true")
    if not places:
        yield required(path, _ONE_PLACE)
    elif len(places) > 1:
        yield invalid(path, f"{{{', '.join(places)}}}", _ONE_PLACE)


# --- node-allocatable resources -----------------------------------------------------------------------------------


def _node_allocatable(
    resource: str, entry: NodeAllocatableResource, capacities: Mapping[str, object], path: str
) -> Errors:
    if not is_node_allocatable(resource):
        yield invalid(path, TypedText(resource), "must be a node allocatable resource name")
    if entry.mapping is None and entry.overhead is None:
        yield required(path, "at least one of mapping or overhead must be set")
    if entry.mapping is not None:
        yield from _mapping(entry.mapping, capacities, f"{path}.mapping")
    if entry.overhead is not None:
        yield from _overhead(entry.overhead, f"{path}.overhead")


def _mapping(mapping: NodeAllocatableMapping, capacities: Mapping[str, object], path: str) -> Errors:
    key, multiplier = mapping.capacity_key, mapping.capacity_multiplier
    yield from _mapping_union(mapping, path)
    if key is None and multiplier is not None:
        yield required(f"{path}.capacityKey", "capacityKey is required when capacityMultiplier is set")
    elif key == "":
        yield invalid(f"{path}.capacityKey", key, "capacityKey must not be an empty string")
    elif key is not None and key not in capacities:
        yield not_found(f"{path}.capacityKey", TypedText(key))
    if key is not None and multiplier is None:
        yield required(f"{path}.capacityMultiplier", "capacityMultiplier is required when capacityKey is set")
    if key is not None:
        yield from _positive(multiplier, f"{path}.capacityMultiplier")
    yield from _positive(mapping.device_multiplier, f"{path}.deviceMultiplier")


def _mapping_union(mapping: NodeAllocatableMapping, path: str) -> Errors:
    """The declared rule: mapped by a capacity or by the device, not both."""
    members = {"capacityKey": mapping.capacity_key, "deviceMultiplier": mapping.device_multiplier}
    return one_of(path, [*present(members)], members)


def _positive(quantity: Quantity | None, path: str) -> Errors:
    if quantity is not None and quantity.sign() <= 0:
        yield invalid(path, quantity, "must be positive")


def _overhead(overhead: NodeAllocatableOverhead, path: str) -> Errors:
    if overhead.per_pod is None and overhead.per_container is None:
        yield invalid(path, "", "at least one of perPod or perContainer must be set")
    yield from not_negative(overhead.per_pod, f"{path}.perPod")
    yield from not_negative(overhead.per_container, f"{path}.perContainer")
