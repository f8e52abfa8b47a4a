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
from virt_dra.controllers.writes import patch_status
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
    """Assign the pod; its condition becomes True with it. Where no answer came, the pod is asked, again and again,
    since the special claim of a pod that counts as not bound is deleted for good (C-7.7). Raises ApiError."""
    try:
        await cluster.bind(pod, node)
    except Unavailable:
        current = await _read(cluster, pod)
        if current.metadata.uid != pod.metadata.uid or current.spec.node_name != node:
            raise


async def write_node_resources(cluster: Cluster, pod: Pod, statuses: Statuses) -> None:
    """`status.nodeAllocatableResourceClaimStatuses` of the pod (C-8.6). Raises BindError."""
    try:
        await patch_status(cluster, pod, {_NODE_RESOURCES: [_without_empty(status.to_wire()) for status in statuses]})
    except ApiError as error:
        raise BindError(f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses: {error}") from error


def _without_empty(status: Json) -> Json:
    return {name: value for name, value in status.items() if value != []}


async def clear_node_resources(cluster: Cluster, pod: Pod) -> None:
    """Removes them. Errors are ignored: the pod's next attempt writes the field again."""
    try:
        await patch_status(cluster, pod, {_NODE_RESOURCES: []})
    except ApiError as error:
        _log.warning("pod %s: what its claims take of its node was not cleared: %s", pod.key, error)


async def _read(cluster: Cluster, pod: Pod) -> Pod:
    for attempt in range(READ_ATTEMPTS - 1):
        try:
            return await cluster.get(Pod, pod.name, pod.namespace)
        except Unavailable:
            await asyncio.sleep(min(0.1 * 2**attempt, LONGEST_PAUSE))
    return await cluster.get(Pod, pod.name, pod.namespace)


async def write_condition(cluster: Cluster, pod: Pod, condition: PodCondition, now: datetime) -> None:
    """Write the condition unless the pod has it already, was deleted, or is to be called unschedulable after another
    scheduler bound it. Conditions of other writers stay."""
    for attempt in range(1, WRITE_ATTEMPTS + 1):
        try:
            current = await cluster.get(Pod, pod.name, pod.namespace)
            other = current.metadata.uid != pod.metadata.uid or (current.spec.node_name and condition.status == "False")
            if not other:
                await put_condition(cluster, current, condition, now)
        except Conflict as error:
            if attempt == WRITE_ATTEMPTS:
                _log.warning("condition of pod %s not written: %s", pod.key, error)
        except ApiError as error:
            _log.warning("condition of pod %s not written: %s", pod.key, error)
            return
        else:
            return


async def put_condition(cluster: Cluster, pod: Pod, condition: PodCondition, now: datetime) -> None:
    """Write the condition unless the pod has it. Raises :class:`Conflict` if the pod changed since it was read."""
    conditions = with_condition(pod, condition, now)
    if conditions != pod.status.conditions:
        await patch_status(cluster, pod, {"conditions": [put.to_wire() for put in conditions]}, unchanged=True)


def with_condition(pod: Pod, condition: PodCondition, now: datetime) -> tuple[PodCondition, ...]:
    """The pod's conditions with this one; lastTransitionTime moves only when the status changes."""
    before = pod.condition(condition.type)
    since = before.last_transition_time if before is not None and before.status == condition.status else None
    new = condition.with_(last_transition_time=since or format_time(now))
    if before == new:
        return pod.status.conditions
    return (*(present for present in pod.status.conditions if present.type != condition.type), new)
