"""Pod groups in the scheduler's loop: a group is decided in one cycle, then each of its pods is bound (C-9)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto

from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import Condition, format_time
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.scheduling_v1 import INITIALLY_SCHEDULED, PodGroup
from virt_dra.cluster.port import ApiError, Conflict
from virt_dra.controllers.loops.context import LoopContext
from virt_dra.controllers.loops.scheduler.binding_cycle import assumed, device_part
from virt_dra.controllers.loops.scheduler.claim_writes import WRITE_ATTEMPTS, deallocate_claim, release_claim
from virt_dra.controllers.loops.scheduler.known_cluster import KnownCluster
from virt_dra.controllers.loops.scheduler.preempting import Preempting
from virt_dra.controllers.loops.scheduler.reports import FailedAttempt, PodReports
from virt_dra.controllers.loops.scheduler.special_claims import apply_remedy
from virt_dra.controllers.writes import patch_status
from virt_dra.scheduling.claim_checks import SCHEDULER_ERROR, UNSCHEDULABLE
from virt_dra.scheduling.claim_references import NotCreatedYet, NotNeeded, group_claim_name, not_for_group
from virt_dra.scheduling.default_preemption import choose_group_victims, waits_for_victims
from virt_dra.scheduling.dynamic_resources.plugin import GroupAllocations
from virt_dra.scheduling.framework.cycle import FoundNode, NoNodes, NotFitting, remedies
from virt_dra.scheduling.framework.group_cycle import (
    UNSCHEDULABLE_GROUP,
    GroupResult,
    GroupSize,
    MemberResult,
    place_group,
)
from virt_dra.scheduling.framework.refusals import AttemptError
from virt_dra.scheduling.gang_scheduling import min_count
from virt_dra.scheduling.queue import GroupFailure, QueuedPod

_log = logging.getLogger(__name__)

DONE = "deallocation and deletion of ResourceClaims completed"
PREEMPTION = "pod group preemption: "
NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"
NEVER_PREEMPTS = "pod group preemption: not eligible due to preemptionPolicy=Never."


class _PostFilter(Enum):
    """How PodGroupPostFilter ended. *Preempts*: victims of the group are going."""

    REJECTED = auto()
    FAILED = auto()
    PREEMPTS = auto()


StartBinding = Callable[[QueuedPod, Pod, FoundNode, frozenset[str]], None]


class GroupScheduling:
    """One group after the other, from the queue to the binding cycles of its pods."""

    def __init__(
        self, context: LoopContext, cluster: KnownCluster, reports: PodReports, bind: StartBinding,
        preempting: Preempting,
    ) -> None:  # fmt: skip
        self._context, self._known, self._preempting = context, cluster, preempting
        self._reports, self._bind = reports, bind

    async def schedule(self, queued: QueuedPod) -> None:
        pods = [pod for member in queued.pods.values() if (pod := self._waiting(member)) is not None]
        group = self._known.group_of(pods[0]) if pods else None
        if group is None:
            self._known.queue.group_failed(queued, pods, GroupFailure.NONE, self._known.now())
            return
        allocations = GroupAllocations()
        taken: list[tuple[Pod, FoundNode]] = []
        result = self._place(group, pods, allocations, taken)
        if not result.success:
            self._give_back(taken)
        group_text = result.error or result.rejected
        waits = False
        if result.rejected:
            text, outcome = await self._post_filter(group, pods, result)
            failed, waits = outcome is _PostFilter.FAILED, outcome is _PostFilter.PREEMPTS
            group_text = text if failed else f"{result.rejected}, {text}"
            result = GroupResult(result.members, "" if failed else result.rejected, text if failed else "")
        if not waits:
            await self._give_up_places(pods, result)
        prefix = "" if waits else f"{UNSCHEDULABLE_GROUP}, "
        self._submit(queued, pods, result, f"{prefix}{group_text}", frozenset(allocations.pending))
        await self._write_condition(group, result, group_text)

    def member_failed(self, pod: Pod, failure: FailedAttempt) -> None:
        """A pod of a group couldn't be bound: it is tried again, with those of its group that wait."""
        current = self._known.current(pod)
        key = self._known.group_key(pod)
        if current is not None and not current.spec.node_name and key is not None:
            self._known.queue.member_failed(current, key, self._known.now())
            self._known.changed.set()
            self._reports.failed(current, failure)

    def _waiting(self, given: Pod) -> Pod | None:
        """The pod as it is now; None if it is no longer to be scheduled."""
        pod = self._known.current(given)
        if pod is None or pod.spec.node_name or pod.metadata.uid in self._known.assumed:
            return None
        if pod.metadata.deletion_timestamp is not None:
            self._reports.skipped(pod)
            return None
        return pod

    def _place(
        self, group: PodGroup, pods: Sequence[Pod], allocations: GroupAllocations, taken: list[tuple[Pod, FoundNode]]
    ) -> GroupResult:
        """The result of one cycle; ``taken`` receives the places that are reserved."""
        priority = group.spec.priority or 0
        other = next((pod.priority for pod in pods if pod.priority != priority), None)
        if other is not None:
            text = "all pods in a single pod group should have the same priority as the pod group's priority"
            return GroupResult((), error=f"{text}, got {other} and {priority}")

        def take(pod: Pod, place: FoundNode) -> None:
            reserve(place)
            self._known.table.assign(assumed(pod, place.node, [part.attempt for part in place.parts]), place.node)
            self._known.assumed.add(pod.metadata.uid)
            taken.append((pod, place))

        self._known.devices.group = allocations
        try:
            size = GroupSize(min_count(group), self._known.scheduled_of(group.key))
            return place_group(pods, size, self._known.cycle.find, take)
        finally:
            self._known.devices.group = None

    async def _give_up_places(self, pods: Sequence[Pod], result: GroupResult) -> None:
        """After an error no pod stays nominated, after a rejection none that would have fitted."""
        fitting = [member.pod for member in result.members if isinstance(member.outcome, FoundNode)]
        for pod in pods if result.error else fitting if result.rejected else ():
            await self._preempting.give_up_place(pod)

    def _give_back(self, taken: list[tuple[Pod, FoundNode]]) -> None:
        for pod, place in reversed(taken):
            for part in reversed(place.parts):
                part.attempt.unreserve()
            self._known.table.unassign(pod.metadata.uid)
            self._known.assumed.discard(pod.metadata.uid)

    def _submit(
        self, queued: QueuedPod, pods: Sequence[Pod], result: GroupResult, text: str, shared: frozenset[str]
    ) -> None:
        """Bindings begin; the other pods say why not, and go back to the queue."""
        tried = {member.pod.metadata.uid: member for member in result.members}
        failed: list[Pod] = []
        for pod in pods:
            member = tried.get(pod.metadata.uid)
            if result.success and member is not None and isinstance(member.outcome, FoundNode):
                self._bind(queued, pod, member.outcome, shared)
                continue
            failed.append(pod)
            self._reports.failed(pod, _failure(member, result, text))
        how = GroupFailure.NONE if result.success else GroupFailure.ERROR if result.error else GroupFailure.REJECTED
        self._known.queue.group_failed(queued, failed, how, self._known.now())

    # --- PostFilter of groups (C-9.4) -----------------------------------------------------------------------------

    async def _post_filter(self, group: PodGroup, pods: Sequence[Pod], result: GroupResult) -> tuple[str, _PostFilter]:
        """What was done for the group. If no pod was tried, DynamicResources has nothing to go by."""
        if not result.members:
            return 'error in "DynamicResources" PodGroupPostFilter plugins: not found', _PostFilter.FAILED
        try:
            idle = False
            for member in result.members:
                if isinstance(member.outcome, NotFitting | FoundNode):
                    idle |= not await self._remedied(member)
            if idle and self._known.workload_claims and not self._known.scheduled_of(group.key):
                freed = await self._free_claims(group, result)
                if freed is not None:
                    return freed, _PostFilter.REJECTED
        except ApiError as error:
            return f'error in "DynamicResources" PodGroupPostFilter plugins: {error}', _PostFilter.FAILED
        if group.spec.preemption_policy == "Never" or any(pod.spec.preemption_policy == "Never" for pod in pods):
            return f"{DONE}, {NEVER_PREEMPTS}", _PostFilter.REJECTED
        try:
            return await self._preempt(group, pods)
        except ApiError as error:
            return f'error in "DefaultPreemption" PodGroupPostFilter plugins: {PREEMPTION}{error}', _PostFilter.FAILED

    async def _preempt(self, group: PodGroup, pods: Sequence[Pod]) -> tuple[str, _PostFilter]:
        """Pods of lower priority, wherever they are, make room for the group if it fits without them."""
        table = self._known.table
        priority = group.spec.priority or 0
        if waits_for_victims(pods, priority, table):
            return f"{PREEMPTION}ongoing preemption on nominated nodes", _PostFilter.PREEMPTS
        lower = [pod for state in table.states for pod in state.pods.values() if pod.priority < priority]
        candidates = [pod for pod in lower if pod.spec.node_name]
        if not candidates:
            return NO_VICTIMS, _PostFilter.REJECTED
        for candidate in candidates:
            table.unassign(candidate.metadata.uid)
        taken: list[tuple[Pod, FoundNode]] = []
        try:
            result = self._place(group, pods, GroupAllocations(), taken)
            self._give_back(taken)
            if not result.success:
                return f"{DONE}, {PREEMPTION}{result.error or result.rejected}", _PostFilter.REJECTED
            victims = choose_group_victims(taken, candidates, table, self._preempting.sorted_budgets())
        finally:
            for candidate in candidates:
                table.assign(candidate, candidate.spec.node_name or "")
        nominated = {}
        for pod, place in taken:
            table.nominations.nominate(pod, place.node)
            nominated[pod.metadata.uid] = pod.with_(status=pod.status.with_(nominated_node_name=place.node))
        await self._preempting.make_room_for_group(group, nominated, victims)
        return f"{PREEMPTION}found a placement for podgroup, preempting {len(victims)} victims", _PostFilter.PREEMPTS

    async def _remedied(self, member: MemberResult) -> bool:
        """As PostFilter of a single pod (C-5.6)."""
        for remedy in remedies(member.outcome)[:1] if isinstance(member.outcome, NotFitting | FoundNode) else ():
            await apply_remedy(self._context.cluster, self._known, remedy)
            return True
        return False

    async def _free_claims(self, group: PodGroup, result: GroupResult) -> str | None:
        """A claim of the group that some node can't use is deallocated, else a reservation for the group taken back."""
        for member in result.members:
            parts = member.outcome.parts if isinstance(member.outcome, NotFitting) else ()
            devices = device_part([part.attempt for part in parts])
            claim = devices.nodes.deallocatable(group.metadata.uid) if devices is not None else None
            if claim is not None:
                self._known.claims.assume(await deallocate_claim(self._context.cluster, claim))
                return NO_VICTIMS
        for claim in self._claims_of(group):
            if claim.status.allocation is not None and any(
                consumer.uid == group.metadata.uid for consumer in claim.status.reserved_for
            ):
                released = await release_claim(self._context.cluster, claim, group.metadata.uid)
                if released is not None:
                    self._known.claims.assume(released)
                    return "ResourceClaim unreserved for PodGroup"
        return None

    def _claims_of(self, group: PodGroup) -> Iterable[ResourceClaim]:
        for entry in group.spec.resource_claims:
            resolved = group_claim_name(group, entry)
            if isinstance(resolved, NotCreatedYet | NotNeeded):
                continue
            claim = self._known.claims.get(f"{group.namespace}/{resolved.name}")
            if claim is not None and not (resolved.must_check_owner and not_for_group(claim, group)):
                yield claim

    # --- the group's condition ------------------------------------------------------------------------------------

    async def _write_condition(self, group: PodGroup, result: GroupResult, text: str) -> None:
        """PodGroupInitiallyScheduled; once True it stays."""
        status = "True" if result.success else "False"
        reason = "Scheduled" if result.success else SCHEDULER_ERROR if result.error else UNSCHEDULABLE
        for _ in range(WRITE_ATTEMPTS):
            try:
                current = await self._context.cluster.get(PodGroup, group.name, group.namespace)
                conditions = {condition.type: condition for condition in current.status.conditions}
                before = conditions.get(INITIALLY_SCHEDULED)
                stays = before is not None and before.status == "True" != status
                if current.metadata.uid != group.metadata.uid or stays:
                    return
                since = before.last_transition_time if before is not None and before.status == status else None
                new = Condition(
                    type=INITIALLY_SCHEDULED, status=status, reason=reason, message=text,
                    observed_generation=current.metadata.generation,
                    last_transition_time=since or format_time(self._context.clock()),
                )  # fmt: skip
                if before is not None and before.to_wire() == new.to_wire():
                    return
                wire = [condition.to_wire() for condition in (conditions | {INITIALLY_SCHEDULED: new}).values()]
                await patch_status(self._context.cluster, current, {"conditions": wire}, unchanged=True)
            except Conflict:
                continue
            except ApiError as error:
                _log.warning("condition of pod group %s not written: %s", group.key, error)
            return


def _failure(member: MemberResult | None, result: GroupResult, text: str) -> FailedAttempt:
    """What a pod without node says: its own refusal or error, or the group's."""
    if result.error:
        return FailedAttempt(SCHEDULER_ERROR, (member.error if member is not None else "") or result.error)
    if member is None:
        return FailedAttempt(UNSCHEDULABLE, result.rejected)
    if isinstance(member.outcome, NotFitting):
        return FailedAttempt(UNSCHEDULABLE, member.outcome.diagnosis.message)
    if isinstance(member.outcome, NoNodes):
        return FailedAttempt(UNSCHEDULABLE, member.outcome.message)
    return FailedAttempt(UNSCHEDULABLE, text)


def reserve(outcome: FoundNode) -> None:
    """Every plugin reserves (C-5.9), or none. Raises AttemptError."""
    for number, part in enumerate(outcome.parts):
        try:
            part.attempt.reserve(outcome.node)
        except AttemptError as error:
            for earlier in reversed(outcome.parts[:number]):
                earlier.attempt.unreserve()
            raise AttemptError(f'running Reserve plugin "{part.plugin.name}": {error}') from error
