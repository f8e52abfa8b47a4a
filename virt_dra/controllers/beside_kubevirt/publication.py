"""The plan that publishes a VMI's devices beside KubeVirt: in an object of our own and in an annotation of the VMI
(K-5.21, K-9.2, 0012)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from virt_dra.api.integration.paths import DEVICE_STATUS_ANNOTATION, PART_OF, PART_OF_LABEL
from virt_dra.api.kubevirt_v1 import DeviceStatus, VirtualMachineInstance
from virt_dra.api.meta import Condition
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.controllers.beside_kubevirt.current_devices import (
    DevicesOfPod,
    current_devices,
    own_object,
    target_devices,
)
from virt_dra.controllers.beside_kubevirt.devices_object import (
    finished,
    metadata_of,
    status_for,
    target_for,
    transitions,
)
from virt_dra.controllers.devices.delivery import NOTHING_UNFILLED
from virt_dra.controllers.devices.inputs import DeviceInputs, annotation_value
from virt_dra.controllers.devices.report import DeviceReport
from virt_dra.controllers.devices.subjects import dra_devices
from virt_dra.controllers.events import Event
from virt_dra.controllers.pods.current_pod import migration_target
from virt_dra.controllers.profiles.reconcile import AppliedProfiles
from virt_dra.controllers.writes import Create, Delete, PatchAnnotations, Update, Write


@dataclass(frozen=True)
class PublicationPlan:
    """The writes that publish devices. ``events`` are emitted once the actions are done."""

    actions: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()


NOTHING: Final = PublicationPlan()


def plan(
    inputs: DeviceInputs,
    pending: Condition | None = None,
    unfilled: Mapping[str, str] = NOTHING_UNFILLED,
    applied: AppliedProfiles | None = None,
) -> PublicationPlan:
    """The writes that publish the devices. ``pending``: the new condition Allocatable, if any. ``unfilled``: why the
    current pod can't be filled in (``delivery.NOT_FILLED_IN``). ``applied``: of the VMI's line of profiles, if it has
    one; then there is an object also for a VMI without devices."""
    vmi, stored = inputs.vmi, inputs.stored
    if stored is not None and stored.metadata.deletion_timestamp is not None:
        return NOTHING  # recreated once it is gone
    current, before = current_devices(inputs, unfilled, applied), own_object(inputs)
    if current is None and applied is not None:
        current = DevicesOfPod(None, DeviceReport(()))
    if current is None:
        gone = (Delete.object(before),) if before is not None else ()
        return PublicationPlan((*gone, *_annotation(vmi, None)))
    events, migration = current.events, None
    target_pod = migration_target(vmi, inputs.pods)
    if target_pod is not None:
        target = target_devices(inputs, target_pod)
        migration = target_for(target.report, target_pod, target.record, before)
        events += target.events
    claimed = dra_devices(vmi)
    status = status_for(
        current.report, inputs.pod, current.record, before, claimed, pending, inputs.now, migration, applied
    )
    actions: list[Write] = []
    if before is None:
        made = VirtualMachineInstanceDevices(metadata=metadata_of(vmi), status=status)
        # One of an earlier VMI of this name is in the way until the garbage collector comes to it.
        actions += [Delete.object(stored), Create(made)] if stored is not None else [Create(made)]
    elif status.to_wire() != before.status.to_wire() or before.metadata.labels.get(PART_OF_LABEL) != PART_OF:
        labels = {**before.metadata.labels, PART_OF_LABEL: PART_OF}
        actions.append(Update(before.with_(metadata=before.metadata.with_(labels=labels), status=status)))
    transition_events = transitions(vmi, before.status if before is not None else None, status) if actions else ()
    if applied is not None and actions:
        conditions = before.status.conditions if before is not None else ()
        transition_events += applied.events_since(condition.to_wire() for condition in conditions)
    return PublicationPlan(
        (*actions, *_annotation(vmi, status.device_status)), (*(events if actions else ()), *transition_events)
    )


def plan_finished(
    vmi: VirtualMachineInstance, stored: VirtualMachineInstanceDevices | None, now: datetime
) -> PublicationPlan:
    """The write that marks the object of a finished VMI, which otherwise stays as it is, like the VMI's annotation."""
    if stored is None or stored.metadata.deletion_timestamp is not None or not stored.is_controlled_by(vmi):
        return NOTHING
    status = finished(stored.status, vmi.status.phase or "", now)
    if status.to_wire() == stored.status.to_wire():
        return NOTHING
    return PublicationPlan((Update(stored.with_(status=status)),))


def _annotation(vmi: VirtualMachineInstance, status: DeviceStatus | None) -> Sequence[PatchAnnotations]:
    """The patch that sets the deviceStatus on the VMI once a device has an address; a value of others (K-4.2) is
    replaced."""
    wanted = annotation_value(status)
    if vmi.metadata.annotations.get(DEVICE_STATUS_ANNOTATION) == wanted:
        return ()
    return (PatchAnnotations.on(vmi, {DEVICE_STATUS_ANNOTATION: wanted}),)
