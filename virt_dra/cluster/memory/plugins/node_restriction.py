"""The plugin NodeRestriction: what kubelets may not write of what the authorizer Node lets them write (C-13.8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.go_text import quoted
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cluster.memory.authorization.nodes import MIRROR, node_of
from virt_dra.cluster.memory.plugins.write_request import WriteRequest

_RESERVED: Final = "node-restriction.kubernetes.io"
_OWN_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_OWN_LABELS: Final = frozenset({
    "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type", "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region", "beta.kubernetes.io/instance-type",
})  # fmt: skip
"""Labels of Kubernetes' own domains that a kubelet may set on its node."""


def restrict_node(request: WriteRequest, subresource: str = "") -> None:
    """Raises :class:`Forbidden` for what a kubelet may not write. In a deletion ``new`` is the deleted object."""
    node = node_of(request.requester)
    if node is None:
        return
    if not node:
        raise request.refused(f"could not determine node from user {quoted(request.requester.name)}")
    obj, old = request.new, request.old
    match obj:
        case ResourceSlice():
            if request.operation != "UPDATE" and obj.spec.node_name != node:  # an update can't change it
                does = request.operation.lower()
                raise request.refused(f"can only {does} ResourceSlice with the same NodeName as the requesting node")
        case Pod() if subresource == "status" and isinstance(old, Pod):
            _pod_status(request, node, obj, old)
        case Pod():
            _pod(request, node, obj)
        case Node():
            _node(request, node, obj, old if isinstance(old, Node) else None)


def _pod(request: WriteRequest, node: str, pod: Pod) -> None:
    name = quoted(node)
    if request.operation == "UPDATE":
        raise request.refused(f'unexpected operation "UPDATE", node {name} can only create and delete mirror pods')
    if request.operation == "CREATE" and MIRROR not in pod.metadata.annotations:
        raise request.refused(f"pod does not have {quoted(MIRROR)} annotation, node {name} can only create mirror pods")
    if pod.spec.node_name != node:
        raise request.refused(f"node {name} can only {request.operation.lower()} pods with spec.nodeName set to itself")
    if request.operation == "CREATE":
        _mirror_pod(request, node, pod)


def _mirror_pod(request: WriteRequest, node: str, pod: Pod) -> None:
    """A pod that stands for one of the node's own files: it is the node's, and asks for nothing of the API."""
    name, owners = quoted(node), pod.metadata.owner_references
    if len(owners) > 1:
        raise request.refused(f"node {name} can only create pods with a single owner reference set to itself")
    if not owners or (owners[0].api_version, owners[0].kind, owners[0].name) != ("v1", "Node", node):
        raise request.refused(f"node {name} can only create pods with an owner reference set to itself")
    if not owners[0].controller:
        raise request.refused(f"node {name} can only create pods with a controller owner reference set to itself")
    if pod.spec.resource_claims:
        raise request.refused(f"node {name} can not create pods that reference resourceclaims")


def _pod_status(request: WriteRequest, node: str, new: Pod, old: Pod) -> None:
    name = quoted(node)
    if old.spec.node_name != node:
        raise request.refused(f"node {name} can only update pod status for pods with spec.nodeName set to itself")
    if new.metadata.labels != old.metadata.labels:
        raise request.refused(f"node {name} cannot update labels through pod status")
    if new.status.resource_claim_statuses != old.status.resource_claim_statuses:
        raise request.refused(f"node {name} cannot update resource claim statues")  # as upstream spells it
    if new.status.extended_resource_claim_status != old.status.extended_resource_claim_status:
        raise request.refused(f"node {name} cannot update extended resource claim status")
    if new.status.node_allocatable_resource_claim_statuses != old.status.node_allocatable_resource_claim_statuses:
        raise request.refused(f"node {name} cannot update node allocatable resource claim statuses")


def _node(request: WriteRequest, node: str, new: Node, old: Node | None) -> None:
    name = quoted(node)
    if request.name != node:
        raise request.refused(f"node {name} is not allowed to modify node {quoted(request.name)}")
    if request.operation == "DELETE":
        return
    if old is not None and new.spec.taints != old.spec.taints:
        raise request.refused(f"node {name} is not allowed to modify taints")
    if old is not None and new.metadata.owner_references != old.metadata.owner_references:
        raise request.refused(f"node {name} is not allowed to modify ownerReferences")
    changed = _changed(new.metadata.labels, old.metadata.labels if old is not None else {})
    forbidden = ", ".join(sorted(label for label in changed if not _may_set(label)))
    if forbidden and old is not None:
        raise request.refused(f"is not allowed to modify labels: {forbidden}")
    if forbidden:
        raise request.refused(f"node {name} is not allowed to set the following labels: {forbidden}")


def _changed(new: Mapping[str, str], old: Mapping[str, str]) -> set[str]:
    return {label for label in new.keys() | old.keys() if new.get(label) != old.get(label)}


def _may_set(label: str) -> bool:
    domain, slash, _ = label.partition("/")
    if not slash:
        return True
    if _within(domain, _RESERVED):
        return False
    if not (_within(domain, "kubernetes.io") or _within(domain, "k8s.io")):
        return True
    return label in _OWN_LABELS or any(_within(domain, own) for own in _OWN_DOMAINS)


def _within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")
