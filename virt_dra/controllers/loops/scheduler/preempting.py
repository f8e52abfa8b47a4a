"""Preemption by the scheduler's loop: pods of lower priority are evicted for a pod that fits nowhere.

Kubernetes' own (:mod:`virt_dra.scheduling.default_preemption`) knows no devices; with the option, which is off, the
plan is :mod:`virt_dra.scheduling.preemption`'s instead. What is evicted is marked and reported in the same way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from virt_dra.api.core_v1 import Node, ObjectReference, Pod, PodCondition
from virt_dra.api.scheduling_v1 import PodDisruptionBudget, PodGroup
from virt_dra.cluster.port import ApiError, Conflict, NotFound
from virt_dra.controllers.loops.context import LoopContext
from virt_dra.controllers.loops.scheduler.claim_writes import WRITE_ATTEMPTS
from virt_dra.controllers.loops.scheduler.known_cluster import SCHEDULER_NAME, KnownCluster
from virt_dra.controllers.loops.scheduler.pod_writes import with_condition
from virt_dra.scheduling.default_preemption import MARKED, Victims, choose_victims
from virt_dra.scheduling.framework.cycle import NotFitting
from virt_dra.scheduling.framework.messages import not_preempting
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import PluginAttempt
from virt_dra.scheduling.framework.refusals import AttemptError
from virt_dra.scheduling.preemption import (
    NOT_NEEDED,
    NoPreemption,
    PlanningSteps,
    PreemptionPlan,
    planning,
    still_helps,
)
from virt_dra.scheduling.preemption_trial import TrialCluster

_log = logging.getLogger(__name__)

PREEMPTION: Final = "scheduler.preemption"
"""The loop's option: True evicts."""
PLACEMENTS_AT_ONCE: Final = 20
"""Of a plan in one turn of the event loop: informers and binding cycles go on between them."""
PLANS: Final = 3
"""How often a plan is made anew because the cluster changed while it was made."""
PREEMPTED: Final = "Preempted"
"""Of the Event of a victim."""
GROUP: Final = "podgroup"


def _mark(kind: str) -> PodCondition:
    """A victim's condition; ``kind``: of whom it is evicted for."""
    message = f"{SCHEDULER_NAME}: preempting to accommodate a higher priority {kind}"
    return PodCondition(type="DisruptionTarget", status="True", reason=MARKED, message=message)


@dataclass(frozen=True)
class Room:
    """What preemption did: ``text`` for the condition of the pod. ``evicted``: pods were evicted as Kubernetes does,
    which is all that the condition says then."""

    text: str
    evicted: bool = False


