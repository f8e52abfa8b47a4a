"""What the scheduler says about pods that it couldn't schedule: an Event and the condition PodScheduled."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from virt_dra.api.core_v1 import Pod, PodCondition, reference_to
from virt_dra.controllers.loops.context import LoopContext
from virt_dra.controllers.loops.scheduler.binding_cycle import COMPONENT
from virt_dra.controllers.loops.scheduler.pod_writes import unscheduled, with_condition, write_condition
from virt_dra.scheduling.claim_checks import UNSCHEDULABLE
from virt_dra.scheduling.framework.messages import event_note


@dataclass(frozen=True)
class FailedAttempt:
    """Why a pod wasn't scheduled: reason and message of its condition. ``rejectors``: none for an error."""

    reason: str
    message: str
    rejectors: frozenset[str] = frozenset()


class PodReports:
    """Conditions are written beside the scheduling cycles, those of one pod one after the other."""

    def __init__(self, context: LoopContext, tasks: asyncio.TaskGroup) -> None:
        self._context = context
        self._tasks = tasks
        self._recorder = context.recorder(COMPONENT)
        self._writes: dict[str, asyncio.Task[None]] = {}
        """The last write of a pod, by UID."""

    def scheduled(self, pod: Pod, node: str) -> None:
        self._context.metrics.count("scheduler_schedule_attempts_total", result="scheduled", profile=COMPONENT)
        self._recorder.record(reference_to(pod), "Normal", "Scheduled", f"Successfully assigned {pod.key} to {node}")

    def skipped(self, pod: Pod) -> None:
        """The pod is being deleted."""
        self._recorder.record(
            reference_to(pod), "Warning", "FailedScheduling", f"skip schedule deleting pod: {pod.key}"
        )

    def failed(self, pod: Pod, failure: FailedAttempt) -> None:
        result = "unschedulable" if failure.reason == UNSCHEDULABLE else "error"
        self._context.metrics.count("scheduler_schedule_attempts_total", result=result, profile=COMPONENT)
        self.write_event(pod, failure)
        condition = unscheduled(failure.reason, failure.message)
        uid = pod.metadata.uid
        if with_condition(pod, condition, self._context.clock()) != pod.status.conditions or uid in self._writes:
            self._writes[uid] = self._tasks.create_task(self._write(pod, condition, self._writes.get(uid)))

    def write_event(self, pod: Pod, failure: FailedAttempt) -> None:
        """The Event alone."""
        self._recorder.record(reference_to(pod), "Warning", "FailedScheduling", event_note(failure.message))

    async def written(self, pod: Pod) -> None:
        """Return when what was said about the pod is written."""
        before = self._writes.get(pod.metadata.uid)
        if before is not None:
            await before

    async def _write(self, pod: Pod, condition: PodCondition, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        await write_condition(self._context.cluster, pod, condition, self._context.clock())
        if self._writes.get(pod.metadata.uid) is asyncio.current_task():
            del self._writes[pod.metadata.uid]
