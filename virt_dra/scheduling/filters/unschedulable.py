"""NodeUnschedulable: refuses cordoned nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from virt_dra.api.core_v1 import Node, Pod, Taint
from virt_dra.scheduling.filters.taints import CORDON_KEY, is_tolerated
from virt_dra.scheduling.framework.events import ClusterEvent, Hint
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import FilterScope, PluginAttempt, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import FilterRefusal, Reason

UNSCHEDULABLE: Final = "NodeUnschedulable"
"""`spec.unschedulable` and no toleration for it."""

_TAINT: Final = Taint(key=CORDON_KEY, effect="NoSchedule")
_EVENTS: Final = frozenset({ClusterEvent.NODE_ADD, ClusterEvent.NODE_TAINTS, ClusterEvent.TARGET_POD_TOLERATIONS})
CORDONED: Final = FilterRefusal("NodeUnschedulable", ("node(s) were unschedulable",), code=UNSCHEDULABLE)
"""The refusal of a cordoned node."""


def admits(pod: Pod, node: Node) -> bool:
    """Whether the node is open for the pod."""
    return not node.spec.unschedulable or is_tolerated(_TAINT, pod.spec.tolerations)


class NodeUnschedulable(SchedulingPlugin):
    """Refuses nodes with `spec.unschedulable`, unless the pod tolerates the taint that stands for it."""

    name = "NodeUnschedulable"
    scope = FilterScope.NODE

    hints = (Hint(_EVENTS, lambda pod, old, new: not isinstance(new, Node) or admits(pod, new)),)

    def attempt(self, pod: Pod) -> PluginAttempt:
        return _Attempt(pod)


class _Attempt(PluginAttempt):
    def __init__(self, pod: Pod) -> None:
        self._pod = pod

    def filter(self, state: NodeState) -> FilterRefusal | None:
        return None if admits(self._pod, state.node) else CORDONED

    def reasons(self, state: NodeState) -> Iterator[Reason]:
        if not admits(self._pod, state.node):
            yield Reason(UNSCHEDULABLE, "cordoned (unschedulable)")
