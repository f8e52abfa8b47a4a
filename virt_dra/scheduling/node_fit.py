"""What a pod requires of a node, and prefers, that has nothing to do with devices: unschedulable, taints, nodeSelector,
node affinity (as kube-scheduler's)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from virt_dra.allocator.node_selection import NodeMatcher, integer
from virt_dra.api.core_v1 import Node, NodeSelector, Pod, Taint, Toleration
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
    """Why a node is excluded before devices are tried. ``message`` in kube-scheduler's words, also used for the
    histogram."""

    reason: str
    message: str


class PodFit:
    """The filters for one pod, its affinity read once. Faulty affinity terms select nothing, as in kube-scheduler."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        required = affinity.required if affinity else None
        self._required = None if required is None else NodeMatcher(required, lenient=True)
        self._preferred = tuple(
            [
                (each.weight, NodeMatcher(NodeSelector(node_selector_terms=(each.preference,)), lenient=True))
                for each in (affinity.preferred if affinity else ())
            ]
        )

    def refuse(self, node: Node) -> NodeRefusal | None:
        """None if the node is fine; else the first filter's refusal."""
        tolerations = self._pod.spec.tolerations
        if node.spec.unschedulable and not _tolerated(_UNSCHEDULABLE_TAINT, tolerations):
            return NodeRefusal(UNSCHEDULABLE, "node(s) were unschedulable")
        for taint in node.spec.taints:
            if taint.effect in ("NoSchedule", "NoExecute") and not _tolerated(taint, tolerations):
                return NodeRefusal(TAINTED, "node(s) had untolerated taint(s)")
        if not self._wanted(node):
            return NodeRefusal(AFFINITY, "node(s) didn't match Pod's node affinity/selector")
        return None

    @property
    def prefers_nodes(self) -> bool:
        return bool(self._preferred)

    def preference(self, node: Node) -> int:
        """The sum of the weights of the preferred terms that select the node."""
        return sum([weight for weight, term in self._preferred if term.matches(node)])

    def disliked_taints(self, node: Node) -> int:
        """How many PreferNoSchedule taints of the node the pod doesn't tolerate."""
        return sum(
            [
                taint.effect == "PreferNoSchedule" and not _tolerated(taint, self._pod.spec.tolerations)
                for taint in node.spec.taints
            ]
        )

    def reasons(self, node: Node) -> frozenset[str]:
        """Every reason to refuse the node."""
        found = set()
        if node.spec.unschedulable and not _tolerated(_UNSCHEDULABLE_TAINT, self._pod.spec.tolerations):
            found.add(UNSCHEDULABLE)
        if any(
            taint.effect in ("NoSchedule", "NoExecute") and not _tolerated(taint, self._pod.spec.tolerations)
            for taint in node.spec.taints
        ):
            found.add(TAINTED)
        if not self._wanted(node):
            found.add(AFFINITY)
        return frozenset(found)

    def _wanted(self, node: Node) -> bool:
        labels = node.metadata.labels
        return all(labels.get(key) == value for key, value in self._pod.spec.node_selector.items()) and (
            self._required is None or self._required.matches(node)
        )


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
