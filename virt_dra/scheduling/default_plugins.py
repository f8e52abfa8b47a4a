"""The plugins of kube-scheduler's default profile that need nothing but the pod and the node."""

from __future__ import annotations

from collections.abc import Sequence

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.scheduling.framework.cycle import normalized
from virt_dra.scheduling.framework.events import ClusterEvent, Hint
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import PluginAttempt, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import PluginRefusal
from virt_dra.scheduling.node_fit import AFFINITY, TAINTED, UNSCHEDULABLE, PodFit


class SchedulingGates(SchedulingPlugin):
    """Holds back pods with scheduling gates. The API server writes their condition."""

    name = "SchedulingGates"

    @property
    def hints(self) -> tuple[Hint, ...]:
        return (Hint(frozenset({ClusterEvent.TARGET_POD_GATES})),)

    def pre_enqueue(self, pod: Pod) -> PluginRefusal | None:
        gates = [gate.name for gate in pod.spec.scheduling_gates]
        return PluginRefusal(self.name, (f"waiting for scheduling gates: [{' '.join(gates)}]",)) if gates else None


class NodeFilter(SchedulingPlugin):
    """One of the filters of :mod:`.node_fit`: refuses nodes for its ``reason``."""

    def __init__(self, name: str, reason: str, events: frozenset[ClusterEvent]) -> None:
        self.name = name
        self._reason = reason
        self._events = events

    @property
    def hints(self) -> tuple[Hint, ...]:
        return (Hint(self._events, self._helps),)

    def _helps(self, pod: Pod, old: object, new: object) -> bool:
        if not isinstance(new, Node):
            return True
        refusal = PodFit(pod).refuse(new)
        return refusal is None or refusal.reason != self._reason

    def attempt(self, pod: Pod) -> PluginAttempt | PluginRefusal | None:
        return _FilterAttempt(self.name, self._reason, PodFit(pod))


class _FilterAttempt(PluginAttempt):
    def __init__(self, name: str, reason: str, fit: PodFit) -> None:
        self._name, self._reason, self._fit = name, reason, fit

    def filter(self, state: NodeState) -> PluginRefusal | None:
        refusal = self._fit.refuse(state.node)
        if refusal is None or refusal.reason != self._reason:
            return None
        # In a pod's condition kube-scheduler no longer names the taint.
        message = "node(s) had untolerated taint(s)" if self._reason == TAINTED else refusal.message
        return PluginRefusal(self._name, (message,))


class _TaintToleration(NodeFilter):
    """Prefers nodes with fewer PreferNoSchedule taints that the pod doesn't tolerate."""

    weight = 3

    def attempt(self, pod: Pod) -> PluginAttempt | PluginRefusal | None:
        return _TaintAttempt(self.name, TAINTED, PodFit(pod))


class _TaintAttempt(_FilterAttempt):
    scores_nodes = True

    def scores(self, states: Sequence[NodeState]) -> Sequence[int]:
        worst_first = normalized(
            [self._fit.disliked_taints(state.node) if state.node.spec.taints else 0 for state in states]
        )
        return [100 - score for score in worst_first]


class _NodeAffinity(NodeFilter):
    """Prefers the nodes that the preferred terms select."""

    weight = 2

    def attempt(self, pod: Pod) -> PluginAttempt | PluginRefusal | None:
        return _PreferredAttempt(self.name, AFFINITY, PodFit(pod))


class _PreferredAttempt(_FilterAttempt):
    def __init__(self, name: str, reason: str, fit: PodFit) -> None:
        super().__init__(name, reason, fit)
        self.scores_nodes = fit.prefers_nodes

    def scores(self, states: Sequence[NodeState]) -> Sequence[int]:
        return normalized([self._fit.preference(state.node) for state in states])


def node_filters() -> tuple[SchedulingPlugin, ...]:
    """In the order of the default profile."""
    tolerations = ClusterEvent.TARGET_POD_TOLERATIONS
    return (
        NodeFilter(
            "NodeUnschedulable",
            UNSCHEDULABLE,
            frozenset({ClusterEvent.NODE_ADD, ClusterEvent.NODE_TAINTS, tolerations}),
        ),
        _TaintToleration(
            "TaintToleration", TAINTED, frozenset({ClusterEvent.NODE_ADD, ClusterEvent.NODE_TAINTS, tolerations})
        ),
        _NodeAffinity("NodeAffinity", AFFINITY, frozenset({ClusterEvent.NODE_ADD, ClusterEvent.NODE_LABELS})),
    )