class Preempting:
    """Kubernetes' preemption, or with the option the one that frees devices."""

    def __init__(self, context: LoopContext, cluster: KnownCluster) -> None:
        self._context, self._known = context, cluster
        self._enabled = context.options.get(PREEMPTION) is True
        self._recorder = context.recorder(SCHEDULER_NAME)
        self._revision = 0
        self._budgets = context.informers.of(PodDisruptionBudget)

    async def make_room(self, pod: Pod, outcome: NotFitting) -> Room:
        """Evict for a pod."""
        if not self._enabled:
            return await self._as_kubernetes(pod, outcome)
        plan = await self._planned(pod)
        if isinstance(plan, PreemptionPlan):
            try:
                await self._evict_all(pod, plan.node, plan.victims)
            except ApiError as error:
                return Room(f"preemption: {error}")
            return Room("")
        if plan is not None and plan.reason == NOT_NEEDED:
            return Room(f"preemption: {plan.message}.")
        return Room(not_preempting(outcome.diagnosis, pod.spec.preemption_policy))

    async def _as_kubernetes(self, pod: Pod, outcome: NotFitting) -> Room:
        """DefaultPreemption. A victim that is being deleted already is left alone."""
        pod = self._known.current(pod) or pod
        chosen = choose_victims(pod, outcome, self._known.table, self.sorted_budgets())
        try:
            if isinstance(chosen, Victims):
                self._known.table.nominations.nominate(pod, chosen.node)
                await self._evict_all(pod, chosen.node, chosen.pods)
                return Room(chosen.text, evicted=True)
            if chosen.hopeless:
                await self.give_up_place(pod)
        except ApiError as error:
            return Room(f"preemption: {error}")
        return Room(chosen.text)

    async def _evict_all(self, pod: Pod, node: str, victims: Sequence[Pod]) -> None:
        """Lower priorities that are nominated for the node look for another one."""
        for other in tuple(self._known.table.nominations.on(node)):
            if other.priority < pod.priority:
                self._known.table.nominations.forget(other.metadata.uid)
                await self._nominate(other, None)
        for victim in victims:
            await self._evict(victim, "pod", pod.metadata.uid, node)
        await self._nominate(pod, node)

    async def make_room_for_group(self, group: PodGroup, nominated: Mapping[str, Pod], victims: Sequence[Pod]) -> None:
        """Evict for a pod group; ``nominated``: its pods by UID, each in the node's place that it was given. Raises
        ApiError."""
        for victim in victims:
            await self._evict(victim, GROUP, group.metadata.uid, "cluster")
        for pod in nominated.values():
            await self._nominate(pod, pod.status.nominated_node_name)

    async def give_up_place(self, pod: Pod) -> None:
        """Withdraws the pod's nomination for a node."""
        self._known.table.nominations.forget(pod.metadata.uid)
        if not pod.status.nominated_node_name:
            return
        try:
            await self._nominate(pod, None)
        except ApiError as error:
            _log.warning("nomination of pod %s not taken back: %s", pod.key, error)

    async def _nominate(self, pod: Pod, node: str | None) -> None:
        merge = {"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node}}
        try:
            await self._context.cluster.patch(Pod, pod.name, pod.namespace, merge=merge, subresource="status")
        except NotFound:
            return

    def sorted_budgets(self) -> Sequence[PodDisruptionBudget]:
        """By namespace and name."""
        return sorted(self._budgets.store.values(), key=lambda budget: budget.key)

    async def _planned(self, pod: Pod) -> PreemptionPlan | NoPreemption | None:
        """A plan of preemption that holds on the cluster as it is now. None if changes of the cluster invalidated every
        plan before it was finished."""
        budgets = self.sorted_budgets()
        for attempt in range(PLANS):
            outcome = await self._in_turns(planning(pod, self._as_it_is(pod), budgets, changed=attempt > 0))
            if isinstance(outcome, NoPreemption) or still_helps(outcome, pod, self._as_it_is(pod)):
                return outcome
        return None

    async def _in_turns(self, steps: PlanningSteps) -> PreemptionPlan | NoPreemption:
        while True:
            try:
                for _ in range(PLACEMENTS_AT_ONCE):
                    next(steps)
            except StopIteration as end:
                outcome: PreemptionPlan | NoPreemption = end.value
                return outcome
            await asyncio.sleep(0)

    def _as_it_is(self, pod: Pod) -> TrialCluster:
        """The cluster of this moment, which later changes don't reach."""
        cluster = self._known
        nodes = tuple(state.node for state in cluster.table.states)
        claims, pods = dict(cluster.claims), tuple(cluster.pods.store.values())
        others = self._other_filters(pod)
        return TrialCluster(
            nodes, claims, cluster.ledger.snapshot, pods, cluster.features, others, cluster.workload_claims
        )

    def _other_filters(self, pod: Pod) -> Callable[[Pod, Node, Sequence[Pod]], bool]:
        """The plugins but DynamicResources, on a node as it would be. A pod that is refused or fails in PreFilter fits
        nowhere."""
        attempts: list[PluginAttempt] = []
        hopeless = False
        for plugin in self._known.plugins:
            if plugin is self._known.devices:
                continue
            try:
                answer = plugin.attempt(pod)
            except AttemptError:
                hopeless = True
                continue
            if isinstance(answer, PluginAttempt):
                attempts.append(answer)
            hopeless |= answer is not None and not isinstance(answer, PluginAttempt)
        return lambda pod, node, beside: not hopeless and self._fits(attempts, node, beside)

    def _fits(self, attempts: Sequence[PluginAttempt], node: Node, beside: Sequence[Pod]) -> bool:
        state = NodeState(node)
        state.pods = {pod.metadata.uid: pod for pod in beside}
        self._revision = state.revision = self._revision - 1  # of no state that a plugin may have kept something of
        try:
            return all(attempt.filter(state) is None for attempt in attempts)
        except AttemptError:
            return False

    async def _evict(self, victim: Pod, kind: str, uid: str, node: str) -> None:
        """Evict a victim for the pod or group with this ``kind`` and ``uid``. Skips one that was deleted or replaced.
        Raises ApiError."""
        cluster = self._context.cluster
        for attempt in range(1, WRITE_ATTEMPTS + 1):
            try:
                current = await cluster.get(Pod, victim.name, victim.namespace)
                if current.metadata.uid != victim.metadata.uid or current.metadata.deletion_timestamp is not None:
                    return
                conditions = with_condition(current, _mark(kind), self._context.clock())
                if conditions != current.status.conditions:
                    seen = {"uid": current.metadata.uid, "resourceVersion": current.metadata.resource_version}
                    merge = {"metadata": seen, "status": {"conditions": [written.to_wire() for written in conditions]}}
                    await cluster.patch(Pod, victim.name, victim.namespace, merge=merge, subresource="status")
                await cluster.delete(Pod, victim.name, victim.namespace, uid=victim.metadata.uid)
            except NotFound:
                return
            except Conflict:
                if attempt == WRITE_ATTEMPTS:
                    raise
            else:
                break
        _log.info("pod %s preempted for %s %s on %s", victim.key, kind, uid, node)
        about = ObjectReference(
            api_version="v1", kind="Pod", name=victim.name, namespace=victim.namespace, uid=victim.metadata.uid
        )
        self._recorder.record(about, "Normal", PREEMPTED, f"Preempted by {kind} {uid} on node {node}")
