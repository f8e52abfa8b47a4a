"""The reconcile of a VMI without KubeVirt: its pod, its phase, its devices (K-5.14, K-12.1, 0012). The VMI's own status
holds the result; its pod gets the deviceStatus as an annotation once every device has an address, because the launcher
has no token to read it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from virt_dra.api.core_v1 import FINISHED, Pod
from virt_dra.api.integration.standalone import POD_DEVICE_STATUS_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.kubevirt_versions import NETWORK_DEVICES_WITH_DRA, Gates
from virt_dra.api.meta import Condition
from virt_dra.api.virt_dra_v1alpha1 import ALLOCATABLE, PROFILES_APPLIED
from virt_dra.api.wire import Json, WireError
from virt_dra.cluster.port import Cluster
from virt_dra.controllers.conditions import condition_of, put, without
from virt_dra.controllers.devices.inputs import DeviceInputs as Devices
from virt_dra.controllers.devices.inputs import annotation_value, requeue_at, with_shared
from virt_dra.controllers.devices.inputs import gather as gather_devices
from virt_dra.controllers.devices.networks import network_devices
from virt_dra.controllers.devices.options import DEFAULTS, ResolutionOptions
from virt_dra.controllers.devices.outcomes import SHARED_ADDRESS
from virt_dra.controllers.devices.report import DeviceReport
from virt_dra.controllers.devices.resolution import resolve
from virt_dra.controllers.devices.subjects import dra_devices
from virt_dra.controllers.events import MESSAGE_LIMIT, Event, normal, shortened, warning
from virt_dra.controllers.loops.device_status import own_report, sentences, with_status
from virt_dra.controllers.pods.current_pod import CREATED_BY_LABEL, EPHEMERAL_ANNOTATION, launcher_pods_of
from virt_dra.controllers.pods.launcher_resources import RenderError
from virt_dra.controllers.profiles import reconcile as profiles
from virt_dra.controllers.profiles.reconcile import AppliedProfiles
from virt_dra.controllers.reconciled import NOT_ALLOCATABLE, NOTHING, Align, Explain, Reconciled
from virt_dra.controllers.sources import Sources, ends
from virt_dra.controllers.standalone.instance_phase import READY, STARTED, with_phase
from virt_dra.controllers.standalone.instance_phase import verdict as phase_of
from virt_dra.controllers.standalone.networks import annotations_for, started_with
from virt_dra.controllers.standalone.pod import StandaloneOptions, pod_name, standalone_pod
from virt_dra.controllers.writes import Create, Delete, PatchAnnotations, PatchStatus, Write, write

CANNOT_RENDER: Final = "CannotRenderPod"
"""Event: no pod can be rendered from the VMI; its condition Ready says why."""
DEVICES_SHARED: Final = "DevicesShared"
"""Condition, present only while True: an earlier VMI has a device with the same address."""
NAME_TAKEN: Final = "PodNameTaken"
"""Event: a pod that isn't the VMI's has the name of its pod."""


@dataclass(frozen=True)
class StandaloneSettings:
    """The administrator's settings for standalone mode."""

    gates: Gates
    pods: StandaloneOptions
    resolution: ResolutionOptions = DEFAULTS


@dataclass(frozen=True)
class StandaloneInputs:
    """``pods``: all launcher pods of the VMI, finished ones too, the newest last. ``devices``: of which it is
    resolved."""

    devices: Devices
    pods: tuple[Pod, ...]
    settings: StandaloneSettings

    @property
    def vmi(self) -> VirtualMachineInstance:
        return self.devices.vmi


@dataclass(frozen=True)
class StandalonePlan:
    """The writes for a VMI. ``check_gone``: its pod is taken to be gone, which the API server must confirm first."""

    first: tuple[Write, ...] = ()
    then: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()
    check_gone: bool = False
    requeue_at: datetime | None = None


def gather(sources: Sources, key: str, now: datetime, settings: StandaloneSettings) -> StandaloneInputs | None:
    """The inputs of a VMI; None if it doesn't exist, terminates or has finished."""
    devices = gather_devices(sources, key, now, settings.resolution, _holding)
    if devices is None:
        return None
    pods = [
        pod
        for pod in launcher_pods_of(devices.vmi, sources.pods_of(devices.vmi))
        if EPHEMERAL_ANNOTATION not in pod.metadata.annotations
    ]
    return StandaloneInputs(
        devices, tuple(sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.name))), settings
    )


def _holding(sources: Sources, address: str) -> Iterable[str]:
    """The VMIs whose own status has the address."""
    return (vmi.key for vmi in sources.instances_at(address) if not ends(vmi))


