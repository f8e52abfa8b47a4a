"""Preemption, as an option: which pods of lower priority to evict so that a waiting pod gets devices. Pure. A plan is
proved: the pod is placed on the cluster without its victims, and with any cheaper set of them it was not, as long as
the budget of placements lasted. Cheaper is, in this order: the lower highest priority, the lower sum of priorities
(each counted from the lowest possible one), fewer pods, those that started later. No PodDisruptionBudget is
violated."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import parse_time
from virt_dra.api.scheduling_v1 import PodDisruptionBudget
from virt_dra.model.usage import started_at
from virt_dra.scheduling.preemption_trial import PreemptionTrial, TrialCluster

NEVER = "PreemptionNever"
"""The pod's preemptionPolicy forbids it."""
NO_HELP = "PreemptionNotHelpful"
"""The pod fits on no node, even without all pods that may be evicted."""
NOT_NEEDED = "PreemptionNotNeeded"
"""The pod fits now, or will once pods that are being deleted have ended: evicting others isn't needed."""
TOO_COSTLY = "PreemptionBudgetExhausted"
"""The budget of placements ended before there was a plan."""

LOWEST_PRIORITY = -(2**31)
DEFAULT_BUDGET = 2000
"""Placements on one node that a plan may cost."""
SETS_OF_A_NODE = 200
"""Of these, sets of one node that are tried; then one is looked for by leaving out what isn't needed."""


@dataclass(frozen=True)
class PreemptionPlan:
    """The pods to evict so that the pod fits on ``node``, sorted by priority and age. ``placements``: tried ones."""

    node: str
    victims: tuple[Pod, ...]
    placements: int


@dataclass(frozen=True)
class NoPreemption:
    """Why no pod is evicted: one of the reasons above."""

    reason: str
    message: str
    placements: int = 0


PlanningSteps = Generator[None, None, PreemptionPlan | NoPreemption]

_Cost = tuple[int, int, int, float]
"""Highest priority, sum of priorities, number of pods, how long ago the oldest started."""


def planning(
    pod: Pod,
    cluster: TrialCluster,
    budgets: Sequence[PodDisruptionBudget] = (),
    *,
    changed: bool = False,
    budget: int = DEFAULT_BUDGET,
) -> PlanningSteps:
    """The cheapest eviction that lets a pod fit which fits nowhere, in steps of one placement, for a caller that has
    other work between them. Nodes are tried in the order of the cluster, which must not change; the cheapest set of all
    counts. ``changed``: the cluster has changed since, so that it may fit without an eviction."""
    if pod.spec.preemption_policy == "Never":
        return NoPreemption(NEVER, "not eligible due to preemptionPolicy=Never.")
    trial = _trial(pod, cluster, budget)
    return (yield from _Planning(trial, _Disruptions(cluster.pods, budgets), changed).plan())


def still_helps(plan: PreemptionPlan, pod: Pod, cluster: TrialCluster) -> bool:
    """Whether an earlier plan is of use, and needed, on the cluster as it is. Two placements."""
    trial = _trial(pod, cluster, 2)
    candidates = (
        {candidate.metadata.uid for candidate in trial.candidates(plan.node)} if plan.node in trial.nodes else set()
    )
    wanted = frozenset(victim.metadata.uid for victim in plan.victims)
    return wanted <= candidates and trial.fits(plan.node, wanted) and not trial.fits(plan.node, frozenset())


def _trial(pod: Pod, cluster: TrialCluster, budget: int) -> PreemptionTrial:
    return PreemptionTrial(pod, cluster, lambda other: other.priority < pod.priority, budget)


class _Disruptions:
    """How many pods of each budget may still be disrupted."""

    def __init__(self, pods: Sequence[Pod], budgets: Sequence[PodDisruptionBudget]) -> None:
        self._allowed = [max(budget.status.disruptions_allowed, 0) for budget in budgets]
        self._of: Mapping[str, list[int]] = {
            pod.metadata.uid: [number for number, budget in enumerate(budgets) if budget.concerns(pod)]
            for pod in pods
            if budgets
        }

    def allow(self, victims: Sequence[Pod]) -> bool:
        counts = [0] * len(self._allowed)
        for victim in victims:
            for number in self._of.get(victim.metadata.uid, ()):
                counts[number] += 1
                if counts[number] > self._allowed[number]:
                    return False
        return True


