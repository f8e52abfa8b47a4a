"""The plan that publishes a VMI's devices beside KubeVirt: in an object of our own and in an annotation of the VMI
(K-5.21, K-9.2, 0012).

A plan is empty when both are up to date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.device_claims import assign, read_device_claims
from virt_dra.api.integration.paths import DEVICE_STATUS_ANNOTATION, PART_OF, PART_OF_LABEL
from virt_dra.api.integration.record import Integration
from virt_dra.api.kubevirt_v1 import DeviceStatus, VirtualMachineInstance
from virt_dra.api.meta import Condition
from virt_dra.api.reading.json_annotations import AnnotationError
from virt_dra.api.virt_dra_v1alpha1 import MigrationTarget, VirtualMachineInstanceDevices
from virt_dra.controllers.beside_kubevirt.devices_object import (
    finished,
    frozen_in,
    metadata_of,
    status_for,
    target_for,
    transitions,
)
from virt_dra.controllers.beside_kubevirt.pod_creation import with_creation_failure
from virt_dra.controllers.devices.delivery import NOTHING_UNFILLED, with_obstacles
from virt_dra.controllers.devices.inputs import DeviceInputs, annotation_value, with_shared
from virt_dra.controllers.devices.networks import network_devices
from virt_dra.controllers.devices.report import ReportContext, device_report
from virt_dra.controllers.devices.resolution import resolve
from virt_dra.controllers.devices.subjects import DeviceSubject, dra_devices
from virt_dra.controllers.events import Event, shortened, warning
from virt_dra.controllers.pods.current_pod import migration_target
from virt_dra.controllers.sources import owned_by
from virt_dra.controllers.writes import Create, Delete, PatchAnnotations, Update, Write

BAD_RECORD: Final = "BadIntegrationAnnotation"
"""Event: the pod's annotation can't be read, so the webhook's changes to the pod are unknown."""


@dataclass(frozen=True)
class PublicationPlan:
    """``events`` are emitted once the actions are done."""

    actions: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()


NOTHING: Final = PublicationPlan()


def plan(
    inputs: DeviceInputs, pending: Condition | None = None, unfilled: Mapping[str, str] = NOTHING_UNFILLED
) -> PublicationPlan:
    """The writes that publish the devices. ``pending``: the new condition Allocatable, if there is one. ``unfilled``:
    why the current pod can't be filled in (``delivery.NOT_FILLED_IN``)."""
    vmi, pod, stored = inputs.vmi, inputs.pod, inputs.stored
    if stored is not None and stored.metadata.deletion_timestamp is not None:
        return NOTHING  # recreated once it is gone
    record, events = _record(vmi, pod)
    claimed = dra_devices(vmi)
    devices = _subjects(vmi, pod, record)
    theirs = stored is not None and not owned_by(stored, vmi)
    before = None if theirs else stored
    if not devices:
        gone = (Delete.object(stored),) if stored is not None and not theirs else ()
        return PublicationPlan((*gone, *_annotation(vmi, None)))
    options = replace(inputs.options, now=inputs.now)
    resolution = resolve(vmi, pod, inputs.claims.values(), inputs.published, options, devices)
    resolution = with_shared(resolution, inputs)
    running = vmi.status.phase == "Running"
    if pod is None:
        resolution = with_creation_failure(resolution, vmi, inputs.now, inputs.options.count_from)
    resolution = with_obstacles(resolution, vmi, pod, record, options.writers, running=running, unfilled=unfilled)
    report = device_report(resolution, ReportContext(running, frozen_in(before, pod), inputs.rules, pod))
    target, more = _target(inputs, before)
    status = status_for(report, pod, record, before, claimed, pending, inputs.now, target)
    events = (*events, *more)
    actions: list[Write] = []
    if before is None:
        made = VirtualMachineInstanceDevices(metadata=metadata_of(vmi), status=status)
        # One of an earlier VMI of this name is in the way until the garbage collector comes to it.
        actions += [Delete.object(stored), Create(made)] if stored is not None else [Create(made)]
    elif status.to_wire() != before.status.to_wire() or before.metadata.labels.get(PART_OF_LABEL) != PART_OF:
        labels = {**before.metadata.labels, PART_OF_LABEL: PART_OF}
        actions.append(Update(before.with_(metadata=before.metadata.with_(labels=labels), status=status)))
    transition_events = transitions(vmi, before.status if before is not None else None, status) if actions else ()
    return PublicationPlan(
        (*actions, *_annotation(vmi, status.device_status)), (*(events if actions else ()), *transition_events)
    )


