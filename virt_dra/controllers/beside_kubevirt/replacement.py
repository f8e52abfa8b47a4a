"""The plan that has KubeVirt replace a launcher pod that was made before its driver was known (K-12.10). Pure.

Such a pod has virt-dra's volume where a driver that writes metadata mounts its file, so its container is never made.
virt-controller takes a VMI whose pod somebody deletes for failed, so this is done only where KubeVirt then makes
another: for a VM whose run strategy says so, and for a VirtualMachineInstanceReplicaSet.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from virt_dra.api.integration.paths import DRIVER_UNKNOWN, ClaimRequestPair
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.controllers.beside_kubevirt.current_devices import current_devices
from virt_dra.controllers.devices.delivery import METADATA_CLASH
from virt_dra.controllers.devices.inputs import DeviceInputs
from virt_dra.controllers.devices.options import moment_after
from virt_dra.controllers.events import Event, normal
from virt_dra.controllers.profiles.reconcile import AppliedProfiles
from virt_dra.controllers.profiles.taken_back import restarts
from virt_dra.controllers.writes import Delete

POD_REPLACED: Final = "PodReplaced"
"""Event of the VM, or of a VMI that no VM owns: its launcher pod was deleted, so that KubeVirt makes another."""

REPLICA_SET_KIND: Final = "VirtualMachineInstanceReplicaSet"
REPLICA_SET_PAUSE: Final = timedelta(seconds=30)
"""The least age of a replica's pod. A replica set makes the next VMI at once, while a VM waits longer after each
failure: should the next pod be made in the same way, it isn't replaced in a tight loop."""


@dataclass(frozen=True)
class Replacement:
    """The deletion of a pod that KubeVirt then replaces. ``due``: when it may be deleted. ``event``: to emit once it
    is."""

    due: datetime
    delete: Delete
    event: Event


def plan(inputs: DeviceInputs, vm: VirtualMachine | None) -> Replacement | None:
    """The deletion of the current pod, if that helps. ``vm``: the VM of the VMI's name."""
    pod, vmi = inputs.pod, inputs.vmi
    of_replica_set = _of_replica_set(vmi)
    concerned = vmi if of_replica_set else vm if vm is not None and restarts(vm, vmi) else None
    if pod is None or concerned is None:
        return None
    if pod.metadata.deletion_timestamp is not None or pod.status.phase not in (None, "", "Pending"):
        return None
    current = current_devices(inputs)
    if current is None or current.record is None:
        return None
    pause = REPLICA_SET_PAUSE if of_replica_set else timedelta()
    due = moment_after(pod.metadata.creation_timestamp, pause, inputs.options.count_from) or inputs.now
    by_timeout = {recorded.pair for recorded in current.record.pairs if recorded.reason == DRIVER_UNKNOWN}
    for device in current.report.devices:
        obstacle, subject = device.obstacle, device.subject
        pair = ClaimRequestPair(subject.claim_name, subject.request_name)
        if obstacle is not None and obstacle.reason == METADATA_CLASH and pair in by_timeout:
            text = (
                f"pod {pod.name} is deleted, so that KubeVirt makes another: it was made before the driver of "
                f"{subject} was known, which mounts a metadata file of its own"
            )
            return Replacement(due, Delete.object(pod), normal(concerned, POD_REPLACED, text))
    return None


def for_alignment(inputs: DeviceInputs, applied: AppliedProfiles | None) -> Replacement | None:
    """The deletion of a pod whose claims ask for devices together that no node has any more, unless it changed
    meanwhile."""
    if inputs.pod is None or applied is None or applied.lost is None:
        return None
    return Replacement(inputs.now, Delete.object(inputs.pod, unchanged=True), applied.lost)


def _of_replica_set(vmi: VirtualMachineInstance) -> bool:
    """True if a VirtualMachineInstanceReplicaSet owns the VMI. A failed VMI is better for it, even for a paused one: it
    replaces that later, while one that hangs counts as a replica for ever."""
    owner = vmi.metadata.controller_owner
    return owner is not None and owner.kind == REPLICA_SET_KIND and owner.api_version.startswith("kubevirt.io/")
