"""The content of a VMI's VirtualMachineInstanceDevices, and the Events for its changes (0012, K-12.4). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.paths import NATIVE, PART_OF, PART_OF_LABEL, ClaimRequestPair
from virt_dra.api.integration.record import Integration
from virt_dra.api.kubevirt_v1 import DeviceStatusInfo, VirtualMachineInstance
from virt_dra.api.meta import Condition, ObjectMeta, controller_reference
from virt_dra.api.resource_v1 import DeviceTaint
from virt_dra.api.virt_dra_v1alpha1 import (
    ALLOCATABLE,
    DEVICES_HEALTHY,
    DEVICES_RESOLVED,
    PROFILES_APPLIED,
    DeviceHealth,
    MigrationTarget,
    VirtualMachineInstanceDevices,
    VirtualMachineInstanceDevicesStatus,
    VmiDevice,
)
from virt_dra.api.wire import Json, present
from virt_dra.controllers.conditions import condition_of, put, without
from virt_dra.controllers.devices.outcomes import NOT_ALLOCATED, ResolvedDevice, UnresolvedDevice, status_of
from virt_dra.controllers.devices.report import DeviceReport, ReportedDevice, StatusEntries, one_each
from virt_dra.controllers.devices.subjects import DeviceSubject
from virt_dra.controllers.events import Event, normal, shortened, warning
from virt_dra.controllers.loops.device_status import ALL_HEALTHY, ALL_RESOLVED, sentences
from virt_dra.controllers.reconciled import NOT_ALLOCATABLE

if TYPE_CHECKING:  # it needs the scheduler, which the inventory doesn't
    from virt_dra.controllers.profiles.reconcile import AppliedProfiles

RESOLVED: Final = "Resolved"
PENDING: Final = "Pending"
ERROR: Final = "Error"
RELEASED: Final = "Released"
"""States of a device: its address reaches the VM; it will; waiting won't help; the VMI has finished and released it."""
FINISHED_VMI: Final = "VMIFinished"
"""Reason of a released device, and of DevicesResolved=False and DevicesHealthy=Unknown on a finished VMI."""
NOT_RESOLVED: Final = "DevicesNotResolved"
"""Reason of DevicesHealthy=Unknown."""

_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_MESSAGE = 4096
"""Characters of a message in the object."""


def metadata_of(vmi: VirtualMachineInstance) -> ObjectMeta:
    """Named like the VMI and owned by it, so that garbage collection removes it."""
    owner = controller_reference(vmi, blocks_deletion=False)
    return ObjectMeta(
        name=vmi.name, namespace=vmi.namespace, labels={PART_OF_LABEL: PART_OF}, owner_references=(owner,)
    )


def frozen_in(stored: VirtualMachineInstanceDevices | None, pod: Pod | None) -> StatusEntries:
    """The entries of the devices that a pod was started with, from the object."""
    return one_each(
        (device.kind, _entry(device))
        for device in reported_for(stored, pod)
        if _has_address(device) or _needs_none(device)
    )


def reported_for(stored: VirtualMachineInstanceDevices | None, pod: Pod | None) -> tuple[VmiDevice, ...]:
    """The devices that the object reports for a pod, without a pod for the last one; none for another pod (K-10.5)."""
    if stored is None:
        return ()
    status, target = stored.status, stored.status.migration_target
    if pod is None or status.pod_uid == pod.metadata.uid:
        return status.devices
    return target.devices if target is not None and target.pod_uid == pod.metadata.uid else ()


def _has_address(device: VmiDevice) -> bool:
    return bool(device.pci_address or device.mdev_uuid)


def _needs_none(device: VmiDevice) -> bool:
    return device.kind == "networks" and device.state == RESOLVED


def _entry(device: VmiDevice) -> DeviceStatusInfo:
    attributes = present({"pciAddress": device.pci_address, "mDevUUID": device.mdev_uuid})
    claim_status = present({"name": device.device, "resourceClaimName": device.resource_claim_name})
    return DeviceStatusInfo.from_wire(
        {"name": device.name, "deviceResourceClaimStatus": claim_status | {"attributes": attributes}}
    )