class _Exhausted(Exception):
    """The budget of placements is spent."""


class _Planning:
    def __init__(self, trial: PreemptionTrial, disruptions: _Disruptions, changed: bool) -> None:
        self._trial = trial
        self._may_fit = changed or trial.is_waiting
        self._disruptions = disruptions
        self._best: tuple[_Cost, str, tuple[Pod, ...]] | None = None

    def plan(self) -> PlanningSteps:
        exhausted = False
        try:
            for node in self._trial.nodes if self._may_fit else ():
                if (yield from self._fits(node, ())):
                    when = "once pods are gone that are being deleted" if self._trial.is_waiting else "by now"
                    return NoPreemption(NOT_NEEDED, f"node {node} has room {when}", self._trial.tried)
            for node in self._trial.nodes:
                candidates = sorted(self._trial.candidates(node), key=_cost_of_one)
                if (
                    candidates
                    and self._may_be_cheaper(_cost(candidates[:1]))
                    and (yield from self._fits(node, candidates))
                ):
                    yield from self._try(node, candidates)
        except _Exhausted:
            exhausted = True
        if self._best is not None:
            _, node, victims = self._best
            return PreemptionPlan(node, tuple(sorted(victims, key=_cost_of_one)), self._trial.tried)
        if exhausted:
            return NoPreemption(TOO_COSTLY, f"no victims found with {self._trial.tried} placements", self._trial.tried)
        return NoPreemption(NO_HELP, "Preemption is not helpful for scheduling", self._trial.tried)

    def _may_be_cheaper(self, cost: _Cost) -> bool:
        return self._best is None or cost < self._best[0]

    def _fits(self, node: str, victims: Sequence[Pod]) -> Generator[None, None, bool]:
        if self._trial.is_spent:
            raise _Exhausted
        yield
        return self._trial.fits(node, frozenset(victim.metadata.uid for victim in victims))

    def _try(self, node: str, candidates: Sequence[Pod]) -> Generator[None]:
        """The cheapest set of a node if it is cheaper than the best so far."""
        tried = 0
        for cost, victims in _by_cost(candidates):
            if not self._may_be_cheaper(cost):
                return
            if not self._disruptions.allow(victims):
                continue
            if (yield from self._fits(node, victims)):
                self._best = cost, node, victims
                return
            tried += 1
            if tried >= SETS_OF_A_NODE:
                yield from self._leave_out(node, candidates)
                return

    def _leave_out(self, node: str, candidates: Sequence[Pod]) -> Generator[None]:
        """Starts with all pods that may be disrupted together and spares one after the other, the costliest first."""
        victims: list[Pod] = []
        for candidate in candidates:
            if self._disruptions.allow([*victims, candidate]):
                victims.append(candidate)
        if not (yield from self._fits(node, victims)):
            return
        for spared in reversed(tuple(victims)):
            fewer = [victim for victim in victims if victim is not spared]
            if (yield from self._fits(node, fewer)):
                victims = fewer
        cost = _cost(victims)
        if self._may_be_cheaper(cost):
            self._best = cost, node, tuple(victims)


def _started(pod: Pod) -> float:
    """When a pod started, or was created; 0 if it says neither."""
    given = started_at(pod) or pod.metadata.creation_timestamp
    try:
        return parse_time(given).timestamp() if given else 0.0
    except ValueError:
        return 0.0


def _cost(victims: Sequence[Pod]) -> _Cost:
    priorities = [victim.priority for victim in victims]
    total = sum(priority - LOWEST_PRIORITY for priority in priorities)
    return max(priorities), total, len(victims), -min(map(_started, victims))


def _cost_of_one(pod: Pod) -> tuple[_Cost, str]:
    return _cost([pod]), pod.key


def _by_cost(candidates: Sequence[Pod]) -> Iterator[tuple[_Cost, tuple[Pod, ...]]]:
    """All sets of pods that are sorted by cost, from the cheapest on; lazily, since few of them are needed."""
    first: tuple[int, ...] = (0,)
    queue = [(_cost([candidates[0]]), first)]
    while queue:
        cost, chosen = heapq.heappop(queue)
        yield cost, tuple(candidates[index] for index in chosen)
        following = chosen[-1] + 1
        if following < len(candidates):
            for indexes in ((*chosen[:-1], following), (*chosen, following)):
                heapq.heappush(queue, (_cost([candidates[index] for index in indexes]), indexes))
