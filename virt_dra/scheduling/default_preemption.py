"""DefaultPreemption of kube-scheduler: pods of lower priority are evicted for what a node's other filters refuse; a
claim's devices stay taken (C-2.2, C-5.6; :mod:`.preemption` frees them). Pure. On each node where evicting may help,
all pods of lower priority are left out, then as many as possible are spared, the most important first, before them
those whose PodDisruptionBudget would be violated. The node with the least harm is chosen; of equal ones the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import parse_time
from virt_dra.api.scheduling_v1 import PodDisruptionBudget
from virt_dra.model.usage import started_at
from virt_dra.scheduling.fit import Fit, PluginPart
from virt_dra.scheduling.framework.cycle import FoundNode, NotFitting, refusal_beside_nominated
from virt_dra.scheduling.framework.messages import NEVER_PREEMPTS, NO_VICTIMS, NOT_HELPFUL, Diagnosis
from virt_dra.scheduling.framework.node_table import NodeState, NodeTable
from virt_dra.scheduling.framework.refusals import AttemptError, FilterRefusal

MARKED: Final = "PreemptionByScheduler"
"""The reason of a victim's condition DisruptionTarget."""
DEVICES: Final = "DynamicResources"
_LOWEST: Final = -(2**31)
_WANTED_NODES: Final = 100
"""Nodes that are compared at least, if there are so many; else a tenth of them."""


@dataclass(frozen=True)
class Victims:
    """The pods to evict from a node, the most important first. ``violations``: how many of them a budget protects."""

    node: str
    pods: tuple[Pod, ...]
    violations: int = 0

    @property
    def text(self) -> str:
        """The message of the pod's condition."""
        return (
            f"preemption: found a potential placement for pod on node {self.node}, preempting {len(self.pods)} victims"
        )


@dataclass(frozen=True)
class NoVictims:
    """Why no pod is evicted: ``text`` for the pod's condition. ``hopeless``: the pod loses its nomination."""

    text: str
    hopeless: bool = False


