"""The scheduling cycle: one pod through PreFilter, Filter and Score of all plugins (C-5.2 to C-5.8). As kube-scheduler:
from 100 nodes on, until enough fit, beginning behind the node that was tried last. Unlike it, nodes are tried in the
order of their names, and the first of those with the best score is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from virt_dra.allocator import wanted_nodes
from virt_dra.api.core_v1 import Pod
from virt_dra.scheduling.claim_references import pod_group_name
from virt_dra.scheduling.fit import FilterError, Fit, PluginPart, prepare
from virt_dra.scheduling.framework.messages import NO_NODES, Diagnosis, unsatisfied
from virt_dra.scheduling.framework.node_table import NodeState, NodeTable
from virt_dra.scheduling.framework.nominations import Nominations
from virt_dra.scheduling.framework.plugin import Remedy, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import AttemptError, FilterRefusal

_ALL_BELOW = 100


@dataclass(frozen=True)
class FoundNode:
    """The pod fits on ``node``, the best of those that were found."""

    node: str
    parts: tuple[PluginPart, ...]


@dataclass(frozen=True)
class FittingNodes:
    """The nodes that the pod fits on, as many as were looked for, in the order in which they were tried."""

    states: Sequence[NodeState]
    parts: tuple[PluginPart, ...]

    def scores(self) -> Sequence[int]:
        """Of each node, the weighted sum of all plugins' scores."""
        totals = [0] * len(self.states)
        for part in self.parts:
            if part.attempt.scores_nodes:
                for position, score in enumerate(part.attempt.scores(self.states)):
                    totals[position] += part.plugin.weight * score
        return totals


@dataclass(frozen=True)
class NotFitting:
    """The pod fits nowhere. ``parts`` may have remedies."""

    diagnosis: Diagnosis
    parts: tuple[PluginPart, ...] = ()


@dataclass(frozen=True)
class NoNodes:
    """The cluster has no nodes."""

    message: str = NO_NODES


