"""Takes back an alignment that a VMI's claims ask for, as no node has such devices free any more, and with other
devices it could start (decision 0024). Pure. A claim can't be changed, so the VMI has to be made anew; that is only
done where its VM makes another by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.go_text import visible
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.profiles.alignment import PreferredAlignment
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.controllers.devices.options import CountFrom, moment_after
from virt_dra.controllers.events import Event, normal, shortened
from virt_dra.controllers.loops.virtual_machines import deletes_instance, strategy_of
from virt_dra.scheduling.alignment import AlignmentResult

TAKEN_BACK: Final = "AlignmentTakenBack"
"""Event of the VM: its VMI is made anew with devices apart, as no node has them together any more."""

PAUSE: Final = timedelta(seconds=30)
"""How long a pod waits before it is asked about: most devices that are taken are there for longer, and a pod that has
just been made may only not have been tried yet."""
EVERY: Final = timedelta(minutes=1)
"""How often it is asked again whether the pod could start otherwise."""


def restarts(vm: VirtualMachine, vmi: VirtualMachineInstance) -> bool:
    """True if another VMI is made for the VM when this one fails."""
    owned = vmi.is_controlled_by(vm) and vm.metadata.deletion_timestamp is None
    strategy = strategy_of(vm)
    return owned and strategy != "Halted" and deletes_instance(strategy, "Failed")


def asked_at(
    pod: Pod | None, claims: Mapping[str, ResourceClaim], now: datetime, count_from: CountFrom
) -> tuple[int, datetime] | None:
    """The number of the question that is due about a pod, 0 for none yet, and when the next one is; None for a pod that
    doesn't wait for devices. ``claims``: the pod's, by namespace and name."""
    if pod is None or pod.metadata.deletion_timestamp is not None or pod.finished or not _is_unschedulable(pod):
        return None
    waiting = [claims.get(key) for key in pod.claim_keys]
    if any(claim is not None and claim.status.allocation is not None for claim in waiting):
        return None
    first = moment_after(pod.metadata.creation_timestamp, PAUSE, count_from) or now
    number = (now - first) // EVERY + 1 if now >= first else 0
    return number, first + number * EVERY


def _is_unschedulable(pod: Pod) -> bool:
    scheduled = pod.condition("PodScheduled")
    if pod.spec.node_name or scheduled is None:
        return False
    return (scheduled.status, scheduled.reason) == ("False", "Unschedulable")


def is_lost(
    held: Sequence[PreferredAlignment], preferences: Sequence[PreferredAlignment], result: AlignmentResult
) -> bool:
    """True if no node can serve the alignments that the claims ask for, and some node could take the pod otherwise.
    ``result``: of a request that names ``held``, so that these were tried first."""
    return result.fits and not {preferences.index(own) for own in held} <= set(result.held)


def event(vm: VirtualMachine, pod: Pod, given_up: Sequence[str]) -> Event:
    """The Event of an alignment that is taken back. ``given_up``: what the VM starts with instead."""
    text = (
        f"no node has the devices of {visible(pod.name)} together any more, so its VMI is made anew, "
        f"with {'; '.join(given_up)}"
    )
    return normal(vm, TAKEN_BACK, shortened(text))