def status_for(
    report: DeviceReport,
    pod: Pod | None,
    record: Integration | None,
    stored: VirtualMachineInstanceDevices | None,
    claimed: Sequence[DeviceSubject],
    pending: Condition | None,
    now: datetime,
    target: MigrationTarget | None = None,
    applied: AppliedProfiles | None = None,
) -> VirtualMachineInstanceDevicesStatus:
    """The object's status. ``claimed``: the DRA devices, which deviceStatus lists (K-5.12). ``pending``: the new
    condition Allocatable, if any. ``target``: of a running migration. ``applied``: of the VMI's line of profiles, if it
    has one."""
    devices = listed_devices(report, pod, record, reported_for(stored, pod))
    fields: Json = {"ready": _ready(devices)}
    if pod is not None:
        fields |= {"podName": pod.name, "podUID": pod.metadata.uid}
        if pod.spec.node_name:
            fields["nodeName"] = pod.spec.node_name
    elif stored is not None:  # the pod is gone, but its name and node remain useful
        kept = stored.status
        fields |= present({"podName": kept.pod_name, "podUID": kept.pod_uid, "nodeName": kept.node_name})
    paths = tuple(dict.fromkeys(device.integration_path for device in devices if device.integration_path))
    if paths:
        fields["integrationPaths"] = ",".join(paths)
    status = VirtualMachineInstanceDevicesStatus.from_wire(fields)
    ours = set(claimed)
    published = status_of((subject, entry) for subject, entry in report.entries if subject in ours)
    if published is not None:
        status = status.with_(device_status=published)
    before = stored.status.conditions if stored is not None else ()
    conditions = _conditions(report, before, pod, pending, now, applied)
    status = status.with_(devices=devices, conditions=conditions)
    return status.with_(migration_target=target) if target is not None else status


def finished(
    status: VirtualMachineInstanceDevicesStatus, phase: str, now: datetime
) -> VirtualMachineInstanceDevicesStatus:
    """The status of a VMI that has finished: its last devices, now released. Idempotent."""
    message = f"the VMI has finished ({phase}) and released its devices; this is their last status"
    devices = tuple(
        device.with_(state=RELEASED, reason=FINISHED_VMI, message=message) if device.state == RESOLVED else device
        for device in status.devices
    )
    conditions: tuple[Json, ...] = without([condition.to_wire() for condition in status.conditions], ALLOCATABLE)
    statuses = {condition.type: condition.status for condition in status.conditions}
    # What went wrong stays: it may be why the VMI failed.
    if statuses.get(DEVICES_RESOLVED) == "True":
        conditions = put(conditions, DEVICES_RESOLVED, "False", FINISHED_VMI, message, now)
    if statuses.get(DEVICES_HEALTHY) == "True":
        conditions = put(conditions, DEVICES_HEALTHY, "Unknown", FINISHED_VMI, "", now)
    listed = tuple(Condition.from_wire(condition) for condition in conditions)
    return status.with_(ready=_ready(devices), devices=devices, conditions=listed, migration_target=None)


def target_for(
    report: DeviceReport, pod: Pod, record: Integration | None, stored: VirtualMachineInstanceDevices | None
) -> MigrationTarget:
    """The status of a migration's target pod and its devices."""
    devices = listed_devices(report, pod, record, reported_for(stored, pod))
    fields: Json = {"ready": _ready(devices), "podName": pod.name, "podUID": pod.metadata.uid}
    if pod.spec.node_name:
        fields["nodeName"] = pod.spec.node_name
    return MigrationTarget.from_wire(fields).with_(devices=devices)


def _ready(devices: Sequence[VmiDevice]) -> str:
    return f"{sum(device.state == RESOLVED for device in devices)}/{len(devices)}"


