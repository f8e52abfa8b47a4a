"""Keeps ``status.deviceStatus`` of VMIs up to date: gather, plan, apply (K-5.14).

Writes with a plain update, because a VMI has no status subresource (K-9.1): where KubeVirt's webhooks run, they
silently undo such a write (K-9.2).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import DEVICES_HEALTHY, DEVICES_RESOLVED
from virt_dra.cluster.port import ApiError, Reader, Writer
from virt_dra.controllers.conditions import ConditionStatus, put
from virt_dra.controllers.devices.options import DEFAULTS, ResolutionOptions
from virt_dra.controllers.devices.outcomes import (
    SHARED_ADDRESS,
    DeviceResolution,
    DeviceWarning,
    ResolutionOutcome,
    ResolvedDevice,
    UnresolvedDevice,
)
from virt_dra.controllers.devices.report import (
    NO_ENTRIES,
    DeviceReport,
    ReportContext,
    StatusEntries,
    device_report,
    entries_in,
)
from virt_dra.controllers.devices.resolution import resolve
from virt_dra.controllers.devices.subjects import dra_devices
from virt_dra.controllers.events import Event, is_stale, shortened, warning
from virt_dra.controllers.pods.current_pod import current_pod, owner_uids
from virt_dra.controllers.sources import claim_keys
from virt_dra.model.published import PublishedDevices

ALL_RESOLVED: Final = "AllDevicesResolved"
ALL_HEALTHY: Final = "AllDevicesHealthy"
_MESSAGE: Final = 4096
"""Characters of a condition's message."""
UPDATE_FAILED: Final = "FailedDeviceStatusUpdate"
"""Event: the cluster refused the new status."""


def own_report(
    vmi: VirtualMachineInstance,
    resolution: DeviceResolution,
    rules: Sequence[DeviceTaintRule] = (),
    pod: Pod | None = None,
    networks: StatusEntries = NO_ENTRIES,
) -> DeviceReport:
    """The report for the VMI's own status, whose entries are frozen while the VMI runs (K-5.14). ``networks``: their
    present entries, which have no place in the status."""
    running = vmi.status.phase == "Running"
    return device_report(
        resolution, ReportContext(running, {**entries_in(vmi.status.device_status), **networks}, rules, pod)
    )


@dataclass(frozen=True)
class DeviceStatusInputs:
    """Everything the plan depends on. ``now`` is used for transition times and the grace period of K-5.9."""

    vmis: tuple[VirtualMachineInstance, ...]
    pods: tuple[Pod, ...]
    claims: tuple[ResourceClaim, ...]
    slices: tuple[ResourceSlice, ...]
    now: datetime
    options: ResolutionOptions = DEFAULTS
    taint_rules: tuple[DeviceTaintRule, ...] = ()


@dataclass(frozen=True)
class DeviceStatusPlan:
    """The result of one pass. ``updates``: VMIs to write. ``events``: repeated with every plan while their cause
    lasts."""

    updates: tuple[VirtualMachineInstance, ...]
    events: tuple[Event, ...]


async def gather(
    reader: Reader, now: datetime, namespace: str = "", options: ResolutionOptions = DEFAULTS
) -> DeviceStatusInputs:
    """The inputs of one namespace, or of all."""
    vmis = (await reader.list(VirtualMachineInstance, namespace)).items
    if not any(dra_devices(vmi) for vmi in vmis):
        return DeviceStatusInputs(vmis, (), (), (), now, options)
    pods = (await reader.list(Pod, namespace)).items
    claims = (await reader.list(ResourceClaim, namespace)).items
    slices, rules = (await reader.list(ResourceSlice)).items, (await reader.list(DeviceTaintRule)).items
    return DeviceStatusInputs(vmis, pods, claims, slices, now, options, rules)


