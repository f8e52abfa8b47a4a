"""Why a VM that was admitted doesn't start: its pod was refused, or the pod as it was made gives it no devices."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.controllers.beside_kubevirt.current_devices import current_devices
from virt_dra.controllers.beside_kubevirt.pod_creation import POD_NOT_CREATED
from virt_dra.controllers.devices.delivery import GUEST_NOT_STARTED
from virt_dra.controllers.devices.outcomes import CLAIM_IN_USE, DEVICE_NOT_PUBLISHED, POOL_INCOMPLETE, UnresolvedDevice
from virt_dra.controllers.kubevirt_failures import UNPROCESSED, creation_failure, refuser, start_failure, synchronized
from virt_dra.inventory.vm_inputs import inputs_of
from virt_dra.model.cluster import ClusterModel
from virt_dra.scheduling.framework.refusals import Reason

PUBLICATION_REASONS: Final = (POOL_INCOMPLETE, DEVICE_NOT_PUBLISHED)
"""Why an allocated device has no address: its driver doesn't publish it."""
_NOW: Final = datetime.max.replace(tzinfo=UTC)
"""What is in the way doesn't depend on the time, but for whether it counts as an error already."""


def why_not_started(vmi: VirtualMachineInstance, model: ClusterModel) -> Reason | None:
    """The reason, by what KubeVirt and the objects say; None where nothing is known to be in the way."""
    if vmi.status.phase == "Running":
        return None
    inputs = inputs_of(vmi, model, _NOW)
    if inputs.pod is None:
        failure = synchronized(vmi) if vmi.status.phase in UNPROCESSED else None
        if failure is None:
            return None
        if creation_failure(vmi) is not None:
            text = f"{refuser(failure)} refuses its pod"
        else:
            text = f"KubeVirt doesn't create its pod ({failure.reason})"
        retries = "KubeVirt retries; the VMI's events have the latest attempt"
        return Reason(POD_NOT_CREATED, f"{text}: {failure.message}. {retries}")
    current = current_devices(inputs)
    for device in current.report.devices if current is not None else ():
        withheld = device.withheld
        if withheld is not None and (withheld is device.obstacle or _keeps_waiting(withheld, inputs.pod, model)):
            return Reason(withheld.reason, f"{device.subject}: {withheld.message}")
    failure = start_failure(vmi)
    return Reason(GUEST_NOT_STARTED, f"({failure.reason}): {failure.message}") if failure is not None else None


def _keeps_waiting(device: UnresolvedDevice, pod: Pod, model: ClusterModel) -> bool:
    """True for an allocated device of a pod that has its node, without a published address, or used by another VM."""
    if not pod.spec.node_name:
        return False
    return device.reason == CLAIM_IN_USE or (device.reason in PUBLICATION_REASONS and model.knows(ResourceSlice))