def listed_devices(
    report: DeviceReport, pod: Pod | None, record: Integration | None, before: Sequence[VmiDevice]
) -> tuple[VmiDevice, ...]:
    """The devices as the object lists them. ``before``: what it listed for this pod so far."""
    by_name = {(device.kind, device.name): device for device in before}
    return tuple(_device(device, pod, record, by_name) for device in report.devices)


def _path(subject: DeviceSubject, pod: Pod | None, record: Integration | None, before: VmiDevice | None) -> str | None:
    """The integration path that was decided when the pod was created; without a pod, that of the last one."""
    if pod is None:
        return before.integration_path if before is not None else None
    return record.path_of(ClaimRequestPair(subject.claim_name, subject.request_name)) if record is not None else NATIVE


def _device(
    device: ReportedDevice, pod: Pod | None, record: Integration | None, before: Mapping[tuple[str, str], VmiDevice]
) -> VmiDevice:
    subject, outcome = device.subject, device.outcome
    old = before.get((subject.kind, subject.name))
    fields: Json = {"name": subject.name, "kind": subject.kind}
    fields |= {"claimName": subject.claim_name, "requestName": subject.request_name}
    fields |= present({"integrationPath": _path(subject, pod, record, old)})
    claim_status = device.entry.device_resource_claim_status
    if claim_status is not None:
        attributes = claim_status.attributes
        fields |= present({"resourceClaimName": claim_status.resource_claim_name, "device": claim_status.name})
        if attributes is not None:
            fields |= present({"pciAddress": attributes.pci_address, "mdevUUID": attributes.mdev_uuid})
    if isinstance(outcome, ResolvedDevice) and outcome.result.device == fields.get("device"):
        fields |= {"driver": outcome.result.driver, "pool": outcome.result.pool}
    elif device.frozen and old is not None:
        fields |= present({"driver": old.driver, "pool": old.pool})
    problem = device.problem
    withheld = device.withheld
    fields["state"] = RESOLVED if withheld is None else ERROR if withheld.state == "error" else PENDING
    if problem is not None:
        fields |= {"reason": problem.reason, "message": shortened(problem.message, _MESSAGE)}
    made = VmiDevice.from_wire(fields)
    if device.taints:
        made = made.with_(taints=tuple(_taint(taint) for taint in device.taints))
    if device.health is not None:
        health: Json = {"status": device.health.health if device.health.health in _HEALTH else "Unknown"}
        message = {"message": shortened(device.health.message, _MESSAGE)} if device.health.message else {}
        made = made.with_(health=DeviceHealth.from_wire(health | message))
    return made


def _taint(taint: DeviceTaint) -> DeviceTaint:
    """The taint without unknown fields, which the API server would drop: the object would be written again and
    again."""
    kept = {"key": taint.key, "effect": taint.effect}
    kept |= {"value": taint.value} if taint.value else {}
    return DeviceTaint.from_wire(kept | ({"timeAdded": taint.time_added} if taint.time_added else {}))


def _conditions(
    report: DeviceReport,
    old: Iterable[Condition],
    pod: Pod | None,
    pending: Condition | None,
    now: datetime,
    applied: AppliedProfiles | None,
) -> tuple[Condition, ...]:
    conditions: tuple[Json, ...] = tuple(condition.to_wire() for condition in old)
    unresolved = report.unresolved
    first = next((u for u in unresolved if u.state == "error"), unresolved[0] if unresolved else None)
    if pod is None or pod.spec.node_name or not unresolved:
        conditions = without(conditions, ALLOCATABLE)
    elif pending is not None:
        conditions = (*without(conditions, ALLOCATABLE), pending.to_wire())
    lacking = applied.problem if applied is not None and not report.devices else None
    reason = first.reason if first else lacking.reason if lacking else ALL_RESOLVED
    message = shortened(lacking.message if lacking else _waits_for(unresolved, conditions), _MESSAGE)
    conditions = put(conditions, DEVICES_RESOLVED, "False" if first or lacking else "True", reason, message, now)
    unhealthy = report.unhealthy
    if unhealthy:
        conditions = put(
            conditions, DEVICES_HEALTHY, "False", unhealthy[0].reason, shortened(sentences(unhealthy), _MESSAGE), now
        )
    elif unresolved:
        conditions = put(conditions, DEVICES_HEALTHY, "Unknown", NOT_RESOLVED, "", now)
    else:
        conditions = put(conditions, DEVICES_HEALTHY, "True", ALL_HEALTHY, "", now)
    conditions = without(conditions, PROFILES_APPLIED) if applied is None else applied.added_to(conditions, now)
    return tuple(Condition.from_wire(condition) for condition in conditions)