def plan(
    inputs: StandaloneInputs, pending: Condition | None = None, applied: AppliedProfiles | None = None
) -> StandalonePlan:
    """The plan for a VMI. ``pending``: the new condition Allocatable, if any. ``applied``: of its line of profiles, if
    any."""
    vmi, now = inputs.vmi, inputs.devices.now
    pod = inputs.devices.pod or (inputs.pods[-1] if inputs.pods else None)
    first: list[Write] = []
    events: list[Event] = []
    verdict = phase_of(vmi, pod)
    if pod is None and vmi.status.phase not in STARTED:
        rendered = standalone_pod(vmi, inputs.settings.gates, inputs.settings.pods)
        if isinstance(rendered, RenderError):
            message = f"{rendered.subject}: {rendered.message}"
            verdict = replace(verdict, reason=rendered.reason, message=message)
            if _ready_reason(vmi) != (rendered.reason, message):
                events.append(warning(vmi, CANNOT_RENDER, shortened(message)))
        else:
            first.append(Create(rendered))
    updated = with_phase(vmi, pod, verdict, now)
    report = _devices(inputs, applied)
    if report is not None and verdict.phase not in FINISHED:
        updated = with_status(updated, report, now)
        first += _pod_annotations(inputs.devices, report)
        updated = _with_shared(updated, report, now)
    updated = _with_profiles(_with_pending(updated, inputs.devices.pod, pending), applied, now)
    then = (PatchStatus.between(vmi, updated),) if updated is not vmi else ()
    if then and not then[0].changes:
        then = ()
    events += _status_events(vmi, updated) if then else ()
    events += applied.events_since(vmi.status.conditions) if then and applied is not None else ()
    return StandalonePlan(
        tuple(first), then, tuple(events), pod is None and vmi.status.phase in STARTED, requeue_at(inputs.devices)
    )


def _ready_reason(vmi: VirtualMachineInstance) -> tuple[object, object]:
    ready = condition_of(vmi.status.conditions, READY) or {}
    return ready.get("reason"), ready.get("message")


def _with_profiles(
    vmi: VirtualMachineInstance, applied: AppliedProfiles | None, now: datetime
) -> VirtualMachineInstance:
    conditions = vmi.status.conditions
    return _with_conditions(
        vmi, without(conditions, PROFILES_APPLIED) if applied is None else applied.added_to(conditions, now)
    )


def _with_conditions(vmi: VirtualMachineInstance, conditions: tuple[Json, ...]) -> VirtualMachineInstance:
    """The VMI with these conditions; the same object if it has them."""
    same = conditions == vmi.status.conditions
    return vmi if same else vmi.with_(status=vmi.status.with_(conditions=conditions))


def _devices(inputs: StandaloneInputs, applied: AppliedProfiles | None) -> DeviceReport | None:
    """The report on the VMI's devices; None if it has none."""
    devices = inputs.devices
    vmi, pod = devices.vmi, devices.pod
    subjects = dra_devices(vmi)
    if NETWORK_DEVICES_WITH_DRA in inputs.settings.gates:
        subjects = (*subjects, *network_devices(vmi, pod, len(subjects)))
    if not subjects:
        return None
    options = replace(devices.options, now=devices.now)
    resolution = resolve(vmi, pod, devices.claims.values(), devices.published, options, subjects)
    if applied is not None:
        resolution = applied.shown_in(resolution)
    return own_report(vmi, with_shared(resolution, devices), devices.rules, pod, started_with(vmi, pod))


def _with_shared(vmi: VirtualMachineInstance, report: DeviceReport, now: datetime) -> VirtualMachineInstance:
    """The VMI with the condition DevicesShared while another VMI has the same address (K-5.33)."""
    shared = [warned for warned in report.warnings if warned.reason == SHARED_ADDRESS]
    conditions = vmi.status.conditions
    if not shared:
        return _with_conditions(vmi, without(conditions, DEVICES_SHARED))
    text = shortened(sentences(shared), MESSAGE_LIMIT)
    return _with_conditions(vmi, put(conditions, DEVICES_SHARED, "True", SHARED_ADDRESS, text, now))


def _pod_annotations(devices: Devices, report: DeviceReport) -> tuple[PatchAnnotations, ...]:
    """The patch that gives the launcher the complete deviceStatus and the networks' metadata."""
    pod = devices.pod
    if pod is None:
        return ()
    wanted = dict(annotations_for(devices, pod))
    if not report.unresolved:
        wanted[POD_DEVICE_STATUS_ANNOTATION] = annotation_value(report.device_status())
    changes = {key: value for key, value in wanted.items() if pod.metadata.annotations.get(key) != value}
    return (PatchAnnotations.on(pod, changes, unchanged=True),) if changes else ()


def _with_pending(vmi: VirtualMachineInstance, pod: Pod | None, pending: Condition | None) -> VirtualMachineInstance:
    others = without(vmi.status.conditions, ALLOCATABLE)
    if pod is None or pod.spec.node_name:
        return _with_conditions(vmi, others)
    return vmi if pending is None else _with_conditions(vmi, (*others, pending.to_wire()))


