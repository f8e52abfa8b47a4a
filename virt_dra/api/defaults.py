"""The defaults that an API server sets on every write (A-22.4, C-2.5). Pure: the time is passed in as text.

Kinds that are not listed have no defaults here; a pod's own (restart policy and the like) are not this project's
business.
"""

from __future__ import annotations

from collections.abc import Callable
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
from virt_dra.api.wire import Wire

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
    Raises ValueError if ``now`` is no time.
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
    spec = _with(obj.spec, devices=_device_claim(obj.spec.devices))
    allocation = obj.status.allocation
    status = obj.status if allocation is None else _with(obj.status, allocation=_allocation(allocation))
    return _with(obj, spec=spec, status=status)


@_with_defaults.register
def _(obj: ResourceClaimTemplate, now: str) -> TypedObject:
    claim = _with(obj.spec.spec, devices=_device_claim(obj.spec.spec.devices))
    return _with(obj, spec=_with(obj.spec, spec=claim))


@_with_defaults.register
def _(obj: ResourceSlice, now: str) -> TypedObject:
    def device(of: Device) -> Device:
        return _with(
            of,
            taints=_each(of.taints, lambda taint: _taint(taint, now)),
            capacity=_values(of.capacity),
            consumes_counters=_each(of.consumes_counters, lambda use: _with(use, counters=_values(use.counters))),
        )

    sets = _each(obj.spec.shared_counters, lambda counters: _with(counters, counters=_values(counters.counters)))
    return _with(obj, spec=_with(obj.spec, devices=_each(obj.spec.devices, device), shared_counters=sets))


@_with_defaults.register
def _(obj: DeviceTaintRule, now: str) -> TypedObject:
    return _with(obj, spec=_with(obj.spec, taint=_taint(obj.spec.taint, now)))


@_with_defaults.register
def _(obj: ResourcePoolStatusRequest, now: str) -> TypedObject:
    return obj if obj.spec.limit is not None else _with(obj, spec=_with(obj.spec, limit=POOL_REQUEST_LIMIT))


@_with_defaults.register
def _(obj: PodGroup, now: str) -> TypedObject:
    return (
        obj
        if obj.spec.disruption_mode is not None
        else _with(obj, spec=_with(obj.spec, disruption_mode=DisruptionMode(single={})))
    )


@_with_defaults.register
def _(obj: PriorityClass, now: str) -> TypedObject:
    return obj if obj.preemption_policy is not None else _with(obj, preemption_policy="PreemptLowerPriority")


def retimed_taint(new: DeviceTaintRule, old: DeviceTaintRule, now: str) -> DeviceTaintRule:
    """A rule whose update changes the effect but keeps ``timeAdded`` starts its clock again (C-13.3)."""
    taint, before = new.spec.taint, old.spec.taint
    if taint.effect == before.effect or taint.time_added != before.time_added:
        return new
    return _with(new, spec=_with(new.spec, taint=_with(taint, time_added=format_time(parse_time(now)))))


def _device_claim(claim: DeviceClaim) -> DeviceClaim:
    return _with(claim, requests=_each(claim.requests, _request))


def _request(request: DeviceRequest) -> DeviceRequest:
    alternatives = _each(request.first_available, _counted)
    exactly = None if request.exactly is None else _counted(request.exactly)
    return _with(request, first_available=alternatives, exactly=exactly)


def _counted(request: CountedRequest) -> CountedRequest:
    """Mode and count of an exact request or an alternative. A count is implied only in the mode that has one."""
    mode = request.allocation_mode or EXACT_COUNT
    count = 1 if mode == EXACT_COUNT and request.count == 0 else request.count
    return _with(_tolerating(request), allocation_mode=mode, count=count)


def _allocation(allocation: AllocationResult) -> AllocationResult:
    if allocation.allocation_timestamp is not None:
        allocation = _with(allocation, allocation_timestamp=_stored_time(allocation.allocation_timestamp))
    return _with(allocation, devices=_with(allocation.devices, results=_each(allocation.devices.results, _tolerating)))


def _tolerating(owner: Tolerant) -> Tolerant:
    return _with(owner, tolerations=_each(owner.tolerations, _toleration))


def _toleration(toleration: DeviceToleration) -> DeviceToleration:
    return _with(toleration, operator=toleration.operator or TOLERATION_OPERATOR)


def _taint(taint: DeviceTaint, now: str) -> DeviceTaint:
    return _with(taint, time_added=now if taint.time_added is None else _stored_time(taint.time_added))


def _stored_time(text: str) -> str:
    """In UTC and whole seconds, as every time is stored; what is no time is left to validation."""
    try:
        stored = format_time(parse_time(text))
    except ValueError:
        return text
    return text if stored == text else stored


def _values(quantities: dict[str, Measured]) -> dict[str, Measured]:
    """The map with its absent values, which count as 0, written out."""
    if all(entry.given("value") for entry in quantities.values()):
        return quantities
    return {
        name: entry if entry.given("value") else entry.with_(value=entry.value) for name, entry in quantities.items()
    }


def _with(value: W, **fields: object) -> W:
    """A copy with the fields that are other objects, or the very same value: an absent field that keeps its default
    stays absent."""
    changes = {name: new for name, new in fields.items() if getattr(value, name) is not new}
    return value.with_(**changes) if changes else value


def _each(items: tuple[W, ...], change: Callable[[W], W]) -> tuple[W, ...]:
    changed = tuple(change(item) for item in items)
    return items if all(new is old for new, old in zip(changed, items, strict=True)) else changed