def plan_finished(
    vmi: VirtualMachineInstance, stored: VirtualMachineInstanceDevices | None, now: datetime
) -> PublicationPlan:
    """The write that marks the object of a finished VMI, which otherwise stays as it is, like the VMI's annotation."""
    if stored is None or stored.metadata.deletion_timestamp is not None or not owned_by(stored, vmi):
        return NOTHING
    status = finished(stored.status, vmi.status.phase or "", now)
    if status.to_wire() == stored.status.to_wire():
        return NOTHING
    return PublicationPlan((Update(stored.with_(status=status)),))


def _target(
    inputs: DeviceInputs, stored: VirtualMachineInstanceDevices | None
) -> tuple[MigrationTarget | None, tuple[Event, ...]]:
    """The status of the pod that the VMI migrates to (K-10.5). Nothing is frozen, as the guest doesn't run there
    yet."""
    pod = migration_target(inputs.vmi, inputs.pods)
    if pod is None:
        return None, ()
    record, events = _record(inputs.vmi, pod)
    options = replace(inputs.options, now=inputs.now, migration_target=True)
    devices = _subjects(inputs.vmi, pod, record)
    resolution = resolve(inputs.vmi, pod, inputs.claims.values(), inputs.published, options, devices)
    resolution = with_obstacles(resolution, inputs.vmi, pod, record, options.writers, running=False)
    report = device_report(resolution, ReportContext(rules=inputs.rules, pod=pod))
    return target_for(report, pod, record, stored), events


def _subjects(vmi: VirtualMachineInstance, pod: Pod | None, record: Integration | None) -> tuple[DeviceSubject, ...]:
    """The published devices: DRA devices, devices of the device-plugin path, networks with claims."""
    claimed = dra_devices(vmi)
    plugins = _plugin_devices(vmi, pod, record, len(claimed))
    return (*claimed, *plugins, *network_devices(vmi, pod, len(claimed) + len(plugins)))


def _record(vmi: VirtualMachineInstance, pod: Pod | None) -> tuple[Integration | None, tuple[Event, ...]]:
    if pod is None:
        return None, ()
    try:
        return Integration.from_annotations(pod.metadata.annotations), ()
    except AnnotationError as error:
        return Integration(), (warning(vmi, BAD_RECORD, shortened(f"pod {pod.name}: {error}")),)


def _wanted_plugin_devices(vmi: VirtualMachineInstance, first: int) -> tuple[DeviceSubject, ...]:
    """The devices that the VMI's annotation names, before there is a pod; none if it is invalid, which prevents the
    pod's creation."""
    try:
        wanted = read_device_claims(vmi.metadata.annotations)
        assigned = assign(vmi, wanted) if wanted else ()
    except AnnotationError:
        return ()
    return tuple(
        DeviceSubject(first + n, device.kind, device.name, device.entry.name, device.request)
        for n, device in enumerate(assigned)
    )


def _plugin_devices(
    vmi: VirtualMachineInstance, pod: Pod | None, record: Integration | None, first: int
) -> tuple[DeviceSubject, ...]:
    """The devices of the device-plugin path: those of the record that the VMI has. gpus first, in spec order."""
    if pod is None:
        return _wanted_plugin_devices(vmi, first)
    devices = vmi.spec.domain.devices
    recorded = {
        (device.kind, device.name, device.resource): device for device in (record.devices if record is not None else ())
    }
    found_devices: list[DeviceSubject] = []
    for kind, entries in (("gpus", devices.gpus), ("hostDevices", devices.host_devices)):
        for entry in entries:
            device = recorded.get(("gpus" if kind == "gpus" else "hostDevices", entry.name, entry.device_name or ""))
            if device is not None and entry.is_plugin:
                found_devices.append(
                    DeviceSubject(first + len(found_devices), device.kind, entry.name, device.claim, device.request)
                )
    return tuple(found_devices)


def _annotation(vmi: VirtualMachineInstance, status: DeviceStatus | None) -> Sequence[PatchAnnotations]:
    """The deviceStatus on the VMI, from when a device has an address. A value that isn't ours (K-4.2) is corrected or
    removed."""
    wanted = annotation_value(status)
    if vmi.metadata.annotations.get(DEVICE_STATUS_ANNOTATION) == wanted:
        return ()
    return (PatchAnnotations.on(vmi, {DEVICE_STATUS_ANNOTATION: wanted}),)