def _previous_allocatable(vmi: VirtualMachineInstance) -> Condition | None:
    """The condition Allocatable that was written last; None if it is missing or malformed."""
    condition = condition_of(vmi.status.conditions, ALLOCATABLE)
    try:
        return Condition.from_wire(condition) if condition is not None else None
    except WireError:
        return None


def _status_events(old: VirtualMachineInstance, new: VirtualMachineInstance) -> tuple[Event, ...]:
    """The Events for a change of the VMI's status."""
    events: list[Event] = []
    reason, message = _ready_reason(new)
    if new.status.phase != old.status.phase:
        if new.status.phase == "Failed":
            events.append(warning(new, str(reason), shortened(str(message))))
        elif new.status.phase in ("Running", "Succeeded"):
            where = f" on node {new.status.node_name}" if new.status.node_name else ""
            state = "runs" if new.status.phase == "Running" else "has ended"
            events.append(normal(new, str(new.status.phase), f"the guest {state}{where}"))
    before = {condition.get("type"): condition for condition in old.status.conditions}
    for condition in new.status.conditions:
        kind, earlier = condition.get("type"), before.get(condition.get("type"), {})
        status, why, text = (condition.get(key) for key in ("status", "reason", "message"))
        changed = (status, why, text) != (earlier.get("status"), earlier.get("reason"), earlier.get("message"))
        if kind == ALLOCATABLE and status == "False" and changed:
            events.append(warning(new, NOT_ALLOCATABLE, shortened(str(text))))
        elif kind == DEVICES_SHARED and changed:
            events.append(warning(new, SHARED_ADDRESS, shortened(str(text))))
        elif kind == "DevicesHealthy" and status == "False" and why != earlier.get("reason"):
            events.append(warning(new, str(why), shortened(str(text))))
        elif kind == "DevicesResolved" and status == "True" and earlier.get("status") != "True":
            events.append(normal(new, "DevicesResolved", "every device has an address"))
    return tuple(events)


async def reconcile(
    sources: Sources,
    cluster: Cluster,
    key: str,
    now: datetime,
    settings: StandaloneSettings,
    explain: Explain | None = None,
    align: Align | None = None,
) -> Reconciled:
    """Gather, plan and apply for the VMI ``namespace/name``. Raises :class:`ApiError` for a write to retry."""
    inputs = gather(sources, key, now, settings)
    if inputs is None:
        return NOTHING
    vmi = inputs.vmi
    applied = await profiles.reconcile(sources, cluster, inputs.devices, align)
    planned = plan(
        inputs, explain(inputs.devices, _previous_allocatable(vmi)) if explain is not None else None, applied
    )
    if planned.check_gone:
        # The informers of VMIs and pods are independent: a VMI must not fail because its pod is missing in a stale
        # store.
        existing = await cluster.list(Pod, vmi.namespace, labels=f"{CREATED_BY_LABEL}={vmi.metadata.uid}")
        if existing.items:
            return Reconciled(stale=True)
    if applied is not None and applied.lost is not None:
        # The VM makes another. The pod must be as it was judged: it may have a node by now.
        if not await _is_unchanged(cluster, inputs.devices.pod):
            return applied.reconciled.combined_with(Reconciled(stale=True))
        ended = await write(cluster, (Delete.object(vmi),), vmi)
        events = (applied.lost,) if ended.done else ended.refused
        return applied.reconciled.combined_with(Reconciled(events, stale=ended.stale, written=int(ended.done)))
    first = await write(cluster, planned.first, vmi)
    if first.stale and any(isinstance(action, Create) for action in planned.first):
        return await _name_taken(cluster, vmi)
    then = await write(cluster, planned.then, vmi)
    events = (*(planned.events if then.done else ()), *first.refused, *then.refused)
    written = sum(len(actions) for actions, outcome in ((planned.first, first), (planned.then, then)) if outcome.done)
    done = Reconciled(events, (), first.stale or then.stale, planned.requeue_at, written)
    return done if applied is None else applied.reconciled.combined_with(done)


async def _is_unchanged(cluster: Cluster, pod: Pod | None) -> bool:
    """True if the API server has the pod as the informer does."""
    if pod is None:
        return False
    named = (await cluster.list(Pod, pod.namespace, fields=f"metadata.name={pod.name}")).items
    return any(
        (stored.metadata.uid, stored.metadata.resource_version) == (pod.metadata.uid, pod.metadata.resource_version)
        for stored in named
    )


async def _name_taken(cluster: Cluster, vmi: VirtualMachineInstance) -> Reconciled:
    """The result if a pod of that name exists: ours, and the informer is stale, or another's, which is reported."""
    named = (await cluster.list(Pod, vmi.namespace, fields=f"metadata.name={pod_name(vmi)}")).items
    if any(pod not in launcher_pods_of(vmi, named) for pod in named):
        taken = warning(vmi, NAME_TAKEN, f"pod {vmi.namespace}/{pod_name(vmi)} is not the VMI's; delete it")
        return Reconciled((taken,), stale=True)
    return Reconciled(stale=True)
