"""Our claim controller and our protection of pod groups in the place of Kubernetes' own, beside its scheduler and
garbage collector."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from devtools.cluster.control_plane import ControlPlane
from tests.controllers.loops.claims.claim_world import ENTRY, GROUP_LOOPS, GROUPS, group, pod, template
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from virt_dra.api.scheduling_v1 import PodGroup
from virt_dra.api.wire import Json
from virt_dra.cluster.kube.cluster import KubeCluster, connect
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.simulator.control_plane import LOOPS, AmbientSources, control_plane

pytestmark = [pytest.mark.control_plane, pytest.mark.slow]

SECONDS = 60.0
DEVICES = 3


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """With PodGroups, a scheduler and the garbage collector, and without a claim controller."""
    with ControlPlane(gates={"GenericWorkload": True, "DRAWorkloadResourceClaims": True}) as running:
        running.start_scheduler()
        running.start_controllers("garbage-collector-controller")
        yield running


class RealWorld:
    def __init__(self, cluster: KubeCluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    async def create(self, *objects: Any) -> None:
        for obj in objects:
            await self.cluster.create(obj.with_(metadata=obj.metadata.with_(namespace=self.namespace)))

    async def eventually(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(SECONDS):
            while not await holds():
                await asyncio.sleep(0.1)

    async def claims(self) -> tuple[ResourceClaim, ...]:
        return (await self.cluster.list(ResourceClaim, self.namespace)).items

    async def phase(self, name: str, phase: str) -> None:
        await self.cluster.patch(Pod, name, self.namespace, merge={"status": {"phase": phase}}, subresource="status")

    async def bound(self, *names: str) -> bool:
        return all([(await self.cluster.get(Pod, name, self.namespace)).spec.node_name for name in names])

    async def reserved(self) -> list[str]:
        return [consumer.name for claim in await self.claims() for consumer in claim.status.reserved_for]


async def a_node_with_devices(cluster: KubeCluster) -> None:
    capacity = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    if not (await cluster.list(Node)).items:
        await cluster.create(Node.from_wire({"metadata": {"name": "n"}}))
        await cluster.patch(Node, "n", merge={"spec": {"taints": []}})
        await cluster.patch(
            Node, "n", merge={"status": {"capacity": capacity, "allocatable": capacity}}, subresource="status"
        )
        pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
        spec: Json = {
            "driver": "gpu.example.com",
            "pool": pool,
            "nodeName": "n",
            "devices": [{"name": f"d{i}"} for i in range(DEVICES)],
        }
        await cluster.create(ResourceSlice.from_wire({"metadata": {"name": "n"}, "spec": spec}))
        await cluster.create(DeviceClass.from_wire({"metadata": {"name": "gpu"}, "spec": {}}))


async def lived(plane: ControlPlane, life: Callable[[RealWorld], Awaitable[None]]) -> None:
    namespace = plane.create_namespace()
    ours = tuple(loop for loop in LOOPS if loop.name in GROUP_LOOPS)
    sources = AmbientSources(lambda: datetime.now(UTC), lambda: uuid4().hex[:16], lambda: 0.5)
    async with connect(str(plane.kubeconfig), limits=ClientLimits(qps=0)) as cluster:
        await a_node_with_devices(cluster)
        async with control_plane(cluster, sources, gates=GROUPS, loops=ours):
            await life(RealWorld(cluster, namespace))
    plane.delete_namespace(namespace)


async def test_a_claim_lives_and_dies_with_its_pod(plane: ControlPlane) -> None:
    """C-10, C-22: made, allocated by the real scheduler, released and deleted when the pod finishes."""

    async def life(it: RealWorld) -> None:
        async def gone() -> bool:
            return await it.claims() == ()

        await it.create(template(), pod())
        await it.eventually(lambda: it.bound("p"))
        (claim,) = await it.claims()
        assert claim.metadata.generate_name == "p-gpu-"
        assert await it.reserved() == ["p"]
        await it.phase("p", "Succeeded")
        await it.eventually(gone)

    await lived(plane, life)


async def test_a_group_shares_a_claim_until_it_is_deleted_and_its_pods_are_done(plane: ControlPlane) -> None:
    """C-9, C-10.8, C-10.9, and the protection of pod groups."""

    async def life(it: RealWorld) -> None:
        async def reserved_for_the_group() -> bool:
            return await it.reserved() == ["g"]

        async def gone() -> bool:
            return not (await it.cluster.list(PodGroup, it.namespace)).items and await it.claims() == ()

        await it.create(template(), group(), pod("a", ENTRY, group="g"))
        await it.eventually(lambda: it.bound("a"))
        await it.eventually(reserved_for_the_group)
        await it.create(pod("b", ENTRY, group="g"))
        await it.eventually(lambda: it.bound("a", "b"))
        assert await it.reserved() == ["g"]
        await it.cluster.delete(PodGroup, "g", it.namespace)
        await it.phase("a", "Succeeded")
        assert len((await it.cluster.list(PodGroup, it.namespace)).items) == 1
        await it.phase("b", "Failed")
        await it.eventually(gone)

    await lived(plane, life)
