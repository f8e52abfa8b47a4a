"""Kubernetes' preemption by a scheduler's loop (:mod:`virt_dra.scheduling.default_preemption`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from virt_dra.api.core_v1 import SCHEDULER_NAME, Pod, PodCondition, reference_to
from virt_dra.api.scheduling_v1 import PodDisruptionBudget
from virt_dra.cluster.port import ApiError, Conflict, NotFound
from virt_dra.controllers.loops.context import LoopContext
from virt_dra.controllers.loops.scheduler.claim_writes import WRITE_ATTEMPTS
from virt_dra.controllers.loops.scheduler.pod_writes import put_condition
from virt_dra.controllers.writes import patch_status
from virt_dra.scheduling.default_preemption import MARKED, Victims, choose_victims
from virt_dra.scheduling.framework.cycle import NotFitting
from virt_dra.scheduling.framework.node_table import NodeTable

_log = logging.getLogger(__name__)

PREEMPTED: Final = "Preempted"
"""Of the Event of a victim."""


def _mark(kind: str) -> PodCondition:
    """A victim's condition; ``kind``: of whom it is evicted for."""
    message = f"{SCHEDULER_NAME}: preempting to accommodate a higher priority {kind}"
    return PodCondition(type="DisruptionTarget", status="True", reason=MARKED, message=message)


@dataclass(frozen=True)
class Room:
    """What preemption did: ``text`` for the pod's condition, which is all that it says if pods were ``evicted``."""

    text: str
    evicted: bool = False


class DefaultPreempting:
    """``current``: a pod as the informer has it; None if it was deleted."""

    def __init__(self, context: LoopContext, table: NodeTable, current: Callable[[Pod], Pod | None]) -> None:
        self._context, self._table, self._current = context, table, current
        self._recorder = context.recorder(SCHEDULER_NAME)
        self._budgets = context.informers.of(PodDisruptionBudget)

    async def make_room(self, pod: Pod, outcome: NotFitting) -> Room:
        """Evict for a pod. A victim that is being deleted already is left alone."""
        pod = self._current(pod) or pod
        chosen = choose_victims(pod, outcome, self._table, self.sorted_budgets())
        try:
            if isinstance(chosen, Victims):
                self._table.nominations.nominate(pod, chosen.node)
                await self.evict_all(pod, chosen.node, chosen.pods)
                return Room(chosen.text, evicted=True)
            if chosen.hopeless:
                await self.give_up_place(pod)
        except ApiError as error:
            return Room(f"preemption: {error}")
        return Room(chosen.text)

    async def evict_all(self, pod: Pod, node: str, victims: Sequence[Pod]) -> None:
        """Evict these victims for the pod, which gets their place; lower priorities nominated for it lose that. Raises
        ApiError."""
        for other in tuple(self._table.nominations.on(node)):
            if other.priority < pod.priority:
                self._table.nominations.forget(other.metadata.uid)
                await self.nominate(other, None)
        for victim in victims:
            await self.evict(victim, "pod", pod.metadata.uid, node)
        await self.nominate(pod, node)

    async def give_up_place(self, pod: Pod) -> None:
        """Withdraws the pod's nomination for a node."""
        self._table.nominations.forget(pod.metadata.uid)
        if not pod.status.nominated_node_name:
            return
        try:
            await self.nominate(pod, None)
        except ApiError as error:
            _log.warning("nomination of pod %s not taken back: %s", pod.key, error)

    async def nominate(self, pod: Pod, node: str | None) -> None:
        """Write the node that the pod is nominated for. Raises ApiError."""
        with suppress(NotFound):
            await patch_status(self._context.cluster, pod, {"nominatedNodeName": node})

    def sorted_budgets(self) -> Sequence[PodDisruptionBudget]:
        """By namespace and name."""
        return sorted(self._budgets.store.values(), key=lambda budget: budget.key)

    async def evict(self, victim: Pod, kind: str, uid: str, node: str) -> None:
        """Evict a victim for the pod or group (``kind``) of this UID, unless it was replaced. Raises ApiError."""
        cluster = self._context.cluster
        for attempt in range(1, WRITE_ATTEMPTS + 1):
            try:
                current = await cluster.get(Pod, victim.name, victim.namespace)
                if current.metadata.uid != victim.metadata.uid or current.metadata.deletion_timestamp is not None:
                    return
                await put_condition(cluster, current, _mark(kind), self._context.clock())
                await cluster.delete(Pod, victim.name, victim.namespace, uid=victim.metadata.uid)
            except NotFound:
                return
            except Conflict:
                if attempt == WRITE_ATTEMPTS:
                    raise
            else:
                break
        _log.info("pod %s preempted for %s %s on %s", victim.key, kind, uid, node)
        self._recorder.record(reference_to(victim), "Normal", PREEMPTED, f"Preempted by {kind} {uid} on node {node}")
