"""What the scheduler writes to pods: the node, and the condition PodScheduled (C-19)."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime

from virt_dra.api.core_v1 import Pod, PodCondition
from virt_dra.api.meta import format_time
from virt_dra.api.wire import Json
from virt_dra.cluster.port import ApiError, Cluster, Conflict, Unavailable
from virt_dra.controllers.loops.scheduler.claim_writes import WRITE_ATTEMPTS, BindError
from virt_dra.scheduling.dynamic_resources.node_allocatable import Statuses

_log = logging.getLogger(__name__)

POD_SCHEDULED = "PodScheduled"
_NODE_RESOURCES = "nodeAllocatableResourceClaimStatuses"
READ_ATTEMPTS = 20
LONGEST_PAUSE = 5.0
"""Seconds between two of them; together more than a minute."""


def unscheduled(reason: str, message: str) -> PodCondition:
    """PodScheduled=False."""
    return PodCondition(type=POD_SCHEDULED, status="False", reason=reason, message=message)


async def bind_pod(cluster: Cluster, pod: Pod, node: str) -> None:
    """Assign the pod; its condition becomes True with it. Where no answer came, the pod says whether it was bound.
    Raises ApiError.

    Asked again and again, since the special claim of a pod that counts as not bound is deleted, and no controller makes
    it again (C-7.7).
    """
    try:
        await cluster.bind(pod, node)
    except Unavailable:
        current = await _read(cluster, pod)
        if current.metadata.uid != pod.metadata.uid or current.spec.node_name != node:
            raise


async def write_node_resources(cluster: Cluster, pod: Pod, statuses: Statuses) -> None:
    """`status.nodeAllocatableResourceClaimStatuses` of the pod (C-8.6). Raises BindError."""
    merge = {
        "metadata": {"uid": pod.metadata.uid},
        "status": {_NODE_RESOURCES: [_without_empty(status.to_wire()) for status in statuses]},
    }
    try:
        await cluster.patch(Pod, pod.name, pod.namespace, merge=merge, subresource="status")
    except ApiError as error:
        raise BindError(f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses: {error}") from error


def _without_empty(status: Json) -> Json:
    return {name: value for name, value in status.items() if value != []}


async def clear_node_resources(cluster: Cluster, pod: Pod) -> None:
    """Removes them. Errors are ignored: the pod's next attempt writes the field again, and a deleted pod doesn't need
    it."""
    try:
        merge = {"metadata": {"uid": pod.metadata.uid}, "status": {_NODE_RESOURCES: []}}
        await cluster.patch(Pod, pod.name, pod.namespace, merge=merge, subresource="status")
    except ApiError as error:
        _log.warning("pod %s: what its claims take of its node was not cleared: %s", pod.key, error)


async def _read(cluster: Cluster, pod: Pod) -> Pod:
    for attempt in range(READ_ATTEMPTS - 1):
        try:
            return await cluster.get(Pod, pod.name, pod.namespace)
        except Unavailable:
            await asyncio.sleep(min(0.1 * 2**attempt, LONGEST_PAUSE))
    return await cluster.get(Pod, pod.name, pod.namespace)


def _seen(pod: Pod) -> dict[str, str]:
    """The precondition of a patch that the pod is still as it was read."""
    return {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}


async def write_condition(cluster: Cluster, pod: Pod, condition: PodCondition, now: datetime) -> None:
    """Write the condition unless the pod has it already, was deleted, or is to be called unschedulable after another
    scheduler bound it. Conditions of other writers stay."""
    for attempt in range(1, WRITE_ATTEMPTS + 1):
        try:
            current = await cluster.get(Pod, pod.name, pod.namespace)
            conditions = with_condition(current, condition, now)
            other = current.metadata.uid != pod.metadata.uid or (current.spec.node_name and condition.status == "False")
            if not other and conditions != current.status.conditions:
                merge = {
                    "metadata": _seen(current),
                    "status": {"conditions": [written.to_wire() for written in conditions]},
                }
                await cluster.patch(Pod, pod.name, pod.namespace, merge=merge, subresource="status")
        except Conflict as error:
            if attempt == WRITE_ATTEMPTS:
                _log.warning("condition of pod %s not written: %s", pod.key, error)
        except ApiError as error:
            _log.warning("condition of pod %s not written: %s", pod.key, error)
            return
        else:
            return


def with_condition(pod: Pod, condition: PodCondition, now: datetime) -> tuple[PodCondition, ...]:
    """The pod's conditions with this one; lastTransitionTime moves only when the status changes."""
    before = next((present for present in pod.status.conditions if present.type == condition.type), None)
    unchanged = before is not None and before.status == condition.status and before.last_transition_time is not None
    new = condition.with_(
        last_transition_time=before.last_transition_time if before is not None and unchanged else format_time(now)
    )
    if before is not None and before == new:
        return pod.status.conditions
    return (*(present for present in pod.status.conditions if present.type != condition.type), new)