class SchedulingCycle:
    """The plugins in their order, over the nodes of a table. ``samples``: False: all nodes are tried, always."""

    def __init__(self, plugins: Sequence[SchedulingPlugin], table: NodeTable, *, samples: bool = True) -> None:
        self._plugins = plugins
        self._table = table
        self._samples = samples
        self._start = 0

    def find(self, pod: Pod) -> FoundNode | NotFitting | NoNodes:
        """The best node for the pod. Raises AttemptError."""
        outcome = self.fitting(pod)
        return FoundNode(_best(outcome).name, outcome.parts) if isinstance(outcome, FittingNodes) else outcome

    def fitting(self, pod: Pod) -> FittingNodes | NotFitting | NoNodes:
        """The nodes among which the best is chosen. Raises AttemptError."""
        if not len(self._table):
            return NoNodes()
        try:
            fit = prepare(pod, self._plugins, self._table)
        except FilterError as error:
            raise AttemptError(error.words) from error
        prepared = fit.parts
        if fit.everywhere is not None:
            refused = fit.everywhere
            diagnosis = Diagnosis(len(self._table), everywhere=refused, rejectors=frozenset({refused.plugin}))
            return NotFitting(diagnosis, prepared)
        allowed = [part.attempt.only_nodes for part in prepared if part.attempt.only_nodes is not None]
        if allowed and not frozenset.intersection(*allowed):
            return self._nowhere(prepared)
        restricted = [part for part in prepared if part.attempt.only_nodes is not None]
        states = self._candidates(fit, restricted)
        fitting, refusals = self._filter(fit, states)
        if not fitting:
            failed = next((refusal for refusal in refusals.values() if refusal.error), None)
            if failed is not None:
                raise AttemptError(f'running "{failed.plugin}" filter plugin: {failed.message}')
            elsewhere = None
            if restricted:
                elsewhere = FilterRefusal("", (unsatisfied(part.plugin.name for part in restricted),))
            rejectors = frozenset(refusal.plugin for refusal in refusals.values()) | {
                part.plugin.name for part in restricted
            }
            return NotFitting(Diagnosis(len(self._table), refusals, elsewhere=elsewhere, rejectors=rejectors), prepared)
        return FittingNodes(fitting, prepared)

    def _nowhere(self, parts: Sequence[PluginPart]) -> NotFitting:
        names = sorted(part.plugin.name for part in parts if part.attempt.only_nodes is not None)
        several = f"plugin(s) [{' '.join(names)}] simultaneously"
        text = f"node(s) didn't satisfy {several if len(names) > 1 else f'plugin {names[0]}'}"
        diagnosis = Diagnosis(len(self._table), everywhere=FilterRefusal("", (text,)), rejectors=frozenset(names))
        return NotFitting(diagnosis, tuple(parts))

    def _candidates(self, fit: Fit, restricted: Sequence[PluginPart]) -> Sequence[NodeState]:
        """The nodes to filter: the nominated one alone if the pod fits there."""
        nominated = self._table.get(fit.pod.status.nominated_node_name or "")
        if nominated is not None:
            try:
                if refusal_beside_nominated(fit, nominated, self._table.nominations) is None:
                    return (nominated,)
            except AttemptError:
                pass  # the error counts only if it comes again among all nodes
        if not restricted:
            return self._table.states
        names = frozenset.intersection(
            *(part.attempt.only_nodes for part in restricted if part.attempt.only_nodes is not None)
        )
        return tuple(state for state in map(self._table.get, sorted(names)) if state is not None)

    def _filter(self, fit: Fit, states: Sequence[NodeState]) -> tuple[list[NodeState], dict[str, FilterRefusal]]:
        """The first nodes that fit, as many as are wanted, and why the others don't."""
        total = len(states)
        wanted, start = total, 0
        if self._samples and total >= _ALL_BELOW:
            wanted = wanted_nodes(total) if any(part.attempt.scores_nodes for part in fit.parts) else 1
            start = self._start % total
        fitting: list[NodeState] = []
        refusals: dict[str, FilterRefusal] = {}
        for step in range(total):
            state = states[(start + step) % total]
            refusal = refusal_beside_nominated(fit, state, self._table.nominations)
            if refusal is not None:
                refusals[state.name] = refusal
                continue
            fitting.append(state)
            if len(fitting) == wanted:
                break
        self._start = (start + len(fitting) + len(refusals)) % max(1, total)
        return fitting, refusals


def _best(fitting: FittingNodes) -> NodeState:
    """The first of those with the highest score."""
    if len(fitting.states) == 1 or not any(part.attempt.scores_nodes for part in fitting.parts):
        return fitting.states[0]
    totals = fitting.scores()
    return fitting.states[totals.index(max(totals))]


def refusal_beside_nominated(fit: Fit, state: NodeState, nominations: Nominations) -> FilterRefusal | None:
    """Why the pod doesn't fit on a node, with the pods of its priority or more that are nominated for it, or without
    them. Those of its own group count when they have got their place. Raises AttemptError."""
    pod, group = fit.pod, pod_group_name(fit.pod)
    others = {
        other.metadata.uid: other
        for other in nominations.on(state.name)
        if other.metadata.uid != pod.metadata.uid
        and other.priority >= pod.priority
        and (group is None or (other.namespace, pod_group_name(other)) != (pod.namespace, group))
    }
    try:
        refusal = fit.refusal(state.supposing({**state.pods, **others})) if others else None
        return refusal or fit.refusal(state)
    except FilterError as error:
        raise AttemptError(error.words) from error


def remedies(outcome: NotFitting | FoundNode) -> tuple[Remedy, ...]:
    """What the plugins would do about it, in their order."""
    return tuple(remedy for part in outcome.parts if (remedy := part.attempt.remedy()) is not None)
