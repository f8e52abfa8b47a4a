"""The scheduler's loop: takes pods from the queue one after the other, decides, and starts their binding cycles."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from virt_dra.api.core_v1 import Pod
from virt_dra.cluster.port import ApiError
from virt_dra.controllers.loops.context import LoopContext
from virt_dra.controllers.loops.scheduler.binding_cycle import COMPONENT, BindingCycle, assumed, device_part
from virt_dra.controllers.loops.scheduler.claim_writes import BindError
from virt_dra.controllers.loops.scheduler.group_scheduling import GroupScheduling, reserve
from virt_dra.controllers.loops.scheduler.known_cluster import KnownCluster
from virt_dra.controllers.loops.scheduler.preempting import Preempting
from virt_dra.controllers.loops.scheduler.reports import FailedAttempt, PodReports
from virt_dra.controllers.loops.scheduler.special_claims import apply_remedy
from virt_dra.scheduling.claim_checks import DYNAMIC_RESOURCES, SCHEDULER_ERROR, UNSCHEDULABLE
from virt_dra.scheduling.framework.cycle import FoundNode, NoNodes, NotFitting, remedies
from virt_dra.scheduling.framework.messages import STATE_NOT_FOUND
from virt_dra.scheduling.framework.refusals import AttemptError
from virt_dra.scheduling.queue import QueuedPod


@dataclass(frozen=True)
class _Run:
    """What lives as long as the loop runs."""

    tasks: asyncio.TaskGroup
    reports: PodReports
    groups: GroupScheduling


class SchedulerLoop:
    """kube-scheduler with its default profile, for the pods of ``default-scheduler``."""

    def __init__(self, context: LoopContext) -> None:
        self._context = context
        self._known = KnownCluster(context)
        self._preempting = Preempting(context, self._known)
        context.recorder(COMPONENT)
        self._run: _Run

    async def run(self) -> None:
        """Until cancelled."""
        self._known.follow()
        async with asyncio.TaskGroup() as tasks:
            reports = PodReports(self._context, tasks)
            groups = GroupScheduling(self._context, self._known, reports, self._start_binding, self._preempting)
            self._run = _Run(tasks, reports, groups)
            while True:
                queued = self._known.queue.pop(self._known.now())
                if queued is None:
                    await self._wait_for_work()
                    continue
                await self._schedule(queued)
                await asyncio.sleep(0)  # informers and binding cycles go on

    async def _wait_for_work(self) -> None:
        """Wait until the queue may have a pod: after a change, or the end of a back-off."""
        at = self._known.queue.next_time()
        self._known.changed.clear()
        try:
            async with asyncio.timeout_at(at):
                await self._known.changed.wait()
        except TimeoutError:
            return

    async def _schedule(self, queued: QueuedPod) -> None:
        """One scheduling cycle. What it decides is known to the next one before anything is written."""
        if queued.is_group:
            await self._run.groups.schedule(queued)
            return
        pod = queued.pod
        if self._skipped(pod):
            self._known.queue.done(queued.uid)
            return
        try:
            outcome = self._known.cycle.find(pod)
            if isinstance(outcome, FoundNode):
                reserve(outcome)
        except AttemptError as error:
            await self._preempting.give_up_place(pod)
            self._failed(queued, FailedAttempt(SCHEDULER_ERROR, str(error)))
            return
        if isinstance(outcome, NoNodes):
            await self._preempting.give_up_place(pod)
            self._failed(queued, FailedAttempt(UNSCHEDULABLE, outcome.message))
        elif isinstance(outcome, NotFitting):
            message = outcome.diagnosis.after(await self._post_filter(pod, outcome)).message
            self._failed(queued, FailedAttempt(UNSCHEDULABLE, message, outcome.diagnosis.rejectors))
        else:
            self._known.assumed.add(queued.uid)
            self._known.table.nominations.forget(queued.uid)
            self._known.table.assign(assumed(pod, outcome.node, [part.attempt for part in outcome.parts]), outcome.node)
            self._known.queue.done(queued.uid)
            self._start_binding(queued, pod, outcome, frozenset())

    def _start_binding(self, queued: QueuedPod, pod: Pod, place: FoundNode, shared: frozenset[str]) -> None:
        """``shared``: UIDs of the claims whose allocation other pods of the group write too."""
        devices = device_part([part.attempt for part in place.parts])
        binding = BindingCycle(self._context, self._known, pod, place.node, devices, shared)
        self._run.tasks.create_task(self._bind(queued, binding), name=f"binding of {pod.key}")

    def _skipped(self, pod: Pod) -> bool:
        if pod.metadata.deletion_timestamp is not None:
            self._run.reports.skipped(pod)
            return True
        return pod.metadata.uid in self._known.assumed

    async def _post_filter(self, pod: Pod, outcome: NotFitting) -> str:
        """The first remedy is applied (C-5.6); an API error is the message then, and preemption isn't tried."""
        refused = outcome.diagnosis.everywhere
        if refused is not None and refused.plugin not in ("", DYNAMIC_RESOURCES) and not refused.resolvable:
            return STATE_NOT_FOUND
        texts: list[str] = []
        for remedy in remedies(outcome)[:1]:
            try:
                await apply_remedy(self._context.cluster, self._known, remedy)
            except ApiError as error:
                return str(error)
            texts.append(remedy.text)
        room = await self._preempting.make_room(pod, outcome)
        return room.text if room.evicted else ", ".join(filter(None, [*texts, room.text]))

    async def _bind(self, queued: QueuedPod, binding: BindingCycle) -> None:
        """The binding cycle, and its failure."""
        pod = binding.pod
        await self._run.reports.written(pod)
        try:
            await binding.run()
        except BindError as error:
            await binding.undo()
            self._known.forget(pod)
            await self._preempting.give_up_place(pod)
            failure = FailedAttempt(SCHEDULER_ERROR, str(error))
            if queued.is_group:
                self._run.groups.member_failed(pod, failure)
            else:
                self._failed(queued, failure)
        else:
            self._run.reports.scheduled(pod, binding.node)

    def _failed(self, queued: QueuedPod, failure: FailedAttempt) -> None:
        """Returns the pod to the queue and writes the reason to its condition. Of a pod that was deleted
        only the Event is written, nothing of one that another scheduler bound."""
        pod = self._known.current(queued.pod)
        if pod is None or pod.spec.node_name:
            self._known.queue.done(queued.uid)
            if pod is None:
                self._run.reports.write_event(queued.pod, failure)
            return
        self._known.queue.failed(queued, pod, failure.rejectors, self._known.now())
        self._run.reports.failed(pod, failure)
