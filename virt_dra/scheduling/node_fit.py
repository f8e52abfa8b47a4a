"""The node filters that have nothing to do with devices: unschedulable, taints, nodeSelector, node affinity (as kube-scheduler's)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from virt_dra.allocator.node_selection import NodeMatcher, integer
from virt_dra.api.core_v1 import Node, Pod, Taint, Toleration
from virt_dra.api.tolerations import concerns, tolerates

UNSCHEDULABLE = "NodeUnschedulable"
"""`spec.unschedulable` and no toleration for it."""
TAINTED = "NodeTainted"
"""A NoSchedule or NoExecute taint that the pod doesn't tolerate."""
AFFINITY = "NodeAffinityMismatch"
"""`spec.nodeSelector` or the required node affinity excludes the node."""

_UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@dataclass(frozen=True)
class NodeRefusal:
    """Why a node is excluded before devices are tried. ``message`` in kube-scheduler's words, also used for the histogram."""

    reason: str
    message: str


class PodFit:
    """The filters for one pod, its affinity read once. Faulty affinity terms select nothing, as in kube-scheduler."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        required = affinity.required if affinity else None
        self._required = None if required is None else NodeMatcher(required, lenient=True)

    def refuse(self, node: Node) -> NodeRefusal | None:
        """None if the node is fine; else the first filter's refusal."""
        tolerations = self._pod.spec.tolerations
        if node.spec.unschedulable and not _tolerated(_UNSCHEDULABLE_TAINT, tolerations):
            return NodeRefusal(UNSCHEDULABLE, "node(s) were unschedulable")
        for taint in node.spec.taints:
            if taint.effect in ("NoSchedule", "NoExecute") and not _tolerated(taint, tolerations):
                return NodeRefusal(TAINTED, "node(s) had untolerated taint(s)")
        labels = node.metadata.labels
        wanted = self._pod.spec.node_selector
        if any(labels.get(key) != value for key, value in wanted.items()) or (
            self._required is not None and not self._required.matches(node)
        ):
            return NodeRefusal(AFFINITY, "node(s) didn't match Pod's node affinity/selector")
        return None


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(tolerates(toleration, taint) or _compares(toleration, taint) for toleration in tolerations)


def _compares(toleration: Toleration, taint: Taint) -> bool:
    """Numeric tolerations of nodes' taints (KEP-5471): the taint's value is less or greater than the toleration's."""
    if toleration.operator not in ("Lt", "Gt") or not concerns(toleration, taint):
        return False
    bound, found = integer(toleration.value), integer(taint.value)
    if bound is None or found is None:
        return False
    return found < bound if toleration.operator == "Lt" else found > bound
