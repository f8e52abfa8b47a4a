"""Dropping of disabled fields: those of a gate that is off, unless the stored object uses the feature already (A-2.5,
C-13.4).

    without_disabled_fields(new, old, gates)    for what is created (``old`` None) or updated: everything but status
    without_disabled_status(new, old, gates)    for an update of status

Pure. Dropping never refuses; what is left is validated as if it had been written so. "Uses" is asked of the whole
object: where one device has a taint, taints of the others are kept, too. Each feature is one row here: its gate and the
fields it owns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.feature_gates import FeatureGates
from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.api.resource_v1 import (
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourcePoolStatusRequest,
    ResourceSlice,
)
from virt_dra.api.scheduling_v1 import PodGroup, Workload
from virt_dra.api.wire import Wire, changed_items


@dataclass(frozen=True)
class _Fields:
    """Fields that stand side by side, and the names on the way to them, of which some are of lists and maps."""

    way: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def at(cls, text: str) -> _Fields:
        """As ``spec.devices.node_name all_nodes``."""
        *way, names = text.split(".")
        return cls(tuple(way), tuple(names.split()))


@dataclass(frozen=True)
class _Feature:
    gates: tuple[str, ...]
    """It is on if all of these are."""

    owned: tuple[_Fields, ...]
    shown_by: tuple[_Fields, ...]
    """A stored object that has one of these uses it."""

    def on(self, gates: FeatureGates) -> bool:
        return all(getattr(gates, gate) for gate in self.gates)


def _feature(gates: str, *owned: str, shown_by: tuple[str, ...] = ()) -> _Feature:
    """The feature with its fields as ``spec.devices.taints``; those show that it is used, too, unless said else."""
    return _Feature(tuple(gates.split()), tuple(map(_Fields.at, owned)), tuple(map(_Fields.at, shown_by or owned)))


def _features_of_requests(devices: str) -> tuple[_Feature, ...]:
    exactly, sub = f"{devices}.requests.exactly", f"{devices}.requests.first_available"
    return (
        _feature("prioritized_list", sub),
        _feature("device_taints", f"{exactly}.tolerations", f"{sub}.tolerations"),
        _feature("admin_access", f"{exactly}.admin_access"),
        _feature(
            "consumable_capacity", f"{devices}.constraints.distinct_attribute", f"{exactly}.capacity", f"{sub}.capacity"
        ),
        _feature("derived_attributes", f"{exactly}.derived_attributes", f"{sub}.derived_attributes"),
    )


_CONDITIONS: Final = "binding_conditions binding_failure_conditions"
_FIELDS: Final[Mapping[type[TypedObject], tuple[_Feature, ...]]] = {
    ResourceClaim: _features_of_requests("spec.devices"),
    ResourceClaimTemplate: _features_of_requests("spec.spec.devices"),
    ResourceSlice: (
        _feature("device_taints", "spec.devices.taints"),
        _feature(
            "partitionable_devices",
            "spec.shared_counters per_device_node_selection",
            "spec.devices.consumes_counters node_name node_selector all_nodes",
        ),
        _feature("device_binding_conditions device_status", f"spec.devices.binds_to_node {_CONDITIONS}"),
        _feature(
            "consumable_capacity", "spec.devices.allow_multiple_allocations", "spec.devices.capacity.request_policy"
        ),
        _feature("device_compatibility_groups", "spec.devices.consumes_counters.compatibility_groups"),
        _feature("node_allocatable_resources", "spec.devices.node_allocatable_resources"),
        _feature("list_type_attributes", "spec.devices.attributes.ints bools strings versions"),
        _feature("partitionable_devices_type", "spec.partition_type_attribute"),
        _feature("optional_node_operations", "spec.skip_node_operations"),
    ),
    DeviceClass: (_feature("extended_resource", "spec.extended_resource_name"),),
    ResourcePoolStatusRequest: (_feature("partitionable_devices_type", "spec.default_partition_type_attribute"),),
    Pod: (_feature("generic_workload", "spec.scheduling_group"),),
    PodGroup: (
        _feature("topology_aware_workload_scheduling", "spec.scheduling_constraints"),
        _feature("pod_group_preemption_policy", "spec.preemption_policy"),
        _feature("composite_pod_group", "spec.parent_composite_pod_group_name"),
        _feature("workload_resource_claims", "spec.resource_claims"),
    ),
    Workload: (
        _feature("composite_pod_group", "spec.composite_pod_group_templates"),
        _feature("topology_aware_workload_scheduling", "spec.pod_group_templates.scheduling_constraints"),
        _feature("pod_group_preemption_policy", "spec.pod_group_templates.preemption_policy"),
        _feature("workload_resource_claims", "spec.pod_group_templates.resource_claims"),
    ),
}
_RESULTS: Final = "status.allocation.devices.results"
_ADMIN: Final = "spec.devices.requests.exactly.admin_access"
_SHARES: Final = (f"{_RESULTS}.share_id consumed_capacity", "status.devices.share_id")
_CAPACITY: Final = (
    "spec.devices.constraints.distinct_attribute",
    "spec.devices.requests.exactly.capacity",
    "spec.devices.requests.first_available.capacity",
)
_STATUS: Final[Mapping[type[TypedObject], tuple[_Feature, ...]]] = {
    ResourceClaim: (
        _feature("device_status", "status.devices"),
        _feature("admin_access", f"{_RESULTS}.admin_access", shown_by=(_ADMIN, f"{_RESULTS}.admin_access")),
        _feature("consumable_capacity", *_SHARES, shown_by=(*_CAPACITY, *_SHARES)),
        # Unlike in slices, the gate of device status doesn't matter here.
        _feature("device_binding_conditions", f"{_RESULTS}.{_CONDITIONS}"),
        _feature("optional_node_operations", f"{_RESULTS}.skip_node_operations"),
    ),
    Pod: (
        _feature("extended_resource", "status.extended_resource_claim_status"),
        _feature("node_allocatable_resources", "status.node_allocatable_resource_claim_statuses"),
    ),
    PodGroup: (
        _feature("workload_resource_claims", "status.resource_claim_statuses", shown_by=("spec.resource_claims",)),
    ),
}


def without_disabled_fields(new: ObjectT, old: ObjectT | None, gates: FeatureGates) -> ObjectT:
    """``new`` without the fields outside of status that belong to a gate that is off; itself if there are none."""
    return _without_disabled(new, old, gates, _FIELDS)


def without_disabled_status(new: ObjectT, old: ObjectT, gates: FeatureGates) -> ObjectT:
    """``new`` without the fields of status that belong to a gate that is off, as claims, pods and PodGroups have."""
    return _without_disabled(new, old, gates, _STATUS) if type(old) is type(new) else new


def _without_disabled(
    new: ObjectT,
    old: TypedObject | None,
    gates: FeatureGates,
    features: Mapping[type[TypedObject], tuple[_Feature, ...]],
) -> ObjectT:
    before = [old] if type(old) is type(new) else []
    for feature in features.get(type(new), ()):
        if not feature.on(gates) and not any(_has(before, fields) for fields in feature.shown_by):
            for fields in feature.owned:
                new = _without(new, fields.way, fields.names)
    return new


def _has(owners: Iterable[Any], fields: _Fields) -> bool:
    """Whether one of the fields is present; a list must have entries."""
    for name in fields.way:
        owners = [item for owner in owners for item in _items(getattr(owner, name))]
    return any(_differs(owner, name) for owner in owners for name in fields.names)


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, tuple):
        return value
    return () if value is None else (value,)


def _differs(owner: Wire, field: str) -> bool:
    if not owner.given(field):
        return False
    return bool(getattr(owner, field) != type(owner).model_fields[field].get_default(call_default_factory=True))


def _without(owner: Any, way: tuple[str, ...], names: tuple[str, ...]) -> Any:
    """It, or its items, without the fields; itself if there are none."""
    if isinstance(owner, dict):
        changed = {name: _without(item, way, names) for name, item in owner.items()}
        return owner if all(changed[name] is item for name, item in owner.items()) else changed
    if isinstance(owner, tuple):
        return changed_items(owner, lambda item: _without(item, way, names))
    if owner is None:
        return None
    if not way:
        return owner.without(*names)
    return owner.replacing(**{way[0]: _without(getattr(owner, way[0]), way[1:], names)})
