"""The progress of a roll-out, by the status of its objects. Pure."""

from __future__ import annotations

from virt_dra.api.counting import counted
from virt_dra.api.wire import Json
from virt_dra.installation.plan import ObjectKey


def condition_holds(obj: Json, condition: str) -> bool:
    """True if the status of the object has this condition with status True."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(entry.get("type") == condition and entry.get("status") == "True" for entry in conditions)


def rollout(key: ObjectKey, workload: Json | None) -> str:
    """Why a Deployment or DaemonSet hasn't rolled out; "" if it has."""
    if workload is None:
        return f"{key} doesn't exist"
    return _nodes(key, workload) if key.kind == "DaemonSet" else _replicas(key, workload)


def _nodes(key: ObjectKey, workload: Json) -> str:
    status = workload.get("status") or {}
    seen = int(status.get("observedGeneration", 0)) >= int(workload["metadata"].get("generation", 0))
    wanted = int(status.get("desiredNumberScheduled", 0))
    ready = min(int(status.get("numberAvailable", 0)), int(status.get("updatedNumberScheduled", 0)))
    if seen and ready >= wanted:
        return ""
    return f"{key}: available on {ready} of {counted(wanted, 'node')}" if seen else f"{key} isn't reconciled yet"


def _replicas(key: ObjectKey, deployment: Json) -> str:
    status = deployment.get("status") or {}
    wanted = int(deployment["spec"].get("replicas", 1))
    seen = int(status.get("observedGeneration", 0)) >= int(deployment["metadata"].get("generation", 0))
    updated, available = int(status.get("updatedReplicas", 0)), int(status.get("availableReplicas", 0))
    old = int(status.get("replicas", 0)) - updated
    if seen and updated >= wanted and available >= wanted and old <= 0:
        return ""
    return f"{key}: {min(available, updated) if seen else 0} of {counted(wanted, 'replica')} available" + (
        f", {counted(old, 'old replica')} left" if old > 0 else ""
    )


def pod_troubles(pod: Json) -> list[str]:
    """The reasons in a pod's status why it isn't ready."""
    name, status = ObjectKey.from_object(pod, "Pod"), pod.get("status") or {}
    troubles = [
        f"{name} isn't scheduled: {condition.get('message', '')}"
        for condition in status.get("conditions") or ()
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False"
    ]
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting")
        if waiting and waiting.get("reason") not in ("ContainerCreating", "PodInitializing"):
            why = f"{waiting.get('reason')}: {waiting.get('message', '')}"
            troubles.append(f"{name}, container {container['name']}: {why}")
    return troubles
