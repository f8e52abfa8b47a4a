"""What kubelets (users ``system:node:<name>`` in ``system:nodes``) may ask for (C-13.8): the authorizer Node, before
RBAC.

A kubelet reads what its pods need and writes what is about its node; what the content of a request decides is the
admission plugin's (:mod:`virt_dra.cluster.memory.plugins.node_restriction`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.go_text import quoted
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cluster.memory.authorization.access_request import AccessRequest, Decision
from virt_dra.cluster.memory.authorization.rbac import Stored
from virt_dra.cluster.requester import Requester

NODES_GROUP = "system:nodes"
USER_PREFIX = "system:node:"
MIRROR = "kubernetes.io/config.mirror"
"""The annotation of pods that a kubelet reports, not runs because of the API."""

_ALLOWED: Final = Decision(allowed=True)
_SLICE_VERBS: Final = "get, watch, list, create, update, patch, delete, deletecollection"


def node_of(requester: Requester) -> str | None:
    """The name of the kubelet's node, empty if it has none; None for everybody else."""
    if NODES_GROUP not in requester.groups or not requester.name.startswith(USER_PREFIX):
        return None
    return requester.name.removeprefix(USER_PREFIX)


def authorize_node(request: AccessRequest, stored: Stored) -> Decision:
    """The decision about a kubelet's request; denied without a reason for any other user."""
    node = node_of(request.requester)
    if node is None:
        return Decision(allowed=False)
    if not node:
        return _refused(f"unknown node for user {quoted(request.requester.name)}")
    competent = _BY_KIND.get((request.resource.group, request.resource.plural))
    if competent is not None:
        return competent(node, request, stored)
    records = (request.resource.plural, request.subresource) == ("events", "") and request.verb in _RECORDS
    return _ALLOWED if records else _refused()


_RECORDS: Final = ("create", "update", "patch")


def _claims(node: str, request: AccessRequest, stored: Stored) -> Decision:
    """A claim that one of its pods uses may be read, one by one; nothing else."""
    if request.verb != "get":
        return _refused("can only get individual resources of this type")
    if request.subresource:
        return _refused("cannot get subresource")
    pods = stored.every(Pod, request.namespace)
    used = any(
        request.name in _claims_of(pod)
        for pod in pods
        if pod.spec.node_name == node and MIRROR not in pod.metadata.annotations
    )
    return _ALLOWED if used else _unrelated(node)


def _claims_of(pod: Pod) -> Iterator[str]:
    yield from pod.claim_names.values()
    if pod.status.extended_resource_claim_status is not None:
        yield pod.status.extended_resource_claim_status.resource_claim_name


def _slices(node: str, request: AccessRequest, stored: Stored) -> Decision:
    if request.subresource:
        return _refused("cannot authorize ResourceSlice subresources")
    match request.verb:
        case "create":  # admission checks the content
            return _ALLOWED
        case "get" | "update" | "patch" | "delete":
            slice_ = stored.find(ResourceSlice, request.name)
            return _ALLOWED if slice_ is not None and slice_.spec.node_name == node else _unrelated(node)
        case "list" | "watch" | "deletecollection":
            if _selects(request.fields, "spec.nodeName", node):
                return _ALLOWED
            return _refused("can only list/watch/deletecollection resourceslices with nodeName field selector")
    return _refused(f"only the following verbs are allowed for a ResourceSlice: {_SLICE_VERBS}")


def _pods(node: str, request: AccessRequest, stored: Stored) -> Decision:
    match request.subresource, request.verb:
        case "", "get":
            pod = stored.find(Pod, request.name, request.namespace)
            return _ALLOWED if pod is not None and pod.spec.node_name == node else _unrelated(node)
        case "", "list" | "watch":
            if _selects(request.fields, "spec.nodeName", node):
                return _ALLOWED
            return _refused("can only list/watch pods with spec.nodeName field selector")
        case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
            return _ALLOWED
    return _refused()


def _nodes(node: str, request: AccessRequest, stored: Stored) -> Decision:
    match request.subresource, request.verb:
        case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
            return _ALLOWED
        case "", "get" | "list" | "watch":
            if request.name == node:
                return _ALLOWED
            target = f"'{request.name}'" if request.name else "all nodes"
            return _refused(f"node '{node}' cannot read {target}, only its own Node object")
    return _refused()


_BY_KIND: Final[Mapping[tuple[str, str], Callable[[str, AccessRequest, Stored], Decision]]] = {
    ("resource.k8s.io", "resourceclaims"): _claims,
    ("resource.k8s.io", "resourceslices"): _slices,
    ("", "pods"): _pods,
    ("", "nodes"): _nodes,
}


def _selects(fields: str, key: str, value: str) -> bool:
    return any(part.strip() in (f"{key}={value}", f"{key}=={value}") for part in fields.split(","))


def _unrelated(node: str) -> Decision:
    return _refused(f"no relationship found between node '{node}' and this object")


def _refused(reason: str = "") -> Decision:
    return Decision(allowed=False, reason=f"node: {reason}" if reason else "")