def choose_victims(
    pod: Pod, outcome: NotFitting, table: NodeTable, budgets: Sequence[PodDisruptionBudget]
) -> Victims | NoVictims:
    """The victims on the best node for a pod that fits nowhere. ``pod``: as it is now."""
    if pod.spec.preemption_policy == "Never":
        return NoVictims(NEVER_PREEMPTS)
    if _has_preempted(pod, outcome.diagnosis, table):
        return NoVictims("preemption: not eligible due to a terminating pod on the nominated node.")
    planning = _Planning(pod, outcome.parts, table, budgets)
    candidates: list[Victims] = []
    refusals: dict[str, FilterRefusal] = {}
    helped = sorted(name for name, refusal in outcome.diagnosis.refusals.items() if refusal.resolvable)
    enough = max(len(helped) // 10, _WANTED_NODES)
    for name in helped:
        state = table.get(name)
        if state is None:
            continue
        try:
            victims = planning.on(state)
        except AttemptError as error:
            victims = FilterRefusal("", (str(error),))
        if isinstance(victims, FilterRefusal):
            refusals[name] = victims
            continue
        candidates.append(victims)
        if len(candidates) >= enough and any(not candidate.violations for candidate in candidates):
            break
    if candidates:
        return min(candidates, key=_harm)
    diagnosis = Diagnosis(outcome.diagnosis.total, refusals, elsewhere=FilterRefusal("", (NOT_HELPFUL,)))
    return NoVictims(f"preemption: {diagnosis.message}", hopeless=True)


def choose_group_victims(
    assignments: Sequence[tuple[Pod, FoundNode]],
    candidates: Sequence[Pod],
    table: NodeTable,
    budgets: Sequence[PodDisruptionBudget],
) -> tuple[Pod, ...]:
    """The victims for a pod group that was placed as if none of ``candidates`` were there, the most important first
    (C-9.4). ``table`` has neither them nor the group's pods. Devices aren't asked for again."""
    protected, others = _by_protection(sorted(candidates, key=_importance), budgets)
    victims = [spared for spared in (*protected, *others) if not _fit_beside(spared, assignments, table)]
    for candidate in candidates:
        table.unassign(candidate.metadata.uid)
    return tuple(sorted(victims, key=_importance))


def _fit_beside(spared: Pod, assignments: Sequence[tuple[Pod, FoundNode]], table: NodeTable) -> bool:
    """Whether the group's pods still fit where they were placed beside the spared pod, which stays there if they do."""
    table.assign(spared, spared.spec.node_name or "")
    placed: list[Pod] = []
    fits = True
    for pod, place in assignments:
        state = table.get(place.node)
        parts = tuple(part for part in place.parts if part.plugin.name != DEVICES)
        if state is None or refusal_beside_nominated(Fit(pod, parts, table), state, table.nominations) is not None:
            fits = False
            break
        table.assign(pod, place.node)
        placed.append(pod)
    for pod in placed:
        table.unassign(pod.metadata.uid)
    if not fits:
        table.unassign(spared.metadata.uid)
    return fits


def waits_for_victims(pods: Sequence[Pod], priority: int, table: NodeTable) -> bool:
    """Whether victims of a pod group are still there, on the nodes that its pods are nominated for."""
    nodes = {pod.status.nominated_node_name for pod in pods if pod.status.nominated_node_name}
    states = [state for state in map(table.get, sorted(nodes)) if state is not None]
    return any(pod.priority < priority and _is_victim(pod) for state in states for pod in state.pods.values())


def _has_preempted(pod: Pod, diagnosis: Diagnosis, table: NodeTable) -> bool:
    """Whether victims of the pod are still there, on the node that it is nominated for."""
    nominated = table.get(pod.status.nominated_node_name or "")
    refusal = diagnosis.refusals.get(nominated.name) if nominated is not None else None
    if nominated is None or refusal is None or not refusal.resolvable:
        return False
    return any(victim.priority < pod.priority and _is_victim(victim) for victim in nominated.pods.values())


def _is_victim(pod: Pod) -> bool:
    mark = next((condition for condition in pod.status.conditions if condition.type == "DisruptionTarget"), None)
    return (
        pod.metadata.deletion_timestamp is not None
        and mark is not None
        and (mark.status, mark.reason) == ("True", MARKED)
    )


class _Planning:
    """Finds the victims for one pod, node by node."""

    def __init__(
        self, pod: Pod, parts: tuple[PluginPart, ...], table: NodeTable, budgets: Sequence[PodDisruptionBudget]
    ) -> None:
        self._pod, self._parts, self._table, self._budgets = pod, parts, table, budgets

    def on(self, state: NodeState) -> Victims | FilterRefusal:
        """The victims on a node, or why evicting doesn't help there. Raises AttemptError."""
        candidates = sorted((pod for pod in state.pods.values() if pod.priority < self._pod.priority), key=_importance)
        if not candidates:
            return FilterRefusal("", (NO_VICTIMS,))
        gone = {pod.metadata.uid for pod in candidates}
        refusal = self._refusal(state, gone)
        if refusal is not None:
            return refusal
        protected, others = _by_protection(candidates, self._budgets)
        for spared in (*protected, *others):
            gone.discard(spared.metadata.uid)
            if self._refusal(state, gone) is not None:
                gone.add(spared.metadata.uid)
        violations = sum(pod.metadata.uid in gone for pod in protected)
        victims = tuple(pod for pod in candidates if pod.metadata.uid in gone)
        if not victims:
            raise AttemptError(f'expected at least one victim pod on node "{state.name}"')
        return Victims(state.name, victims, violations)

    def _refusal(self, state: NodeState, gone: set[str]) -> FilterRefusal | None:
        supposed = state.supposing({uid: pod for uid, pod in state.pods.items() if uid not in gone})
        return refusal_beside_nominated(Fit(self._pod, self._parts, self._table), supposed, self._table.nominations)


def _by_protection(candidates: Sequence[Pod], budgets: Sequence[PodDisruptionBudget]) -> tuple[list[Pod], list[Pod]]:
    """The candidates whose eviction, after that of the candidates before them, violates a budget; and the others."""
    left = [budget.status.disruptions_allowed for budget in budgets]
    protected: list[Pod] = []
    others: list[Pod] = []
    for candidate in candidates:
        (protected if _violates(candidate, budgets, left) else others).append(candidate)
    return protected, others


def _violates(candidate: Pod, budgets: Sequence[PodDisruptionBudget], left: list[int]) -> bool:
    """Whether evicting the candidate violates a budget. Budgets behind the first that is used up aren't charged."""
    for number, budget in enumerate(budgets):
        if candidate.metadata.labels and budget.concerns(candidate):
            left[number] -= 1
            if left[number] < 0:
                return True
    return False


def _harm(victims: Victims) -> tuple[int, int, int, int, float]:
    priorities = [pod.priority for pod in victims.pods]
    highest = priorities[0]
    earliest = min(_started(pod) for pod in victims.pods if pod.priority == highest)
    return victims.violations, highest, sum(priority - _LOWEST for priority in priorities), len(priorities), -earliest


def _importance(pod: Pod) -> tuple[int, float, str]:
    """The most important first: high priority, then a long life."""
    return -pod.priority, _started(pod), pod.key


def _started(pod: Pod) -> float:
    """The time at which the kubelet took a pod, infinity if it didn't: such a pod counts as started last."""
    given = started_at(pod)
    try:
        return parse_time(given).timestamp() if given else float("inf")
    except ValueError:
        return float("inf")
