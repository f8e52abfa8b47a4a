"""The scheduling cycle: one pod through PreFilter, Filter and Score of all plugins (C-5.2 to C-5.8).

As kube-scheduler: below 100 nodes all are tried; with more, until enough fit, beginning behind the node that was tried
last. Unlike it, nodes are tried one after the other in the order of their names, and the first of those with the best
score is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from virt_dra.allocator import wanted_nodes
from virt_dra.api.core_v1 import Pod
from virt_dra.scheduling.claim_references import pod_group_name
from virt_dra.scheduling.framework.messages import NO_NODES, Diagnosis
from virt_dra.scheduling.framework.node_table import NodeState, NodeTable
from virt_dra.scheduling.framework.nominations import Nominations
from virt_dra.scheduling.framework.plugin import PluginAttempt, Remedy, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import AttemptError, PluginRefusal

_ALL_BELOW = 100


@dataclass(frozen=True)
class PluginPart:
    """A plugin's part in an attempt."""

    plugin: SchedulingPlugin
    attempt: PluginAttempt


@dataclass(frozen=True)
class FoundNode:
    """The pod fits on ``node``, the best of those that were found."""

    node: str
    parts: tuple[PluginPart, ...]


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
    """The plugins in their order, over the nodes of a table."""

    def __init__(self, plugins: Sequence[SchedulingPlugin], table: NodeTable) -> None:
        self._plugins = plugins
        self._table = table
        self._start = 0

    def find(self, pod: Pod) -> FoundNode | NotFitting | NoNodes:
        """Raises AttemptError."""
        if not len(self._table):
            return NoNodes()
        prepared = self._prepare(pod)
        if isinstance(prepared, NotFitting):
            return prepared
        restricted = [part for part in prepared if part.attempt.only_nodes is not None]
        states = self._candidates(pod, prepared, restricted)
        fitting, refusals = self._filter(pod, states, prepared)
        if not fitting:
            failed = next((refusal for refusal in refusals.values() if refusal.error), None)
            if failed is not None:
                raise AttemptError(f'running "{failed.plugin}" filter plugin: {failed.message}')
            elsewhere = None
            if restricted:
                names = " ".join(sorted(part.plugin.name for part in restricted))
                elsewhere = PluginRefusal("", (f"node(s) didn't satisfy plugin(s) [{names}]",))
            rejectors = frozenset(refusal.plugin for refusal in refusals.values()) | {
                part.plugin.name for part in restricted
            }
            return NotFitting(Diagnosis(len(self._table), refusals, elsewhere=elsewhere, rejectors=rejectors), prepared)
        return FoundNode(self._best(fitting, prepared).name, prepared)

    def _prepare(self, pod: Pod) -> tuple[PluginPart, ...] | NotFitting:
        """PreFilter. A refusal for good ends it, another one only after all plugins were asked."""
        parts: list[PluginPart] = []
        refused: PluginRefusal | None = None
        for plugin in self._plugins:
            try:
                answer = plugin.attempt(pod)
            except AttemptError as error:
                raise AttemptError(f'running PreFilter plugin "{plugin.name}": {error}') from error
            if isinstance(answer, PluginAttempt):
                parts.append(PluginPart(plugin, answer))
            elif isinstance(answer, PluginRefusal):
                refused = answer
                if not answer.resolvable:
                    break
        if refused is not None:
            return NotFitting(
                Diagnosis(len(self._table), everywhere=refused, rejectors=frozenset({refused.plugin})), tuple(parts)
            )
        allowed = [part.attempt.only_nodes for part in parts if part.attempt.only_nodes is not None]
        if allowed and not frozenset.intersection(*allowed):
            return self._nowhere(parts)
        return tuple(parts)

    def _nowhere(self, parts: Sequence[PluginPart]) -> NotFitting:
        names = sorted(part.plugin.name for part in parts if part.attempt.only_nodes is not None)
        several = f"plugin(s) [{' '.join(names)}] simultaneously"
        text = f"node(s) didn't satisfy {several if len(names) > 1 else f'plugin {names[0]}'}"
        diagnosis = Diagnosis(len(self._table), everywhere=PluginRefusal("", (text,)), rejectors=frozenset(names))
        return NotFitting(diagnosis, tuple(parts))

    def _candidates(
        self, pod: Pod, parts: Sequence[PluginPart], restricted: Sequence[PluginPart]
    ) -> Sequence[NodeState]:
        """The nodes to filter: the nominated one alone if the pod fits there."""
        nominated = self._table.get(pod.status.nominated_node_name or "")
        if nominated is not None:
            try:
                if refusal_beside_nominated(pod, parts, nominated, self._table.nominations) is None:
                    return (nominated,)
            except AttemptError:
                pass  # the error counts only if it comes again among all nodes
        if not restricted:
            return self._table.states
        names = frozenset.intersection(
            *(part.attempt.only_nodes for part in restricted if part.attempt.only_nodes is not None)
        )
        return tuple(state for state in map(self._table.get, sorted(names)) if state is not None)

    def _filter(
        self, pod: Pod, states: Sequence[NodeState], parts: Sequence[PluginPart]
    ) -> tuple[list[NodeState], dict[str, PluginRefusal]]:
        """The first nodes that fit, as many as are wanted, and why the others don't."""
        total = len(states)
        wanted, start = total, 0
        if total >= _ALL_BELOW:
            wanted = wanted_nodes(total) if any(part.attempt.scores_nodes for part in parts) else 1
            start = self._start % total
        fitting: list[NodeState] = []
        refusals: dict[str, PluginRefusal] = {}
        for step in range(total):
            state = states[(start + step) % total]
            refusal = refusal_beside_nominated(pod, parts, state, self._table.nominations)
            if refusal is not None:
                refusals[state.name] = refusal
                continue
            fitting.append(state)
            if len(fitting) == wanted:
                break
        self._start = (start + len(fitting) + len(refusals)) % max(1, total)
        return fitting, refusals

    def _best(self, fitting: Sequence[NodeState], parts: Sequence[PluginPart]) -> NodeState:
        scoring = [part for part in parts if part.attempt.scores_nodes]
        if len(fitting) == 1 or not scoring:
            return fitting[0]
        totals = [0] * len(fitting)
        for part in scoring:
            for position, score in enumerate(part.attempt.scores(fitting)):
                totals[position] += part.plugin.weight * score
        return fitting[totals.index(max(totals))]