def _waits_for(unresolved: Sequence[UnresolvedDevice], conditions: Sequence[Json]) -> str:
    """The message of DevicesResolved (``kubectl get vmid -o wide``): why claims can't be allocated, where that is
    known."""
    allocatable = condition_of(conditions, ALLOCATABLE) or {}
    why = str(allocatable.get("message") or "")
    waiting = [device for device in unresolved if device.reason == NOT_ALLOCATED]
    if not why or not waiting:
        return sentences(unresolved)
    others = sentences([device for device in unresolved if device.reason != NOT_ALLOCATED])
    return "; ".join((f"{', '.join(str(device.subject) for device in waiting)}: {why}", *((others,) if others else ())))


def transitions(
    vmi: VirtualMachineInstance,
    old: VirtualMachineInstanceDevicesStatus | None,
    new: VirtualMachineInstanceDevicesStatus,
) -> tuple[Event, ...]:
    """The Events for a change of the object; none without a change, so that a restart doesn't repeat them."""
    was_target, target = old.migration_target if old is not None else None, new.migration_target
    events = _troubles(vmi, "", old.devices if old is not None else (), new.devices)
    if target is not None:
        same = was_target is not None and was_target.pod_uid == target.pod_uid
        where = f"migration target {target.pod_name}: "
        events += _troubles(vmi, where, was_target.devices if was_target is not None and same else (), target.devices)
    before, after = _by_type(old), _by_type(new)
    if _turned_true(before, after, DEVICES_RESOLVED) and new.devices:
        resolved = ", ".join(
            f"{device.kind}/{device.name} {device.mdev_uuid or device.pci_address or device.device}"
            for device in new.devices
        )
        # kube-scheduler allocates claims a moment before it binds the pod.
        place = f"on node {new.node_name}: " if new.node_name else ""
        events.append(normal(vmi, DEVICES_RESOLVED, shortened(f"{place}{resolved}")))
    healthy = before.get(DEVICES_HEALTHY)
    if _turned_true(before, after, DEVICES_HEALTHY) and healthy is not None and healthy.status == "False":
        events.append(normal(vmi, DEVICES_HEALTHY, "all devices are healthy again"))
    allocatable = after.get(ALLOCATABLE)
    if allocatable is not None and allocatable.status == "False" and allocatable != before.get(ALLOCATABLE):
        events.append(warning(vmi, NOT_ALLOCATABLE, shortened(allocatable.message)))
    return tuple(events)


def _troubles(
    vmi: VirtualMachineInstance, where: str, old: Iterable[VmiDevice], new: Iterable[VmiDevice]
) -> list[Event]:
    """A warning for each device whose error or warning is new."""
    before = {(device.kind, device.name): (device.state, device.reason) for device in old}
    return [
        warning(vmi, device.reason, shortened(f"{where}{device.kind}/{device.name}: {device.message}"))
        for device in new
        if device.reason
        and device.state != PENDING
        and before.get((device.kind, device.name)) != (device.state, device.reason)
    ]


def _by_type(status: VirtualMachineInstanceDevicesStatus | None) -> Mapping[str, Condition]:
    return {condition.type: condition for condition in status.conditions} if status is not None else {}


def _turned_true(before: Mapping[str, Condition], after: Mapping[str, Condition], kind: str) -> bool:
    return _is_true(after.get(kind)) and not _is_true(before.get(kind))


def _is_true(condition: Condition | None) -> bool:
    return condition is not None and condition.status == "True"
