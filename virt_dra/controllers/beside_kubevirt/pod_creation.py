"""The reason why KubeVirt has not created a VMI's launcher pod, from its condition ``Synchronized`` (K-12.9). Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.controllers.devices.options import CountFrom, as_stated, moment_after
from virt_dra.controllers.devices.outcomes import POD_MISSING, DeviceResolution, OutcomeState, UnresolvedDevice
from virt_dra.controllers.events import shortened
from virt_dra.controllers.kubevirt_failures import UNPROCESSED, creation_failure, synchronized

POD_NOT_CREATED: Final = "PodNotCreated"
"""Error: KubeVirt can't create the launcher pod. It retries, usually without success until an object is changed."""

_MESSAGE: Final = 2048
_PASSING: Final = timedelta(seconds=2)


def error_at(vmi: VirtualMachineInstance, count_from: CountFrom = as_stated) -> datetime | None:
    """The time from which a failed creation counts as an error, as a first attempt may fail for a late informer. None:
    nothing failed, or the failure has no time and counts at once."""
    failure = creation_failure(vmi)
    return moment_after(failure.last_transition_time, _PASSING, count_from) if failure is not None else None


def with_creation_failure(
    resolution: DeviceResolution, vmi: VirtualMachineInstance, now: datetime, count_from: CountFrom = as_stated
) -> DeviceResolution:
    """The resolution of a VMI without a pod, with KubeVirt's reason in place of PodMissing if there is one."""
    failure = synchronized(vmi) if vmi.status.phase in UNPROCESSED else None
    if failure is None:
        return resolution
    moment = error_at(vmi, count_from)
    final = creation_failure(vmi) is not None and (moment is None or moment <= now)
    said = f"({failure.reason or 'no reason'}): {shortened(failure.message or '', _MESSAGE)}"
    failed = f"KubeVirt can't create the launcher pod {said}. It retries; see the VMI's events for the latest attempt"
    message = failed if final else f"KubeVirt has not created the launcher pod yet {said}"
    state: OutcomeState = "error" if final else "pending"
    reason = POD_NOT_CREATED if final else POD_MISSING
    outcomes = tuple(
        UnresolvedDevice(o.subject, reason, state, message)
        if isinstance(o, UnresolvedDevice) and o.reason == POD_MISSING
        else o
        for o in resolution.outcomes
    )
    return replace(resolution, outcomes=outcomes)
