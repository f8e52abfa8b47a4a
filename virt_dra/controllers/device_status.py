"""Keeps ``status.deviceStatus`` of VMIs up to date: gather, plan, apply (K-5.14; what is resolved how: ``device_resolution``).

Writes with a plain update, because a VMI has no status subresource (K-9.1). That is for the embedded cluster and for running
without KubeVirt: where KubeVirt's webhooks run, they silently undo such a write (K-9.2).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import DeviceStatus, DeviceStatusInfo, VirtualMachineInstance
from virt_dra.api.meta import format_time
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.api.tolerations import tolerates
from virt_dra.api.wire import Json
from virt_dra.cluster.port import ApiError, Cluster, Reader, Writer
from virt_dra.controllers.current_pod import current_pod, owner_uids
from virt_dra.controllers.device_resolution import (
    DEFAULTS,
    Options,
    Outcome,
    Resolution,
    Resolved,
    Subject,
    Unresolved,
    Warned,
    dra_devices,
    resolve,
    status_of,
)
from virt_dra.controllers.events import Event, outdated, warning
from virt_dra.controllers.published_devices import PublishedDevices

__all__ = [
    "Inputs",
    "Options",
    "Plan",
    "Resolution",
    "Resolved",
    "Settled",
    "Unresolved",
    "apply",
    "gather",
    "plan",
    "reconcile",
    "resolve",
    "settle",
]

DEVICES_RESOLVED: Final = "DevicesResolved"
"""Condition of a VMI with DRA devices: whether every one has an address. Its reason is that of the first device that has none."""
DEVICES_HEALTHY: Final = "DevicesHealthy"
"""Condition, set once something befell a device of a running VMI: it vanished, changed or was tainted (K-5.14)."""

ALL_RESOLVED: Final = "AllDevicesResolved"
ALL_HEALTHY: Final = "AllDevicesHealthy"
DEVICE_CHANGED: Final = "DeviceChanged"
"""The VMI runs with another address than what would be resolved now."""
DEVICE_TAINTED: Final = "DeviceTainted"
"""The device of a running VMI has a taint that its claim does not tolerate."""
SHARED_ADDRESS: Final = "SharedAddress"
"""Event: another VMI on the same node has the same address (K-5.13)."""
UPDATE_FAILED: Final = "FailedDeviceStatusUpdate"
"""Event: the cluster refused the new status."""


@dataclass(frozen=True)
class Settled:
    """What a VMI's status shall say. ``lost``: why a device of a running VMI could not be resolved now; its entry stays."""

    entries: tuple[tuple[Subject, DeviceStatusInfo], ...]
    unresolved: tuple[Unresolved, ...]
    lost: tuple[Unresolved, ...]
    warnings: tuple[Warned, ...]

    def device_status(self) -> DeviceStatus | None:
        return status_of(self.entries)


def settle(vmi: VirtualMachineInstance, resolution: Resolution) -> Settled:
    """Freeze what a running VMI was started with; a device that vanished, changed or was tainted is told, not replaced (K-5.14)."""
    running = vmi.status.phase == "Running"
    entries: list[tuple[Subject, DeviceStatusInfo]] = []
    unresolved: list[Unresolved] = []
    lost: list[Unresolved] = []
    warnings = list(resolution.warnings)
    for outcome in resolution.outcomes:
        subject = outcome.subject
        frozen = _frozen_entry(vmi, subject) if running else None
        now = outcome.status()
        entries.append((subject, frozen or now))
        if isinstance(outcome, Unresolved):
            (lost if frozen else unresolved).append(outcome)
            continue
        if frozen and frozen.to_wire() != now.to_wire():
            message = f"the VMI runs with {_show(frozen)}, its claim now leads to {_show(now)}; restart the VM to use that"
            warnings.append(Warned(subject, DEVICE_CHANGED, message))
        if running:
            warnings += _taints(outcome)
    return Settled(tuple(entries), tuple(unresolved), tuple(lost), tuple(warnings))


