"""What a kubelet writes into a pod's status. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from virt_dra.api.core_v1 import Container, Pod
from virt_dra.api.meta import format_time
from virt_dra.api.policies.pod_resources import is_sidecar
from virt_dra.api.wire import Json
from virt_dra.simulator.agents.containers import RunningContainer

_FILE_TESTS = (["test", "-e"], ["test", "-f"], ["cat"], ["ls"], ["stat"])


@dataclass(frozen=True)
class Exit:
    """How a container ended, and what it left in its termination message file."""

    code: int
    message: str = ""


def probe_succeeds(container: RunningContainer) -> bool:
    """Whether a container is ready: by :attr:`RunningContainer.serving` for an HTTP probe; for a command, of which only
    tests of one file are implemented, if it succeeds. Raises ValueError for others."""
    probe = container.spec.readiness_probe
    if probe and "httpGet" in probe:
        return container.serving
    if not probe or "exec" not in probe:
        return True
    command = list(probe["exec"].get("command", ()))
    if command[:-1] not in _FILE_TESTS:
        raise ValueError(f"this kubelet can't run the probe {' '.join(command)}")
    return container.path(command[-1]).exists()


def status_of(
    pod: Pod,
    started: Mapping[str, str],
    exits: Mapping[str, Exit],
    ready: Mapping[str, bool],
    problem: str,
    health: Mapping[str, list[Json]],
    now: datetime,
    address: str = "",
) -> Json | None:
    """The kubelet's parts of the status, to be merged; None if they are unchanged. ``started``: container -> when;
    ``problem``: why containers can't be made; ``address``: the pod's, if it has one."""
    init, main = pod.spec.init_containers, pod.spec.containers
    initialized = all(_succeeded(exits, spec) or (is_sidecar(spec) and spec.name in started) for spec in init)
    status: Json = {
        "phase": _phase(pod, started, exits),
        "containerStatuses": [
            _container(spec, started, exits, ready, initialized, problem, health.get(spec.name, [])) for spec in main
        ],
    }
    if init:
        status["initContainerStatuses"] = [_container(spec, started, exits, {}, True, problem, []) for spec in init]
    running = status["phase"] == "Running"
    all_ready = running and all(ready.get(spec.name, False) for spec in main)
    gates = [gate.condition_type for gate in pod.spec.readiness_gates]
    open_gates = [
        gate for gate in gates if not any(c.type == gate and c.status == "True" for c in pod.status.conditions)
    ]
    unready = (
        ("ContainersNotReady", "containers with unready status")
        if not all_ready
        else ("ReadinessGatesNotReady", str(open_gates))
    )
    wanted = {
        "PodReadyToStartContainers": (not problem, "", problem),
        "Initialized": (initialized, "" if initialized else "ContainersNotInitialized", ""),
        "ContainersReady": (all_ready, "" if all_ready else "ContainersNotReady", ""),
        "Ready": (all_ready and not open_gates, *(("", "") if all_ready and not open_gates else unready)),
    }
    status["conditions"] = _conditions(pod, wanted, format_time(now))
    current = pod.to_wire().get("status", {})
    if started and not current.get("startTime"):
        status["startTime"] = format_time(now)
    if started and address:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    changed = any(_subset(value, current.get(key)) is False for key, value in status.items())
    return status if changed else None


def _succeeded(exits: Mapping[str, Exit], spec: Container) -> bool:
    return spec.name in exits and exits[spec.name].code == 0


def _phase(pod: Pod, started: Mapping[str, str], exits: Mapping[str, Exit]) -> str:
    never = pod.spec.restart_policy == "Never"
    names = [spec.name for spec in pod.spec.containers]
    if never and any(spec.name in exits and not _succeeded(exits, spec) for spec in pod.spec.init_containers):
        return "Failed"
    if all(name in exits for name in names):
        return "Failed" if any(exits[name].code for name in names) else "Succeeded"
    return "Running" if all(name in started for name in names) else "Pending"


def _container(
    spec: Container,
    started: Mapping[str, str],
    exits: Mapping[str, Exit],
    ready: Mapping[str, bool],
    initialized: bool,
    problem: str,
    health: list[Json],
) -> Json:
    state: Json
    if spec.name in exits:
        ended = exits[spec.name]
        ended_state: Json = {
            "exitCode": ended.code,
            "reason": "Error" if ended.code else "Completed",
            "startedAt": started[spec.name],
        }
        state = {"terminated": ended_state | ({"message": ended.message} if ended.message else {})}
    elif spec.name in started:
        state = {"running": {"startedAt": started[spec.name]}}
    elif problem:
        state = {"waiting": {"reason": "ContainerCreating", "message": problem}}
    else:
        state = {"waiting": {"reason": "ContainerCreating" if initialized else "PodInitializing"}}
    reported = {"name": spec.name, "image": spec.image or "", "imageID": "", "restartCount": 0, "state": state}
    reported |= {"ready": ready.get(spec.name, not ready and _succeeded(exits, spec))}
    return {**reported, "allocatedResourcesStatus": health} if health else reported


def _conditions(pod: Pod, wanted: Mapping[str, tuple[bool, str, str]], now: str) -> list[Json]:
    """The pod's conditions, with the wanted ones in place of those of the same types."""
    conditions = {condition.type: condition.to_wire() for condition in pod.status.conditions}
    for kind, (holds, reason, message) in wanted.items():
        status = "True" if holds else "False"
        before = conditions.get(kind, {})
        since = before.get("lastTransitionTime") if before.get("status") == status else None
        reported: Json = {"type": kind, "status": status, "lastTransitionTime": since or now}
        conditions[kind] = reported | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})
    return list(conditions.values())


def _subset(wanted: Any, present: Any) -> bool:
    """Whether all wanted members are present; servers add empty ones of their own."""
    if isinstance(wanted, dict):
        return isinstance(present, dict) and all(_subset(value, present.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        same = isinstance(present, list) and len(present) == len(wanted)
        return same and all(_subset(value, other) for value, other in zip(wanted, present, strict=True))
    return bool(wanted == present) or (wanted in ("", 0, False) and present is None)