def plan(inputs: DeviceStatusInputs) -> DeviceStatusPlan:
    """The writes, one per VMI whose status differs from what it should be; finished VMIs are left as they are."""
    published = PublishedDevices.from_slices(inputs.slices)
    claims = {claim.key: claim for claim in inputs.claims}
    pods: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in inputs.pods:
        for owner in owner_uids(pod):
            pods[pod.namespace, owner].append(pod)
    options = replace(inputs.options, now=inputs.now)
    updates: list[VirtualMachineInstance] = []
    events: list[Event] = []
    placed: list[tuple[VirtualMachineInstance, str, DeviceResolution]] = []
    for vmi in sorted(inputs.vmis, key=lambda vmi: vmi.key):
        if vmi.finished or not dra_devices(vmi):
            continue
        current = current_pod(vmi, pods[vmi.namespace, vmi.metadata.uid], migration_target=options.migration_target)
        named = map(claims.get, claim_keys(vmi, current))
        resolution = resolve(vmi, current, (claim for claim in named if claim is not None), published, options)
        report = own_report(vmi, resolution, inputs.taint_rules, current)
        updated = with_status(vmi, report, inputs.now)
        if updated is not vmi:
            updates.append(updated)
        events += (warning(vmi, warned.reason, f"{warned.subject}: {warned.message}") for warned in report.warnings)
        placed.append((vmi, (current.spec.node_name if current is not None else None) or "", resolution))
    return DeviceStatusPlan(tuple(updates), (*events, *_shared(placed)))


def with_status(vmi: VirtualMachineInstance, report: DeviceReport, now: datetime) -> VirtualMachineInstance:
    """The VMI with the reported deviceStatus and conditions; the same object if nothing differs."""
    unresolved = report.unresolved
    first = next((u for u in unresolved if u.state == "error"), unresolved[0] if unresolved else None)
    resolved: ConditionStatus = "False" if first else "True"
    reason = first.reason if first else ALL_RESOLVED
    conditions = put(vmi.status.conditions, DEVICES_RESOLVED, resolved, reason, sentences(unresolved), now)
    unhealthy = report.unhealthy
    if unhealthy or any(condition.get("type") == DEVICES_HEALTHY for condition in conditions):
        reason = unhealthy[0].reason if unhealthy else ALL_HEALTHY
        conditions = put(
            conditions, DEVICES_HEALTHY, "False" if unhealthy else "True", reason, sentences(unhealthy), now
        )
    status, old = report.device_status(), vmi.status.device_status
    same = status is None or (old is not None and status.to_wire() == old.to_wire())
    if same and conditions == vmi.status.conditions:
        return vmi
    reported = {} if status is None else {"device_status": status}  # networks have no place in it
    return vmi.with_(status=vmi.status.with_(conditions=conditions, **reported))


def sentences(findings: Sequence[UnresolvedDevice | DeviceWarning]) -> str:
    """The texts in one, for a condition's message. Bounded: a VMI has many devices, and users name them."""
    return shortened("; ".join(f"{about.subject}: {about.message}" for about in findings), _MESSAGE)


def _shared(placed: Iterable[tuple[VirtualMachineInstance, str, DeviceResolution]]) -> list[Event]:
    """A warning for each VMI after the first that has an address of the same node (K-5.13)."""
    holders: dict[tuple[str, str], tuple[VirtualMachineInstance, ResolutionOutcome]] = {}
    events: list[Event] = []
    for vmi, node, resolution in placed:
        for outcome in resolution.outcomes:
            if not node or not isinstance(outcome, ResolvedDevice):
                continue
            other, first = holders.setdefault((node, outcome.addresses.identity), (vmi, outcome))
            if other is not vmi:
                message = (
                    f"{outcome.subject}: {outcome.addresses.identity} on node {node} is also {first.subject} of VMI "
                    f"{other.key}; only a driver that shares the device makes this work"
                )
                events.append(warning(vmi, SHARED_ADDRESS, message))
    return events


async def apply(writer: Writer, updates: Iterable[VirtualMachineInstance]) -> tuple[Event, ...]:
    """Write; refused writes are returned as Events. A VMI that has changed since is left to the next pass."""
    events: list[Event] = []
    for vmi in updates:
        try:
            await writer.update(vmi)
        except ApiError as error:
            if not is_stale(error):
                events.append(warning(vmi, UPDATE_FAILED, str(error)))
    return tuple(events)