def _frozen_entry(vmi: VirtualMachineInstance, subject: Subject) -> DeviceStatusInfo | None:
    """The device's entry in the status so far, if it has an address. Two entries of one name can't be told apart: none."""
    status = vmi.status.device_status
    if status is None:
        return None
    listed = status.gpu_statuses if subject.kind == "gpus" else status.host_device_statuses
    entries = [entry for entry in listed if entry.name == subject.name]
    known = entries[0].device_resource_claim_status if len(entries) == 1 else None
    attributes = known.attributes if known is not None else None
    return entries[0] if attributes is not None and (attributes.pci_address or attributes.mdev_uuid) else None


def _show(entry: DeviceStatusInfo) -> str:
    known = entry.device_resource_claim_status
    attributes = known.attributes if known is not None else None
    address = (attributes.mdev_uuid or attributes.pci_address) if attributes is not None else None
    return f"device {known.name if known is not None else None} at {address}"


def _taints(outcome: Resolved) -> list[Warned]:
    taints = [
        taint
        for taint in outcome.published.device.taints
        if taint.effect in ("NoSchedule", "NoExecute") and not any(tolerates(t, taint) for t in outcome.result.tolerations)
    ]
    return [
        Warned(outcome.subject, DEVICE_TAINTED, f"device {outcome.result.device} has taint {t.key}={t.value}:{t.effect}; see its driver")
        for t in taints
    ]


@dataclass(frozen=True)
class Inputs:
    """Everything the plan depends on. ``now`` is used for transition times and the grace period of K-5.9."""

    vmis: tuple[VirtualMachineInstance, ...]
    pods: tuple[Pod, ...]
    claims: tuple[ResourceClaim, ...]
    slices: tuple[ResourceSlice, ...]
    now: datetime
    options: Options = DEFAULTS


@dataclass(frozen=True)
class WriteStatus:
    """Replace a VMI by itself with a new status."""

    vmi: VirtualMachineInstance


Action = WriteStatus


@dataclass(frozen=True)
class Plan:
    """``actions``: what to write; none when all is up to date. ``events``: what to tell, again with every plan while it is so."""

    actions: tuple[Action, ...]
    events: tuple[Event, ...]


async def gather(reader: Reader, now: datetime, namespace: str = "", options: Options = DEFAULTS) -> Inputs:
    """Everything of one namespace, or of all."""
    vmis = (await reader.list(VirtualMachineInstance, namespace)).items
    if not any(dra_devices(vmi) for vmi in vmis):
        return Inputs(vmis, (), (), (), now, options)
    pods = (await reader.list(Pod, namespace)).items
    claims = (await reader.list(ResourceClaim, namespace)).items
    return Inputs(vmis, pods, claims, (await reader.list(ResourceSlice)).items, now, options)


def plan(inputs: Inputs) -> Plan:
    """One write per VMI whose status differs from what it should be; finished VMIs are left as they are."""
    published = PublishedDevices.of(inputs.slices)
    claims = {claim.key: claim for claim in inputs.claims}
    pods: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in inputs.pods:
        for owner in owner_uids(pod):
            pods[pod.namespace, owner].append(pod)
    options = replace(inputs.options, now=inputs.now)
    actions: list[Action] = []
    events: list[Event] = []
    placed: list[tuple[VirtualMachineInstance, str, Resolution]] = []
    for vmi in sorted(inputs.vmis, key=lambda vmi: vmi.key):
        if vmi.status.phase in ("Succeeded", "Failed") or not dra_devices(vmi):
            continue
        current = current_pod(vmi, pods[vmi.namespace, vmi.metadata.uid], migration_target=options.migration_target)
        named = (claims.get(f"{vmi.namespace}/{name}") for name in _claim_names(vmi, current))
        resolution = resolve(vmi, current, (claim for claim in named if claim is not None), published, options)
        settled = settle(vmi, resolution)
        updated = with_status(vmi, settled, inputs.now)
        if updated is not vmi:
            actions.append(WriteStatus(updated))
        events += (warning(vmi, warned.reason, f"{warned.subject}: {warned.message}") for warned in settled.warnings)
        placed.append((vmi, (current.spec.node_name if current is not None else None) or "", resolution))
    return Plan(tuple(actions), (*events, *_shared(placed)))


