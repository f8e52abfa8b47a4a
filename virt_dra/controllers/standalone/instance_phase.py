"""A VMI's phase and conditions where there is no KubeVirt, from its launcher pod (K-12.1, K-12.2). Pure. The launcher
reports readiness by a file that a probe checks, and failure by its termination message; the kubelet copies both to the
pod's status (docs/decisions/0012-real-cluster.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from virt_dra.api.core_v1 import FINISHED, ContainerStatus, Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance, VirtualMachineInstanceStatus
from virt_dra.api.meta import format_time
from virt_dra.api.wire import Json
from virt_dra.controllers.conditions import condition_of, put, without
from virt_dra.controllers.events import shortened
from virt_dra.controllers.pods.launcher_pods import COMPUTE

VmiPhase = Literal["Pending", "Scheduling", "Scheduled", "Running", "Succeeded", "Failed"]
STARTED: Final = ("Scheduling", "Scheduled", "Running")
"""Phases of a VMI that has, or had, a pod."""

READY: Final = "Ready"
POD_SCHEDULED: Final = "PodScheduled"

POD_GONE: Final = "PodGone"
"""Failed: the launcher pod was deleted."""
LAUNCHER_FAILED: Final = "LauncherFailed"
"""Failed: the launcher ended with an error; its message says which."""
POD_FAILED: Final = "PodFailed"
"""Failed: the pod ended without a message of its launcher, for example by an eviction."""
GUEST_NOT_RUNNING: Final = "GuestNotRunning"
"""Not ready: the pod hasn't started the guest yet, or the guest ended."""
NO_POD: Final = "PodNotExists"
"""Not ready: there is no pod yet."""

_TIMES: Final = "phaseTransitionTimestamps"
_MESSAGE: Final = 4096


@dataclass(frozen=True)
class PhaseVerdict:
    """The phase, and why the VMI isn't ready (``reason`` "" where it is)."""

    phase: VmiPhase
    reason: str = ""
    message: str = ""


def verdict(vmi: VirtualMachineInstance, pod: Pod | None) -> PhaseVerdict:
    """The phase of a VMI. ``pod``: its launcher pod, finished or not; a VMI that had a pod fails without one."""
    before = vmi.status.phase
    if pod is None:
        if before in STARTED:
            return PhaseVerdict("Failed", POD_GONE, "the launcher pod was deleted")
        return PhaseVerdict("Pending", NO_POD, "the launcher pod doesn't exist yet")
    compute = next((status for status in pod.status.container_statuses if status.name == COMPUTE), None)
    if pod.status.phase == "Failed":
        return _failure(pod, compute)
    if pod.status.phase == "Succeeded":
        return PhaseVerdict("Succeeded", GUEST_NOT_RUNNING, "the guest was shut down")
    if not pod.spec.node_name:
        scheduled = _scheduled(pod) or {}
        return PhaseVerdict("Scheduling", scheduled.get("reason") or GUEST_NOT_RUNNING, scheduled.get("message") or "")
    if compute is not None and compute.ready:
        return PhaseVerdict("Running")
    # A guest that shuts down becomes unready a moment before its pod ends; it stays Running until then.
    phase: VmiPhase = "Running" if before == "Running" else "Scheduled"
    waiting = compute.state.waiting if compute is not None else None
    if waiting is not None and waiting.reason:
        return PhaseVerdict(phase, waiting.reason, waiting.message)
    message = "the launcher waits for its devices, or starts the guest" if phase == "Scheduled" else ""
    return PhaseVerdict(phase, GUEST_NOT_RUNNING, message)


def _failure(pod: Pod, compute: ContainerStatus | None) -> PhaseVerdict:
    ended = compute.state.terminated if compute is not None else None
    if ended is not None and ended.message:
        return PhaseVerdict("Failed", LAUNCHER_FAILED, ended.message)
    if pod.status.reason or pod.status.message:
        return PhaseVerdict("Failed", POD_FAILED, ": ".join(filter(None, (pod.status.reason, pod.status.message))))
    how = f"{ended.reason}, exit code {ended.exit_code}" if ended is not None else "no container says why"
    return PhaseVerdict("Failed", POD_FAILED, f"the launcher ended without a message ({how})")


def _scheduled(pod: Pod) -> Json | None:
    """The pod's condition PodScheduled if it is False."""
    condition = pod.condition(POD_SCHEDULED)
    return condition.to_wire() if condition is not None and condition.status == "False" else None


def with_phase(
    vmi: VirtualMachineInstance, pod: Pod | None, verdict: PhaseVerdict, now: datetime
) -> VirtualMachineInstance:
    """The VMI with phase, phase transition times, node, pods and conditions; the same object if nothing changed."""
    status = vmi.status
    conditions = put(status.conditions, READY, "False" if verdict.reason else "True", verdict.reason or "GuestRunning",
                     shortened(verdict.message, _MESSAGE), now)  # fmt: skip
    unscheduled = _scheduled(pod) if pod is not None and verdict.phase == "Scheduling" else None
    conditions = without(conditions, POD_SCHEDULED) if unscheduled is None else _with(conditions, unscheduled)
    changed = status.with_(conditions=conditions)
    if status.phase != verdict.phase:
        times = [*phase_times(status), {"phase": verdict.phase, "phaseTransitionTimestamp": format_time(now)}]
        changed = changed.with_(phase=verdict.phase, **{_TIMES: times})
        changed = changed.with_(reason=verdict.reason) if verdict.phase == "Failed" else changed
    if pod is not None and pod.spec.node_name and verdict.phase not in FINISHED:
        node = pod.spec.node_name
        changed = changed.with_(node_name=node, active_pods={pod.metadata.uid: node})
    return vmi if changed == status else vmi.with_(status=changed)


def _with(conditions: Sequence[Json], condition: Json) -> tuple[Json, ...]:
    kept = {key: value for key, value in condition.items() if value is not None}
    if condition_of(conditions, POD_SCHEDULED) is None:
        return (*conditions, kept)
    return tuple(kept if existing.get("type") == POD_SCHEDULED else existing for existing in conditions)


def phase_times(status: VirtualMachineInstanceStatus) -> list[Json]:
    """The recorded times of the VMI's phase transitions."""
    times = (status.model_extra or {}).get(_TIMES)
    return [entry for entry in times if isinstance(entry, dict)] if isinstance(times, list | tuple) else []


def ever_ran(vmi: VirtualMachineInstance) -> bool:
    """True if the VMI's guest has ever run."""
    return vmi.status.phase == "Running" or any(entry.get("phase") == "Running" for entry in phase_times(vmi.status))
