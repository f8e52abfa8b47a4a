"""Validation of ResourcePoolStatusRequest (C-14.6), whose spec is immutable and whose status is written once."""

from __future__ import annotations

from virt_dra.api.names import byte_length
from virt_dra.api.resource_v1 import (
    PartitionTypeStatus,
    PoolStatus,
    ResourcePoolStatusRequest,
    ShareableCapacityStatus,
    ShareableSummaryStatus,
)
from virt_dra.api.validation.conditions import conditions
from virt_dra.api.validation.field_errors import Errors, forbidden, immutable, invalid, required, too_long
from virt_dra.api.validation.formats import (
    declared_driver,
    declared_pool,
    declared_subdomain,
    fully_qualified_name,
    items,
    required_by,
    unique_items,
)
from virt_dra.api.validation.go_values import internal, versioned
from virt_dra.api.validation.rules import Rules

LIMIT_MAX = 1000
POOLS_MAX = 1000
CONDITIONS_MAX = 10
SUMMARIES_MAX = 32
VALIDATION_ERROR_MAX = 256


def pool_request(obj: ResourcePoolStatusRequest, rules: Rules) -> Errors:
    spec = obj.spec
    yield from declared_driver(spec.driver, "spec.driver", limit=None)
    if spec.pool_name is not None:
        yield from declared_pool(spec.pool_name, "spec.poolName")
    yield from _at_least(spec.limit, 1, "spec.limit")
    if spec.limit is not None and spec.limit > LIMIT_MAX:
        yield invalid("spec.limit", spec.limit, f"must be less than or equal to {LIMIT_MAX}")
    attribute = spec.default_partition_type_attribute
    if attribute is not None:
        path = "spec.defaultPartitionTypeAttribute"
        if rules.gates.partitionable_devices_type:
            yield from fully_qualified_name(attribute, path)
        else:
            yield forbidden(path, "may not be set while the feature gate DRAPartitionableDevicesType is disabled")


def pool_request_update(new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest) -> Errors:
    if new.spec != old.spec:
        yield immutable("spec", None)


def pool_request_status(new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest) -> Errors:
    """The faults of a status update: a status that was written is immutable."""
    status, path = new.status, "status"
    if old.status is not None:
        if status != old.status:
            yield immutable(path, internal(status))
        return
    if status is None:
        return
    if status.pool_count is None:
        yield required(f"{path}.poolCount")
    yield from _at_least(status.pool_count, 0, f"{path}.poolCount")
    yield from items(status.pools, f"{path}.pools", _pool_status, POOLS_MAX)
    yield from conditions(status.conditions, f"{path}.conditions", CONDITIONS_MAX)


def _pool_status(status: PoolStatus, path: str) -> Errors:
    yield from declared_driver(status.driver, f"{path}.driver", limit=None)
    yield from required_by(declared_pool, status.pool_name, f"{path}.poolName")
    if status.generation == 0:
        yield required(f"{path}.generation")
    yield from _at_least(status.generation, 0, f"{path}.generation")
    yield from _at_least(status.resource_slice_count, 1, f"{path}.resourceSliceCount")
    counts = (
        ("totalDevices", status.total_devices),
        ("allocatedDevices", status.allocated_devices),
        ("availableDevices", status.available_devices),
        ("unavailableDevices", status.unavailable_devices),
    )
    for field, count in counts:
        yield from _at_least(count, 0, f"{path}.{field}")
    if status.node_name is not None:
        yield from declared_subdomain(status.node_name, f"{path}.nodeName")
    if status.validation_error is not None and byte_length(status.validation_error) > VALIDATION_ERROR_MAX:
        yield too_long(f"{path}.validationError", VALIDATION_ERROR_MAX)
    yield from unique_items(
        status.partition_summary, f"{path}.partitionSummary", _partition, _partition_key, SUMMARIES_MAX, versioned
    )
    if status.shareable_summary is not None:
        yield from _shareable(status.shareable_summary, f"{path}.shareableSummary")


def _partition_key(summary: PartitionTypeStatus) -> tuple[str, str]:
    return (summary.attribute, summary.type)


def _partition(summary: PartitionTypeStatus, path: str) -> Errors:
    for field, text in (("attribute", summary.attribute), ("type", summary.type)):
        if not text:
            yield required(f"{path}.{field}")
    for field, count in (("total", summary.total), ("allocatable", summary.allocatable)):
        if not summary.given(field):
            yield required(f"{path}.{field}")
        yield from _at_least(count, 0, f"{path}.{field}")


def _shareable(summary: ShareableSummaryStatus, path: str) -> Errors:
    counts = (
        ("fullyAvailableDevices", summary.fully_available_devices),
        ("partiallyAvailableDevices", summary.partially_available_devices),
    )
    for field, count in counts:
        if count is None:
            yield required(f"{path}.{field}")
        yield from _at_least(count, 0, f"{path}.{field}")
    yield from items(summary.capacity, f"{path}.capacity", _shareable_capacity, SUMMARIES_MAX)


def _shareable_capacity(entry: ShareableCapacityStatus, path: str) -> Errors:
    if not entry.name:
        yield required(f"{path}.name")
    for field, quantity in (("total", entry.total), ("consumed", entry.consumed), ("available", entry.available)):
        if quantity is None:
            yield required(f"{path}.{field}")


def _at_least(number: int | None, least: int, path: str) -> Errors:
    if number is not None and number < least:
        yield invalid(path, number, f"must be greater than or equal to {least}")
