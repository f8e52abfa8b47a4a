"""Preemption by the scheduler's loop: Kubernetes' own (:mod:`virt_dra.scheduling.default_preemption`), which knows no
devices, or with the option, which is off, that of :mod:`virt_dra.scheduling.preemption`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.scheduling_v1 import PodGroup
from virt_dra.cluster.port import ApiError
from virt_dra.controllers.loops.context import LoopContext
from virt_dra.controllers.loops.scheduler.default_preempting import DefaultPreempting, Room
from virt_dra.controllers.loops.scheduler.known_cluster import KnownCluster
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

PREEMPTION: Final = "scheduler.preemption"
"""The loop's option: True evicts."""
PLACEMENTS_AT_ONCE: Final = 20
"""Of a plan in one turn of the event loop: informers and binding cycles go on between them."""
PLANS: Final = 3
"""How often a plan is made anew because the cluster changed while it was made."""
GROUP: Final = "podgroup"


class Preempting(DefaultPreempting):
    """Kubernetes' preemption, or with the option the one that frees devices."""

    def __init__(self, context: LoopContext, cluster: KnownCluster) -> None:
        super().__init__(context, cluster.table, cluster.current)
        self._known = cluster
        self._enabled = context.options.get(PREEMPTION) is True
        self._revision = 0

    async def make_room(self, pod: Pod, outcome: NotFitting) -> Room:
        """Evict for a pod."""
        if not self._enabled:
            return await super().make_room(pod, outcome)
        plan = await self._planned(pod)
        if isinstance(plan, PreemptionPlan):
            try:
                await self.evict_all(pod, plan.node, plan.victims)
            except ApiError as error:
                return Room(f"preemption: {error}")
            return Room("")
        if plan is not None and plan.reason == NOT_NEEDED:
            return Room(f"preemption: {plan.message}.")
        return Room(not_preempting(outcome.diagnosis, pod.spec.preemption_policy))

    async def make_room_for_group(self, group: PodGroup, nominated: Mapping[str, Pod], victims: Sequence[Pod]) -> None:
        """Evict for a pod group; ``nominated``: its pods by UID, each nominated for its node. Raises ApiError."""
        for victim in victims:
            await self.evict(victim, GROUP, group.metadata.uid, "cluster")
        for pod in nominated.values():
            await self.nominate(pod, pod.status.nominated_node_name)

    async def _planned(self, pod: Pod) -> PreemptionPlan | NoPreemption | None:
        """A plan of preemption that holds on the cluster as it is now; None if changes invalidated every one."""
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
        """The plugins but DynamicResources, on a node as it would be; a pod that fails in PreFilter fits nowhere."""
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
