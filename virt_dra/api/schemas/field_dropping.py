"""Dropping of disabled fields: those of a gate that is off, unless the stored object uses the feature already (A-2.5,
C-13.4).

    without_disabled_fields(new, old, gates)    for what is created (``old`` None) or updated: everything but status
    without_disabled_status(new, old, gates)    for an update of status

Pure. Dropping never refuses; what is left is validated as if it had been written so. "Uses" is asked of the whole
object: where one device has a taint, taints of the others are kept, too. Each feature is one function here: the fields
it owns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from virt_dra.api.core_v1 import Pod, PodStatus
from virt_dra.api.feature_gates import FeatureGates
from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.api.resource_v1 import (
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourcePoolStatusRequest,
    ResourceSlice,
    ResourceSliceSpec,
)
from virt_dra.api.scheduling_v1 import PodGroup, PodGroupSpec, Workload, WorkloadSpec
from virt_dra.api.wire import Wire, changed_items

W = TypeVar("W", bound=Wire)

_LISTS = ("ints", "bools", "strings", "versions")
_CONDITIONS = ("binding_conditions", "binding_failure_conditions")
_OWN_PLACE = ("node_name", "node_selector", "all_nodes")


def without_disabled_fields(new: ObjectT, old: ObjectT | None, gates: FeatureGates) -> ObjectT:
    """``new`` without the fields outside of status that belong to a gate that is off; itself if there are none."""
    changed: TypedObject = new
    if isinstance(new, ResourceClaim):
        devices = old.spec.devices if isinstance(old, ResourceClaim) else None
        spec = new.spec.replacing(devices=_claim_without(new.spec.devices, devices, gates))
        changed = new.replacing(spec=spec)
    elif isinstance(new, ResourceClaimTemplate):
        devices = old.spec.spec.devices if isinstance(old, ResourceClaimTemplate) else None
        inner = new.spec.spec.replacing(devices=_claim_without(new.spec.spec.devices, devices, gates))
        changed = new.replacing(spec=new.spec.replacing(spec=inner))
    elif isinstance(new, ResourceSlice):
        changed = new.replacing(
            spec=_slice_without(new.spec, old.spec if isinstance(old, ResourceSlice) else None, gates)
        )
    elif isinstance(new, DeviceClass):
        used = isinstance(old, DeviceClass) and old.spec.extended_resource_name is not None
        if not gates.extended_resource and not used:
            changed = new.replacing(spec=new.spec.without("extended_resource_name"))
    elif isinstance(new, ResourcePoolStatusRequest):
        used = isinstance(old, ResourcePoolStatusRequest) and old.spec.default_partition_type_attribute is not None
        if not gates.partitionable_devices_type and not used:
            changed = new.replacing(spec=new.spec.without("default_partition_type_attribute"))
    elif isinstance(new, Pod):
        if not gates.generic_workload and not (isinstance(old, Pod) and old.spec.scheduling_group is not None):
            changed = new.replacing(spec=new.spec.without("scheduling_group"))
    elif isinstance(new, PodGroup):
        changed = new.replacing(spec=_group_without(new.spec, old.spec if isinstance(old, PodGroup) else None, gates))
    elif isinstance(new, Workload):
        changed = new.replacing(
            spec=_workload_without(new.spec, old.spec if isinstance(old, Workload) else None, gates)
        )
    return changed  # type: ignore[return-value]  # each branch keeps the class of new, which mypy can't infer


def without_disabled_status(new: ObjectT, old: ObjectT, gates: FeatureGates) -> ObjectT:
    """``new`` without the fields of status that belong to a gate that is off, as claims, pods and PodGroups have."""
    if isinstance(new, PodGroup) and isinstance(old, PodGroup):
        dropped = not gates.workload_resource_claims and not old.spec.resource_claims
        return new.replacing(status=new.status.without("resource_claim_statuses")) if dropped else new
    if isinstance(new, Pod) and isinstance(old, Pod):
        return new.replacing(status=_pod_status_without(new.status, old.status, gates))
    if not isinstance(new, ResourceClaim) or not isinstance(old, ResourceClaim):
        return new
    status, before = new.status, _results(old.status)
    if not gates.device_status and not old.status.devices:
        status = status.without("devices")
    if not gates.admin_access and not _admin_in_use(old):
        status = _with_results(status, lambda result: result.without("admin_access"))
    if not gates.consumable_capacity and not _shares_in_use(old):
        status = _with_results(status, lambda result: result.without("share_id", "consumed_capacity"))
        status = status.replacing(devices=changed_items(status.devices, lambda device: device.without("share_id")))
    # Unlike in slices, the gate of device status doesn't matter here.
    if not gates.device_binding_conditions and not any(_any(result, *_CONDITIONS) for result in before):
        status = _with_results(status, lambda result: result.without(*_CONDITIONS))
    if not gates.optional_node_operations and not any(result.skip_node_operations for result in before):
        status = _with_results(status, lambda result: result.without("skip_node_operations"))
    return new.replacing(status=status)


# --- pod groups ---------------------------------------------------------------------------------------------------


def _group_without(new: PodGroupSpec, old: PodGroupSpec | None, gates: FeatureGates) -> PodGroupSpec:
    owned = (
        ("scheduling_constraints", gates.topology_aware_workload_scheduling),
        ("preemption_policy", gates.pod_group_preemption_policy),
        ("parent_composite_pod_group_name", gates.composite_pod_group),
    )
    for field, on in owned:
        if not on and (old is None or getattr(old, field) is None):
            new = new.without(field)
    if not gates.workload_resource_claims and (old is None or not old.resource_claims):
        new = new.without("resource_claims")
    return new


def _workload_without(new: WorkloadSpec, old: WorkloadSpec | None, gates: FeatureGates) -> WorkloadSpec:
    if not gates.composite_pod_group and (old is None or not old.composite_pod_group_templates):
        new = new.without("composite_pod_group_templates")
    before = () if old is None else old.pod_group_templates
    owned = (
        ("scheduling_constraints", gates.topology_aware_workload_scheduling),
        ("preemption_policy", gates.pod_group_preemption_policy),
        ("resource_claims", gates.workload_resource_claims),
    )
    dropped = [field for field, on in owned if not on and not any(getattr(template, field) for template in before)]
    return new.replacing(
        pod_group_templates=changed_items(new.pod_group_templates, lambda template: template.without(*dropped))
    )


# --- claims -------------------------------------------------------------------------------------------------------


def _claim_without(new: DeviceClaim, old: DeviceClaim | None, gates: FeatureGates) -> DeviceClaim:
    before = tuple(_wants(old)) if old is not None else ()
    if not gates.prioritized_list and not any(isinstance(want, DeviceSubRequest) for want in before):
        new = new.replacing(requests=changed_items(new.requests, lambda request: request.without("first_available")))
    if not gates.device_taints and not any(want.tolerations for want in before):
        new = _without_want(new, "tolerations")
    if not gates.admin_access and not _asks_admin(old):
        new = _without_want(new, "admin_access")
    if not gates.consumable_capacity and not _asks_capacity(old):
        new = new.replacing(
            constraints=changed_items(new.constraints, lambda constraint: constraint.without("distinct_attribute"))
        )
        new = _without_want(new, "capacity")
    if not gates.derived_attributes and not any(want.derived_attributes for want in before):
        new = _without_want(new, "derived_attributes")
    return new


def _wants(claim: DeviceClaim) -> Iterator[ExactDeviceRequest | DeviceSubRequest]:
    for request in claim.requests:
        if request.exactly is not None:
            yield request.exactly
        yield from request.first_available


def _without_want(claim: DeviceClaim, field: str) -> DeviceClaim:
    """The claim without a field in its exact requests and alternatives."""

    def bare(request: DeviceRequest) -> DeviceRequest:
        exactly = None if request.exactly is None else request.exactly.without(field)
        return request.replacing(
            exactly=exactly, first_available=changed_items(request.first_available, lambda sub: sub.without(field))
        )

    return claim.replacing(requests=changed_items(claim.requests, bare))


def _asks_admin(claim: DeviceClaim | None) -> bool:
    return claim is not None and any(
        want.admin_access is not None for want in _wants(claim) if isinstance(want, ExactDeviceRequest)
    )


def _asks_capacity(claim: DeviceClaim | None) -> bool:
    if claim is None:
        return False
    return any(entry.distinct_attribute is not None for entry in claim.constraints) or any(
        want.capacity is not None for want in _wants(claim)
    )


# --- the status of claims -----------------------------------------------------------------------------------------


def _results(status: ResourceClaimStatus) -> tuple[DeviceRequestAllocationResult, ...]:
    return () if status.allocation is None else status.allocation.devices.results


def _with_results(
    status: ResourceClaimStatus, change: Callable[[DeviceRequestAllocationResult], DeviceRequestAllocationResult]
) -> ResourceClaimStatus:
    if status.allocation is None:
        return status
    devices = status.allocation.devices
    return status.replacing(
        allocation=status.allocation.replacing(
            devices=devices.replacing(results=changed_items(devices.results, change))
        )
    )


def _admin_in_use(claim: ResourceClaim) -> bool:
    return _asks_admin(claim.spec.devices) or any(result.admin_access is not None for result in _results(claim.status))


def _shares_in_use(claim: ResourceClaim) -> bool:
    return (
        _asks_capacity(claim.spec.devices)
        or any(result.share_id is not None or result.consumed_capacity for result in _results(claim.status))
        or any(device.share_id is not None for device in claim.status.devices)
    )


def _pod_status_without(new: PodStatus, old: PodStatus, gates: FeatureGates) -> PodStatus:
    if not gates.extended_resource and old.extended_resource_claim_status is None:
        new = new.without("extended_resource_claim_status")
    if not gates.node_allocatable_resources and not old.node_allocatable_resource_claim_statuses:
        new = new.without("node_allocatable_resource_claim_statuses")
    return new


# --- slices -------------------------------------------------------------------------------------------------------


def _slice_without(new: ResourceSliceSpec, old: ResourceSliceSpec | None, gates: FeatureGates) -> ResourceSliceSpec:
    before = old.devices if old is not None else ()
    if not gates.device_taints and not any(device.taints for device in before):
        new = _with_devices(new, lambda device: device.without("taints"))
    if not gates.partitionable_devices and not _partitioned(old):
        new = new.without("shared_counters", "per_device_node_selection")
        new = _with_devices(new, lambda device: device.without("consumes_counters", *_OWN_PLACE))
    binding = gates.device_binding_conditions and gates.device_status
    if not binding and not any(_any(device, *_CONDITIONS) or device.binds_to_node is not None for device in before):
        new = _with_devices(new, lambda device: device.without("binds_to_node", *_CONDITIONS))
    if not gates.consumable_capacity and not any(map(_shareable, before)):
        new = _with_devices(new, _unshared)
    if not gates.device_compatibility_groups and not any(
        use.compatibility_groups for device in before for use in device.consumes_counters
    ):
        new = _with_devices(new, _ungrouped)
    if not gates.node_allocatable_resources and not any(device.node_allocatable_resources for device in before):
        new = _with_devices(new, lambda device: device.without("node_allocatable_resources"))
    if not gates.list_type_attributes and not any(
        _is_list(value) for device in before for value in device.attributes.values()
    ):
        new = _with_devices(new, lambda device: device.replacing(attributes=_values(device.attributes, _scalar)))
    if not gates.partitionable_devices_type and (old is None or old.partition_type_attribute is None):
        new = new.without("partition_type_attribute")
    if not gates.optional_node_operations and (old is None or not old.skip_node_operations):
        new = new.without("skip_node_operations")
    return new


def _with_devices(spec: ResourceSliceSpec, change: Callable[[Device], Device]) -> ResourceSliceSpec:
    return spec.replacing(devices=changed_items(spec.devices, change))


def _partitioned(spec: ResourceSliceSpec | None) -> bool:
    if spec is None:
        return False
    if spec.shared_counters or spec.per_device_node_selection is not None:
        return True
    return any(device.consumes_counters or _any(device, *_OWN_PLACE) for device in spec.devices)


def _shareable(device: Device) -> bool:
    return device.allow_multiple_allocations is not None or any(
        entry.request_policy is not None for entry in device.capacity.values()
    )


def _unshared(device: Device) -> Device:
    def plain(entry: DeviceCapacity) -> DeviceCapacity:
        return entry.without("request_policy")

    return device.without("allow_multiple_allocations").replacing(capacity=_values(device.capacity, plain))


def _ungrouped(device: Device) -> Device:
    return device.replacing(
        consumes_counters=changed_items(device.consumes_counters, lambda use: use.without("compatibility_groups"))
    )


def _is_list(attribute: DeviceAttribute) -> bool:
    return any(getattr(attribute, field) is not None for field in _LISTS)


def _scalar(attribute: DeviceAttribute) -> DeviceAttribute:
    return attribute.without(*_LISTS)


# --- parts --------------------------------------------------------------------------------------------------------


def _any(owner: Wire, *fields: str) -> bool:
    """True if one of these fields is present; a list must have entries."""
    return any(getattr(owner, field) not in (None, ()) for field in fields)


def _values(entries: dict[str, W], change: Callable[[W], W]) -> dict[str, W]:
    changed = {name: change(entry) for name, entry in entries.items()}
    return entries if all(changed[name] is entry for name, entry in entries.items()) else changed
