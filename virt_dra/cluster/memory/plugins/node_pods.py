"""The plugins about pods and their nodes: TaintNodesByCondition, DefaultTolerationSeconds, PodTopologyLabels."""

from __future__ import annotations

from virt_dra.api.core_v1 import Node, Pod, Taint, Toleration
from virt_dra.api.meta import TypedObject
from virt_dra.cluster.memory.plugins.write_request import WriteRequest
from virt_dra.cluster.memory.pods import topology_labels

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
TOLERATED_SECONDS = 300


def with_not_ready_taint(request: WriteRequest) -> TypedObject:
    """A new node has the not-ready taint, until it is removed."""
    node = request.new
    if not isinstance(node, Node) or request.operation != "CREATE":
        return node
    if any((taint.key, taint.effect) == (NOT_READY, "NoSchedule") for taint in node.spec.taints):
        return node
    return node.with_(spec=node.spec.with_(taints=(*node.spec.taints, Taint(key=NOT_READY, effect="NoSchedule"))))


def with_default_tolerations(request: WriteRequest) -> TypedObject:
    """A pod tolerates for five minutes that its node isn't ready or reachable, unless its spec sets another time."""
    pod = request.new
    if not isinstance(pod, Pod):
        return pod
    added = tuple(
        Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=TOLERATED_SECONDS)
        for key in (NOT_READY, UNREACHABLE)
        if not any(
            toleration.key in (key, "") and toleration.effect in ("NoExecute", "")
            for toleration in pod.spec.tolerations
        )
    )
    return pod.with_(spec=pod.spec.with_(tolerations=(*pod.spec.tolerations, *added))) if added else pod


def with_topology_labels(request: WriteRequest) -> TypedObject:
    """A pod that is created or updated on a node has its zone and region as labels."""
    pod = request.new
    if not isinstance(pod, Pod) or not pod.spec.node_name:
        return pod
    labels = topology_labels(request.stored.find(Node, pod.spec.node_name))
    return pod.with_(metadata=pod.metadata.with_(labels={**pod.metadata.labels, **labels})) if labels else pod
