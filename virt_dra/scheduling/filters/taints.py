"""TaintToleration: refuses nodes with taints that the pod doesn't tolerate, and prefers those with fewer soft ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from virt_dra.api.core_v1 import Node, Pod, Taint, Toleration
from virt_dra.api.policies.node_selection import integer
from virt_dra.api.tolerations import concerns, taint_text, tolerates
from virt_dra.scheduling.framework.events import ClusterEvent, Hint
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import FilterScope, PluginAttempt, SchedulingPlugin, normalized
from virt_dra.scheduling.framework.refusals import FilterRefusal, Reason

TAINTED: Final = "NodeTainted"
"""A NoSchedule or NoExecute taint that the pod doesn't tolerate."""

CORDON_KEY: Final = "node.kubernetes.io/unschedulable"
"""The key of the taint that the control plane gives to cordoned nodes."""

_EVENTS: Final = frozenset({ClusterEvent.NODE_ADD, ClusterEvent.NODE_TAINTS, ClusterEvent.TARGET_POD_TOLERATIONS})
# In a pod's condition kube-scheduler doesn't name the taint.
_REFUSAL: Final = FilterRefusal("TaintToleration", ("node(s) had untolerated taint(s)",), code=TAINTED)


def untolerated(pod: Pod, node: Node) -> Iterator[Taint]:
    """The node's taints that keep the pod off."""
    for taint in node.spec.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not is_tolerated(taint, pod.spec.tolerations):
            yield taint


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether one of the tolerations matches a node's taint, by kube-scheduler's rules and those of KEP-5471."""
    return any(tolerates(toleration, taint) or _compares(toleration, taint) for toleration in tolerations)


def _compares(toleration: Toleration, taint: Taint) -> bool:
    """Numeric tolerations of nodes' taints (KEP-5471): the taint's value is less or greater than the toleration's."""
    if toleration.operator not in ("Lt", "Gt") or not concerns(toleration, taint):
        return False
    bound, value = integer(toleration.value), integer(taint.value)
    if bound is None or value is None:
        return False
    return value < bound if toleration.operator == "Lt" else value > bound


class TaintToleration(SchedulingPlugin):
    """Refuses nodes with an untolerated taint NoSchedule or NoExecute; counts PreferNoSchedule taints in scores."""

    name = "TaintToleration"
    scope = FilterScope.NODE
    weight = 3

    hints = (Hint(_EVENTS, lambda pod, old, new: not isinstance(new, Node) or not any(untolerated(pod, new))),)

    def attempt(self, pod: Pod) -> PluginAttempt:
        return _Attempt(pod)


class _Attempt(PluginAttempt):
    scores_nodes = True

    def __init__(self, pod: Pod) -> None:
        self._pod = pod

    def filter(self, state: NodeState) -> FilterRefusal | None:
        return _REFUSAL if state.node.spec.taints and any(untolerated(self._pod, state.node)) else None

    def reasons(self, state: NodeState) -> Iterator[Reason]:
        for taint in untolerated(self._pod, state.node):
            if taint.key == CORDON_KEY and state.node.spec.unschedulable:
                continue  # said by NodeUnschedulable
            yield Reason(TAINTED, f"taint {taint_text(taint)} isn't tolerated")

    def scores(self, states: Sequence[NodeState]) -> Sequence[int]:
        """The fewer PreferNoSchedule taints that the pod doesn't tolerate, the more."""
        return [100 - score for score in normalized([self._unpreferred_taints(state.node) for state in states])]

    def _unpreferred_taints(self, node: Node) -> int:
        return sum(
            taint.effect == "PreferNoSchedule" and not is_tolerated(taint, self._pod.spec.tolerations)
            for taint in node.spec.taints
        )
