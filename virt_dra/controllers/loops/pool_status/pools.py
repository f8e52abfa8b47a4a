"""The status of a ResourcePoolStatusRequest by slices, claims and taint rules (C-12.2 to C-12.8). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from virt_dra.api.meta import Condition, format_time
from virt_dra.api.pool_generations import generation_of, newest_generation
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import (
    ZERO,
    Device,
    DeviceTaintRule,
    PoolStatus,
    ResourceClaim,
    ResourcePoolStatusRequest,
    ResourcePoolStatusRequestSpec,
    ResourcePoolStatusRequestStatus,
    ResourceSlice,
)
from virt_dra.controllers.loops.pool_status.partition_view import Grouped, partition_view
from virt_dra.controllers.loops.pool_status.shareable_view import shareable_view
from virt_dra.controllers.loops.pool_status.view_problem import ViewProblem
from virt_dra.model.evicting.causes import rule_selects

COMPLETE = "Complete"
CALCULATED = "CalculationComplete"
INCOMPLETE = "PoolIncomplete:"
"""Prefix of the error of a pool some of whose slices are missing; the only one that passes by itself."""
DEFAULT_LIMIT = 100
LONGEST_ERROR = 256
"""Bytes."""

_UNAVAILABLE = ("NoSchedule", "NoExecute")


@dataclass
class PoolUsage:
    """The use that claims make of a pool, without results with admin access (C-12.3)."""

    devices: set[str] = field(default_factory=set)
    """The allocated devices, shared ones once, including devices that are no longer published."""
    consumed: dict[str, Quantity] = field(default_factory=dict)
    """By capacity."""


def usage_of(claims: Iterable[ResourceClaim], driver: str) -> dict[str, PoolUsage]:
    """What allocated claims have of a driver's pools, by pool."""
    pools: dict[str, PoolUsage] = {}
    for claim in claims:
        for result in claim.results:
            if result.driver != driver or result.admin_access:
                continue
            usage = pools.setdefault(result.pool, PoolUsage())
            usage.devices.add(result.device)
            for name, amount in result.consumed_capacity.items():
                usage.consumed[name] = usage.consumed.get(name, ZERO) + amount
    return pools


def pool_request_status(
    request: ResourcePoolStatusRequest,
    slices: Iterable[ResourceSlice],
    claims: Iterable[ResourceClaim],
    rules: Sequence[DeviceTaintRule],
    now: datetime,
) -> ResourcePoolStatusRequestStatus:
    """The whole answer: pools by name, as many as the limit says, and how many there are (C-12.5, C-12.8). ``slices``
    and ``claims`` may be more than needed. ``rules``: none without the gate DRADeviceTaintRules."""
    spec = request.spec
    members: dict[str, list[ResourceSlice]] = {}
    for published in sorted(slices, key=lambda published: published.name):
        if published.spec.driver == spec.driver and spec.pool_name in (None, "", published.spec.pool.name):
            members.setdefault(published.spec.pool.name, []).append(published)
    names = sorted(members)
    limit = DEFAULT_LIMIT if spec.limit is None else spec.limit
    usage = usage_of(claims, spec.driver)
    pools = tuple(pool_status(spec, members[name], usage.get(name, PoolUsage()), rules) for name in names[:limit])
    message = f"Calculated status for {len(pools)} pools"
    faulty = sum(pool.validation_error is not None for pool in pools)
    condition = Condition(
        type=COMPLETE,
        status="True",
        reason=CALCULATED,
        message=f"{message} ({faulty} incomplete)" if faulty else message,
        last_transition_time=format_time(now),
    )
    status = ResourcePoolStatusRequestStatus(pool_count=len(names), conditions=(condition,))
    return status.with_(pools=pools) if pools else status


def has_incomplete(status: ResourcePoolStatusRequestStatus) -> bool:
    """Whether a pool lacks slices, so that the answer isn't written (C-12.4)."""
    return any((pool.validation_error or "").startswith(INCOMPLETE) for pool in status.pools)


def pool_status(
    spec: ResourcePoolStatusRequestSpec,
    slices: Sequence[ResourceSlice],
    usage: PoolUsage,
    rules: Sequence[DeviceTaintRule],
) -> PoolStatus:
    """The status of one pool by all its slices (at least one). Only the highest generation counts (C-12.2)."""
    generation, current = newest_generation(slices, generation_of)
    pool = current[0].spec.pool.name
    status = PoolStatus(driver=spec.driver, pool_name=pool, generation=generation)
    nodes = {published.spec.node_name or "" for published in current}
    if len(nodes) == 1 and "" not in nodes:
        status = status.with_(node_name=next(iter(nodes)))
    expected = current[0].spec.pool.resource_slice_count
    if len(current) < expected:
        counts = f"observed {len(current)}/{expected} slices at generation {generation}"
        return status.with_(validation_error=_cut(f"{INCOMPLETE} pool {spec.driver}/{pool} is incomplete: {counts}"))
    devices = [device for published in current for device in published.spec.devices]
    unavailable = sum(_unavailable(spec.driver, pool, device, rules) for device in devices)
    status = status.with_(
        resource_slice_count=len(current),
        total_devices=len(devices),
        allocated_devices=len(usage.devices),
        # A device that is both allocated and tainted is taken away twice, as upstream does (C-12.3, C-20.10).
        available_devices=max(0, len(devices) - len(usage.devices) - unavailable),
        unavailable_devices=unavailable,
    )
    return _with_views(status, spec, current, usage)


def _with_views(
    status: PoolStatus, spec: ResourcePoolStatusRequestSpec, slices: Sequence[ResourceSlice], usage: PoolUsage
) -> PoolStatus:
    """The status with its views. Any problem removes the partition view, and the first is reported; a problem of one
    view doesn't concern the other (C-12.6, C-12.7)."""
    pool = f"{status.driver}/{status.pool_name}"
    counters = [counter_set for published in slices for counter_set in published.spec.shared_counters]
    partitions = partition_view(Grouped.devices(spec, slices), counters, usage.devices, pool)
    shareable = shareable_view(
        [device for published in slices for device in published.spec.devices], usage.devices, usage.consumed, pool
    )
    problems = [view for view in (partitions, shareable) if isinstance(view, ViewProblem)]
    if problems:
        status = status.with_(validation_error=_cut(problems[0].message))
    elif not isinstance(partitions, ViewProblem) and partitions:
        status = status.with_(partition_summary=partitions)
    if shareable is not None and not isinstance(shareable, ViewProblem):
        status = status.with_(shareable_summary=shareable)
    return status


def _unavailable(driver: str, pool: str, device: Device, rules: Sequence[DeviceTaintRule]) -> bool:
    """Whether new claims can't have the device for a taint, its own or by a rule; tolerations don't count."""
    selecting = (rule.spec.taint for rule in rules if rule_selects(rule, (driver, pool, device.name)))
    return any(taint.effect in _UNAVAILABLE for taint in (*device.taints, *selecting))


def _cut(message: str) -> str:
    return message.encode()[:LONGEST_ERROR].decode(errors="ignore")
