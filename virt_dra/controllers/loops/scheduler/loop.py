"""The scheduler's loop: takes pods from the queue one after the other, decides, and starts their binding cycles."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from virt_dra.api.core_v1 import Pod, PodCondition
from virt_dra.cluster.port import ApiError
from virt_dra.controllers.loops.context import LoopContext
from virt_dra.controllers.loops.scheduler.binding_cycle import COMPONENT, BindingCycle, device_part, reference
from virt_dra.controllers.loops.scheduler.claim_writes import BindError, deallocate_claim
from virt_dra.controllers.loops.scheduler.known_cluster import KnownCluster
from virt_dra.controllers.loops.scheduler.pod_writes import unscheduled, with_condition, write_condition
from virt_dra.controllers.loops.scheduler.preempting import Preempting
from virt_dra.scheduling.claim_checks import SCHEDULER_ERROR, UNSCHEDULABLE
from virt_dra.scheduling.framework.cycle import FoundNode, NoNodes, NotFitting, PluginPart, remedies
from virt_dra.scheduling.framework.messages import event_note, not_preempting
from virt_dra.scheduling.framework.plugin import Remedy
from virt_dra.scheduling.framework.refusals import AttemptError
from virt_dra.scheduling.queue import QueuedPod


@dataclass(frozen=True)
class FailedAttempt:
    """Why a pod wasn't scheduled: reason and message of its condition. ``rejectors``: none for an error."""

    reason: str
    message: str
    rejectors: frozenset[str] = frozenset()


class SchedulerLoop:
    """kube-scheduler with its default profile, for the pods of ``default-scheduler``."""

    def __init__(self, context: LoopContext) -> None:
        self._context = context
        self._known = KnownCluster(context)
        self._preempting = Preempting(context, self._known)
        self._recorder = context.recorder(COMPONENT)
        self._writes: dict[str, asyncio.Task[None]] = {}
        """The last write of a pod's condition, by UID: the next write of the pod follows it."""

    async def run(self) -> None:
        """Until cancelled."""
        self._known.follow()
        async with asyncio.TaskGroup() as group:
            while True:
                queued = self._known.queue.pop(self._known.now())
                if queued is None:
                    await self._something_to_do()
                    continue
                await self._schedule(queued, group)
                await asyncio.sleep(0)  # informers and binding cycles go on

    async def _something_to_do(self) -> None:
        """Until the queue may have a pod: something changed, or a back-off is over."""
        at = self._known.queue.next_time()
        self._known.changed.clear()
        try:
            async with asyncio.timeout_at(at):
                await self._known.changed.wait()
        except TimeoutError:
            return

    async def _schedule(self, queued: QueuedPod, group: asyncio.TaskGroup) -> None:
        """One scheduling cycle. What it decides is known to the next one before anything is written."""
        pod = queued.pod
        if self._skipped(pod):
            self._known.queue.done(queued.uid)
            return
        try:
            outcome = self._known.cycle.find(pod)
            if isinstance(outcome, FoundNode):
                _reserve(outcome)
        except AttemptError as error:
            self._failed(queued, FailedAttempt(SCHEDULER_ERROR, str(error)), group)
            return
        if isinstance(outcome, NoNodes):
            self._failed(queued, FailedAttempt(UNSCHEDULABLE, outcome.message), group)
        elif isinstance(outcome, NotFitting):
            message = outcome.diagnosis.after(await self._post_filter(pod, outcome)).message
            self._failed(queued, FailedAttempt(UNSCHEDULABLE, message, outcome.diagnosis.rejectors), group)
        else:
            self._known.assumed.add(queued.uid)
            self._known.table.assign(pod, outcome.node)
            self._known.queue.done(queued.uid)
            attempt = device_part([part.attempt for part in outcome.parts])
            binding = BindingCycle(self._context, self._known, pod, outcome.node, attempt)
            group.create_task(self._bind(queued, binding, group), name=f"binding of {pod.key}")

    def _skipped(self, pod: Pod) -> bool:
        if pod.metadata.deletion_timestamp is not None:
            self._recorder.record(reference(pod), "Warning", "FailedScheduling", f"skip schedule deleting pod: {pod.key}")
            return True
        return pod.metadata.uid in self._known.assumed

    async def _post_filter(self, pod: Pod, outcome: NotFitting) -> str:
        """The first remedy is applied (C-5.6); an API error is the message then, and preemption isn't tried."""
        texts: list[str] = []
        for remedy in remedies(outcome)[:1]:
            try:
                await self._apply(remedy)
            except ApiError as error:
                return str(error)
            texts.append(remedy.text)
        room = await self._preempting.make_room(pod)
        texts.append(not_preempting(outcome.diagnosis, pod.spec.preemption_policy) if room is None else room)
        return ", ".join(filter(None, texts))

    async def _apply(self, remedy: Remedy) -> None:
        if remedy.deallocate is not None:
            self._known.claims.assume(await deallocate_claim(self._context.cluster, remedy.deallocate))

    async def _bind(self, queued: QueuedPod, binding: BindingCycle, group: asyncio.TaskGroup) -> None:
        """The binding cycle, and its failure."""
        pod = binding.pod
        await self._written(pod)
        try:
            await binding.run()
        except BindError as error:
            await binding.undo()
            self._known.forget(pod)
            self._failed(queued, FailedAttempt(SCHEDULER_ERROR, str(error)), group)
        else:
            self._context.metrics.count("scheduler_schedule_attempts_total", result="scheduled", profile=COMPONENT)
            self._recorder.record(reference(pod), "Normal", "Scheduled", f"Successfully assigned {pod.key} to {binding.node}")

    def _failed(self, queued: QueuedPod, failure: FailedAttempt, group: asyncio.TaskGroup) -> None:
        """The pod goes back to the queue, and says why."""
        result = "unschedulable" if failure.reason == UNSCHEDULABLE else "error"
        self._context.metrics.count("scheduler_schedule_attempts_total", result=result, profile=COMPONENT)
        pod = self._known.current(queued.pod)
        if pod is None or pod.spec.node_name:
            self._known.queue.done(queued.uid)
            return
        self._known.queue.failed(queued, pod, failure.rejectors, self._known.now())
        self._recorder.record(reference(pod), "Warning", "FailedScheduling", event_note(failure.message))
        condition = unscheduled(failure.reason, failure.message)
        if with_condition(pod, condition, self._context.clock()) != pod.status.conditions or pod.metadata.uid in self._writes:
            self._writes[queued.uid] = group.create_task(self._write(pod, condition, self._writes.get(queued.uid)))

    async def _write(self, pod: Pod, condition: PodCondition, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        await write_condition(self._context.cluster, pod, condition, self._context.clock())
        if self._writes.get(pod.metadata.uid) is asyncio.current_task():
            del self._writes[pod.metadata.uid]

    async def _written(self, pod: Pod) -> None:
        before = self._writes.get(pod.metadata.uid)
        if before is not None:
            await before


def _reserve(outcome: FoundNode) -> None:
    """Every plugin reserves (C-5.9). Raises AttemptError."""
    for part in outcome.parts:
        _reserve_with(part, outcome.node)


def _reserve_with(part: PluginPart, node: str) -> None:
    try:
        part.attempt.reserve(node)
    except AttemptError as error:
        raise AttemptError(f'running Reserve plugin "{part.plugin.name}": {error}') from error
