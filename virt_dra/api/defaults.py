"""The defaults that an API server sets on every write (A-22.4, C-2.5). Pure: the time is passed in as text.

Kinds that are not listed have no defaults here; a pod's own (restart policy and the like) are not this project's
business.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Final, TypeVar, cast

from virt_dra.api.meta import ObjectT, TypedObject, format_time, parse_time
from virt_dra.api.resource_v1 import (
    EXACT_COUNT,
    AllocationResult,
    Counter,
    Device,
    DeviceCapacity,
    DeviceClaim,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSubRequest,
    DeviceTaint,
    DeviceTaintRule,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourcePoolStatusRequest,
    ResourceSlice,
)
from virt_dra.api.scheduling_v1 import DisruptionMode, PodGroup, PriorityClass
from virt_dra.api.wire import Wire, changed_items

TOLERATION_OPERATOR = "Equal"
POOL_REQUEST_LIMIT = 100

W = TypeVar("W", bound=Wire)
CountedRequest = TypeVar("CountedRequest", ExactDeviceRequest, DeviceSubRequest)
Measured = TypeVar("Measured", DeviceCapacity, Counter)
Tolerant = TypeVar("Tolerant", ExactDeviceRequest, DeviceSubRequest, DeviceRequestAllocationResult)


EPOCH: Final = "1970-01-01T00:00:00Z"
"""The time at which objects count as written that come from a file."""


def apply_defaults(obj: ObjectT, now: str) -> ObjectT:
    """The object with its implied values written out. ``now`` is RFC 3339; times are truncated to whole seconds.

    What is there already is kept, and an object without anything to fill in comes back as it is (the same one).
    Raises ValueError if ``now`` is not a time.
    """
    return cast("ObjectT", _with_defaults(obj, format_time(parse_time(now))))


def defaulted(obj: ObjectT) -> ObjectT:
    """:func:`apply_defaults` for an object that comes from a file, not from a write at some time."""
    return apply_defaults(obj, EPOCH)


@singledispatch
def _with_defaults(obj: TypedObject, now: str) -> TypedObject:
    return obj


@_with_defaults.register
def _(obj: ResourceClaim, now: str) -> TypedObject:
    spec = obj.spec.replacing(devices=_device_claim(obj.spec.devices))
    allocation = obj.status.allocation
    status = obj.status if allocation is None else obj.status.replacing(allocation=_allocation(allocation))
    return obj.replacing(spec=spec, status=status)


@_with_defaults.register
def _(obj: ResourceClaimTemplate, now: str) -> TypedObject:
    claim = obj.spec.spec.replacing(devices=_device_claim(obj.spec.spec.devices))
    return obj.replacing(spec=obj.spec.replacing(spec=claim))


@_with_defaults.register
def _(obj: ResourceSlice, now: str) -> TypedObject:
    def device(published: Device) -> Device:
        if not (published.taints or published.capacity or published.consumes_counters):
            return published
        return published.replacing(
            taints=changed_items(published.taints, lambda taint: _taint(taint, now)),
            capacity=_values(published.capacity),
            consumes_counters=changed_items(
                published.consumes_counters, lambda use: use.replacing(counters=_values(use.counters))
            ),
        )

    sets = changed_items(
        obj.spec.shared_counters, lambda counters: counters.replacing(counters=_values(counters.counters))
    )
    return obj.replacing(spec=obj.spec.replacing(devices=changed_items(obj.spec.devices, device), shared_counters=sets))


@_with_defaults.register
def _(obj: DeviceTaintRule, now: str) -> TypedObject:
    return obj.replacing(spec=obj.spec.replacing(taint=_taint(obj.spec.taint, now)))


@_with_defaults.register
def _(obj: ResourcePoolStatusRequest, now: str) -> TypedObject:
    return obj if obj.spec.limit is not None else obj.replacing(spec=obj.spec.replacing(limit=POOL_REQUEST_LIMIT))


@_with_defaults.register
def _(obj: PodGroup, now: str) -> TypedObject:
    if obj.spec.disruption_mode is not None:
        return obj
    return obj.replacing(spec=obj.spec.replacing(disruption_mode=DisruptionMode(single={})))


@_with_defaults.register
def _(obj: PriorityClass, now: str) -> TypedObject:
    return obj if obj.preemption_policy is not None else obj.replacing(preemption_policy="PreemptLowerPriority")


def retimed_taint(new: DeviceTaintRule, old: DeviceTaintRule, now: str) -> DeviceTaintRule:
    """A rule whose update changes the effect but keeps ``timeAdded`` starts its clock again (C-13.3)."""
    taint, before = new.spec.taint, old.spec.taint
    if taint.effect == before.effect or taint.time_added != before.time_added:
        return new
    return new.replacing(spec=new.spec.replacing(taint=taint.replacing(time_added=format_time(parse_time(now)))))


def _device_claim(claim: DeviceClaim) -> DeviceClaim:
    return claim.replacing(requests=changed_items(claim.requests, _request))


def _request(request: DeviceRequest) -> DeviceRequest:
    alternatives = changed_items(request.first_available, _counted)
    exactly = None if request.exactly is None else _counted(request.exactly)
    return request.replacing(first_available=alternatives, exactly=exactly)


def _counted(request: CountedRequest) -> CountedRequest:
    """Mode and count of an exact request or an alternative. A count is implied only in the mode that has one."""
    mode = request.allocation_mode or EXACT_COUNT
    count = 1 if mode == EXACT_COUNT and request.count == 0 else request.count
    return _tolerating(request).replacing(allocation_mode=mode, count=count)


def _allocation(allocation: AllocationResult) -> AllocationResult:
    if allocation.allocation_timestamp is not None:
        allocation = allocation.replacing(allocation_timestamp=_stored_time(allocation.allocation_timestamp))
    return allocation.replacing(
        devices=allocation.devices.replacing(results=changed_items(allocation.devices.results, _tolerating))
    )


def _tolerating(owner: Tolerant) -> Tolerant:
    return owner.replacing(tolerations=changed_items(owner.tolerations, _toleration))


def _toleration(toleration: DeviceToleration) -> DeviceToleration:
    return toleration.replacing(operator=toleration.operator or TOLERATION_OPERATOR)


def _taint(taint: DeviceTaint, now: str) -> DeviceTaint:
    return taint.replacing(time_added=now if taint.time_added is None else _stored_time(taint.time_added))


def _stored_time(text: str) -> str:
    """The time in UTC and whole seconds, as every time is stored; validation reports a text that is not a time."""
    try:
        stored = format_time(parse_time(text))
    except ValueError:
        return text
    return text if stored == text else stored


def _values(quantities: dict[str, Measured]) -> dict[str, Measured]:
    """The map with its absent values, which count as 0, written out."""
    if not quantities or all(entry.given("value") for entry in quantities.values()):
        return quantities
    return {
        name: entry if entry.given("value") else entry.with_(value=entry.value) for name, entry in quantities.items()
    }