def refusal_beside_nominated(
    pod: Pod, parts: Sequence[PluginPart], state: NodeState, nominations: Nominations
) -> PluginRefusal | None:
    """Why the pod doesn't fit on a node, with the pods of its priority or more that are nominated for it, or without
    them. Those of its own group are tried in the same cycle, and count when they have got their place."""
    group = pod_group_name(pod)
    others = {
        each.metadata.uid: each
        for each in nominations.on(state.name)
        if each.metadata.uid != pod.metadata.uid
        and (each.spec.priority or 0) >= (pod.spec.priority or 0)
        and (group is None or (each.namespace, pod_group_name(each)) != (pod.namespace, group))
    }
    if others:
        refusal = _refusal(parts, state.supposing({**state.pods, **others}))
        if refusal is not None:
            return refusal
    return _refusal(parts, state)


def _refusal(parts: Sequence[PluginPart], state: NodeState) -> PluginRefusal | None:
    for part in parts:
        try:
            refusal = part.attempt.filter(state)
        except AttemptError as error:
            raise AttemptError(f'running "{part.plugin.name}" filter plugin: {error}') from error
        if refusal is not None:
            return refusal
    return None


def remedies(outcome: NotFitting | FoundNode) -> tuple[Remedy, ...]:
    """What the plugins would do about it, in their order."""
    return tuple(remedy for part in outcome.parts if (remedy := part.attempt.remedy()) is not None)


def normalized(raw: Sequence[int]) -> Sequence[int]:
    """Scores from 0 to 100, the highest of them 100."""
    highest = max(raw, default=0)
    return [score * 100 // highest for score in raw] if highest else list(raw)