def _claim_names(vmi: VirtualMachineInstance, pod: Pod | None) -> set[str]:
    """Every claim object that an entry may lead to."""
    names = {entry.resource_claim_name for entry in vmi.spec.resource_claims}
    if pod is not None:
        names |= {entry.resource_claim_name for entry in pod.spec.resource_claims}
        names |= {status.resource_claim_name for status in pod.status.resource_claim_statuses}
    return {name for name in names if name}


def with_status(vmi: VirtualMachineInstance, settled: Settled, now: datetime) -> VirtualMachineInstance:
    """The VMI with the settled deviceStatus and conditions; the very same object if nothing differs."""
    conditions = list(vmi.status.conditions)
    told = settled.unresolved
    first = next((u for u in told if u.state == "error"), told[0] if told else None)
    _set(conditions, DEVICES_RESOLVED, first.reason if first else "", _sentences(told), ALL_RESOLVED, now)
    unhealthy: tuple[Unresolved | Warned, ...] = (
        *settled.lost,
        *(w for w in settled.warnings if w.reason in (DEVICE_CHANGED, DEVICE_TAINTED)),
    )
    if unhealthy or any(condition.get("type") == DEVICES_HEALTHY for condition in conditions):
        _set(conditions, DEVICES_HEALTHY, unhealthy[0].reason if unhealthy else "", _sentences(unhealthy), ALL_HEALTHY, now)
    status, old = settled.device_status(), vmi.status.device_status
    same = status is not None and old is not None and status.to_wire() == old.to_wire()
    if same and conditions == list(vmi.status.conditions):
        return vmi
    return vmi.with_(status=vmi.status.with_(device_status=status, conditions=tuple(conditions)))


def _sentences(told: Sequence[Unresolved | Warned]) -> str:
    return "; ".join(f"{about.subject}: {about.message}" for about in told)


def _set(conditions: list[Json], kind: str, reason: str, message: str, fine: str, now: datetime) -> None:
    """Put a condition in place; True with reason ``fine`` unless there is a reason. The transition time moves with the status only."""
    wanted: Json = {"type": kind, "status": "False" if reason else "True", "reason": reason or fine, "message": message}
    for position, old in enumerate(conditions):
        if old.get("type") == kind:
            if any(old.get(key, "") != value for key, value in wanted.items()):
                moved = old.get("status") != wanted["status"]
                since = format_time(now) if moved else old.get("lastTransitionTime", format_time(now))
                conditions[position] = {**old, **wanted, "lastTransitionTime": since}
            return
    conditions.append({**wanted, "lastTransitionTime": format_time(now)})


def _shared(placed: Iterable[tuple[VirtualMachineInstance, str, Resolution]]) -> list[Event]:
    """A warning for each VMI after the first that has an address of the same node (K-5.13). Nodes number their devices alike."""
    holders: dict[tuple[str, str], tuple[VirtualMachineInstance, Outcome]] = {}
    events: list[Event] = []
    for vmi, node, resolution in placed:
        for outcome in resolution.outcomes:
            if not node or not isinstance(outcome, Resolved):
                continue
            other, first = holders.setdefault((node, outcome.addresses.identity), (vmi, outcome))
            if other is not vmi:
                message = (
                    f"{outcome.subject}: {outcome.addresses.identity} on node {node} is also {first.subject} of VMI {other.key}; "
                    "only a driver that shares the device makes this work"
                )
                events.append(warning(vmi, SHARED_ADDRESS, message))
    return events


async def apply(writer: Writer, actions: Iterable[Action]) -> tuple[Event, ...]:
    """Write; what the cluster refused comes back as events. A VMI that changed or went meanwhile is left to the next pass."""
    events: list[Event] = []
    for action in actions:
        try:
            await writer.update(action.vmi)
        except ApiError as error:
            if not outdated(error):
                events.append(warning(action.vmi, UPDATE_FAILED, str(error)))
    return tuple(events)


async def reconcile(cluster: Cluster, now: datetime, namespace: str = "", options: Options = DEFAULTS) -> tuple[Event, ...]:
    """One pass: gather, plan, apply. What is to be told, and what the cluster refused, is returned."""
    planned = plan(await gather(cluster, now, namespace, options))
    return (*planned.events, *await apply(cluster, planned.actions))
