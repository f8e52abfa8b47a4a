"""C-13.8: what kubelets may read and write: on the embedded cluster with its rules for nodes, and on a real API server
that has them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from devtools.cluster.control_plane import ControlPlane
from tests.cluster.contract.running import claim, eventually, pod
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.cluster.kube.cluster import KubeCluster
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import Cluster, Forbidden
from virt_dra.cluster.requester import Requester

SLICES = "resourceslices.resource.k8s.io"
UNRELATED = "node: no relationship found between node 'n1' and this object"


def kubelet(cluster: Cluster, node: str) -> Cluster:
    assert isinstance(cluster, KubeCluster | MemoryCluster)
    return cluster.acting_as(Requester(f"system:node:{node}", ("system:nodes",)))


def slice_of(name: str, node: str) -> ResourceSlice:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": node, "devices": [{"name": "d0"}]}
    return ResourceSlice.from_wire({"metadata": {"name": name}, "spec": spec})


async def refused(attempt: Awaitable[object]) -> str:
    """Why, without the sentence that says who could not do what."""
    with pytest.raises(Forbidden) as caught:
        await attempt
    return (
        str(caught.value)
        .rpartition(" is forbidden: ")[2]
        .rpartition("at the cluster scope: ")[2]
        .rpartition('in the namespace "default": ')[2]
    )


async def soon(attempt: Callable[[], Awaitable[object]]) -> None:
    """A real authorizer learns from watches."""

    async def it_is() -> None:
        try:
            await attempt()
        except Forbidden as error:
            raise AssertionError(str(error)) from error

    await eventually(it_is)


async def given(cluster: Cluster) -> None:
    for name in ("n1", "n2"):
        await cluster.create(Node.from_wire({"metadata": {"name": name}}))
    for name in ("used", "generated", "other"):
        await cluster.create(claim("default", name))
    entries = [{"name": "a", "resourceClaimName": "used"}, {"name": "b", "resourceClaimTemplateName": "t"}]
    for name, node in (("p1", "n1"), ("p2", "n2")):
        spec: Json = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]} | (
            {"resourceClaims": entries} if name == "p1" else {}
        )
        await cluster.create(Pod.from_wire({"metadata": {"name": name, "namespace": "default"}, "spec": spec}))
    status = {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "generated"}]}
    await cluster.patch(Pod, "p1", "default", merge={"status": status}, subresource="status")
    await cluster.create(slice_of("foreign", "n2"))


async def claims(cluster: Cluster) -> None:
    own = kubelet(cluster, "n1")
    for name in ("used", "generated"):
        await soon(lambda name=name: own.get(ResourceClaim, name, "default"))  # type: ignore[misc]  # bound at once
    assert await refused(own.get(ResourceClaim, "other", "default")) == UNRELATED
    assert await refused(kubelet(cluster, "n2").get(ResourceClaim, "used", "default")) == UNRELATED.replace("n1", "n2")
    individual = "node: can only get individual resources of this type"
    assert await refused(own.list(ResourceClaim, "default")) == individual
    assert (
        await refused(own.patch(ResourceClaim, "used", "default", merge={"metadata": {"labels": {"a": "b"}}}))
        == individual
    )
    assert (
        await refused(own.patch(ResourceClaim, "used", "default", merge={"status": {}}, subresource="status"))
        == individual
    )
    assert await refused(own.delete(ResourceClaim, "used", "default")) == individual


async def slices(cluster: Cluster) -> None:
    own = kubelet(cluster, "n1")
    await own.create(slice_of("own", "n1"))
    await soon(lambda: own.patch(ResourceSlice, "own", merge={"metadata": {"labels": {"a": "b"}}}))
    assert [slice_.name for slice_ in (await own.list(ResourceSlice, fields="spec.nodeName=n1")).items] == ["own"]
    selected = "node: can only list/watch/deletecollection resourceslices with nodeName field selector"
    assert await refused(own.list(ResourceSlice)) == selected
    assert await refused(own.list(ResourceSlice, fields="spec.nodeName=n2")) == selected
    assert (
        await refused(own.create(slice_of("x", "n2")))
        == "can only create ResourceSlice with the same NodeName as the requesting node"
    )
    for attempt in (
        own.get(ResourceSlice, "foreign"),
        own.delete(ResourceSlice, "foreign"),
        own.get(ResourceSlice, "missing"),
    ):
        assert await refused(attempt) == UNRELATED
    await own.delete(ResourceSlice, "own")


async def pods(cluster: Cluster) -> None:
    own = kubelet(cluster, "n1")
    await soon(lambda: own.get(Pod, "p1", "default"))
    await own.patch(Pod, "p1", "default", merge={"status": {"phase": "Running"}}, subresource="status")
    assert await refused(own.list(Pod, "default")) == "node: can only list/watch pods with spec.nodeName field selector"
    assert [pod.name for pod in (await own.list(Pod, "default", fields="spec.nodeName=n1")).items] == ["p1"]

    async def status(name: str, **status: object) -> str:
        return await refused(own.patch(Pod, name, "default", merge={"status": status}, subresource="status"))

    assert (
        await status("p2", phase="Running")
        == 'node "n1" can only update pod status for pods with spec.nodeName set to itself'
    )
    assert await status("p1", resourceClaimStatuses=[]) == 'node "n1" cannot update resource claim statues'
    special = {
        "resourceClaimName": "other",
        "requestMappings": [{"containerName": "c", "resourceName": "a/b", "requestName": "r"}],
    }
    assert (
        await status("p1", extendedResourceClaimStatus=special)
        == 'node "n1" cannot update extended resource claim status'
    )
    mirror = 'pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods'
    assert await refused(own.create(pod("default", "new"))) == mirror
    assert (
        await refused(own.delete(Pod, "p2", "default"))
        == 'node "n1" can only delete pods with spec.nodeName set to itself'
    )
    await own.delete(Pod, "p1", "default", grace_seconds=0)


async def nodes(cluster: Cluster) -> None:
    own = kubelet(cluster, "n1")
    await own.patch(Node, "n1", merge={"metadata": {"labels": {"example.com/a": "b", "kubernetes.io/hostname": "n1"}}})
    assert await refused(own.list(Node)) == "node: node 'n1' cannot read all nodes, only its own Node object"
    assert await refused(own.get(Node, "n2")) == "node: node 'n1' cannot read 'n2', only its own Node object"
    theirs = own.patch(Node, "n2", merge={"metadata": {"labels": {"a": "b"}}})
    assert await refused(theirs) == 'node "n1" is not allowed to modify node "n2"'
    tainted = own.patch(Node, "n1", merge={"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
    assert await refused(tainted) == 'node "n1" is not allowed to modify taints'
    labelled = own.patch(
        Node, "n1", merge={"metadata": {"labels": {"node-restriction.kubernetes.io/a": "b", "kubernetes.io/x": "y"}}}
    )
    assert (
        await refused(labelled) == "is not allowed to modify labels: kubernetes.io/x, node-restriction.kubernetes.io/a"
    )


async def story(cluster: Cluster) -> None:
    await given(cluster)
    for part in (claims, slices, pods, nodes):
        await part(cluster)


def test_the_embedded_cluster_limits_kubelets() -> None:
    """C-13.8"""
    asyncio.run(story(MemoryCluster.deterministic(graceful_deletion=True, node_rules=True)))


@pytest.mark.control_plane
@pytest.mark.slow
def test_a_real_api_server_limits_kubelets_in_the_same_way() -> None:
    """C-13.8: the authorizer Node beside RBAC, and NodeRestriction, which is no default plugin."""

    from virt_dra.cluster.kube.cluster import connect  # the client's package takes a third of a second

    async def play(plane: ControlPlane) -> None:
        async with connect(str(plane.kubeconfig)) as cluster:
            await story(cluster)

    with ControlPlane(
        arguments=("--authorization-mode", "Node", "--enable-admission-plugins", "NodeRestriction")
    ) as plane:
        asyncio.run(play(plane))


def test_without_the_rules_for_nodes_a_kubelet_is_a_user_as_all() -> None:
    """As on the control plane of the scenarios, which has RBAC alone."""

    async def play() -> str:
        cluster = MemoryCluster.deterministic()
        await cluster.create(claim("default", "c"))
        return await refused(kubelet(cluster, "n1").get(ResourceClaim, "c", "default"))

    expected = (
        'User "system:node:n1" cannot get resource "resourceclaims" in API '
        'group "resource.k8s.io" in the namespace "default"'
    )
    assert asyncio.run(play()) == expected
