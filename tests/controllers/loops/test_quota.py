"""The quota controller beside the admission that charges (C-15), on the strict embedded cluster in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.policies.quota_v1 import ResourceQuota
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.embedded import strict_cluster
from virt_dra.cluster.memory.names import counted_suffixes
from virt_dra.cluster.port import Cluster, Forbidden
from virt_dra.controllers.loops.quota import RESYNC_SECONDS
from virt_dra.simulator.control_plane import LOOPS, AmbientSources, control_plane
from virt_dra.simulator.virtual_time import run_virtually, virtual_now

DEVICES = "gpu.deviceclass.resource.k8s.io/devices"
Story = Callable[[MemoryCluster], Awaitable[None]]


def play(story: Story, between: Callable[[MemoryCluster], Any] = lambda cluster: cluster) -> None:
    """Run a story in the namespace ``n`` while the quota loop runs. ``between``: what the loop has for a cluster."""

    async def main() -> None:
        uids = count(1)
        cluster = strict_cluster(virtual_now, counted_suffixes(), lambda: f"uid-{next(uids)}")
        await cluster.create(Namespace(metadata=ObjectMeta(name="n")))
        sources = AmbientSources(virtual_now, counted_suffixes(), lambda: 0.5)
        seen: Cluster = between(cluster)
        async with control_plane(seen, sources, loops=tuple(loop for loop in LOOPS if loop.name == "quota")):
            await story(cluster)

    run_virtually(main())


def quota(**hard: str) -> ResourceQuota:
    return ResourceQuota.from_wire(
        {"metadata": {"name": "q", "namespace": "n"}, "spec": {"hard": hard or {DEVICES: "2"}}}
    )


def claim(name: str) -> ResourceClaim:
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    return ResourceClaim.from_wire({"metadata": {"name": name, "namespace": "n"}, "spec": spec})


async def used(cluster: MemoryCluster, name: str = DEVICES) -> str:
    return str((await cluster.get(ResourceQuota, "q", "n")).status.used.get(name))


def test_what_is_charged_comes_back_when_it_goes() -> None:
    """C-15.1, C-15.7"""

    async def story(cluster: MemoryCluster) -> None:
        await cluster.create(claim("before"))
        await cluster.create(quota())
        await cluster.create(claim("uncounted"))  # the quota has no status yet
        await asyncio.sleep(1)
        assert await used(cluster) == "2"
        with pytest.raises(Forbidden) as refused:
            await cluster.create(claim("too-many"))
        limits = f"requested: {DEVICES}=1, used: {DEVICES}=2, limited: {DEVICES}=2"
        assert (
            str(refused.value) == f'resourceclaims.resource.k8s.io "too-many" is forbidden: exceeded quota: q, {limits}'
        )
        await cluster.delete(ResourceClaim, "before", "n")
        await asyncio.sleep(1)
        assert await used(cluster) == "1"
        await cluster.create(claim("again"))
        assert await used(cluster) == "2"

    play(story)


def test_a_charge_between_count_and_write_is_counted() -> None:
    """C-15.7: the write is bound to the version of the quota that was read."""

    class Busy:
        """While the claims are listed for the first time somebody makes one more."""

        def __init__(self, cluster: MemoryCluster) -> None:
            self._cluster, self.lists = cluster, 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._cluster, name)

        async def list(self, kind: type[Any], namespace: str = "", **selectors: str) -> Any:
            listed = await self._cluster.list(kind, namespace, **selectors)
            if kind is ResourceClaim and namespace:
                self.lists += 1
                if self.lists == 2:
                    await self._cluster.create(claim("meanwhile"))
            return listed

    async def story(cluster: MemoryCluster) -> None:
        await cluster.create(quota())
        await cluster.create(claim("one"))
        await asyncio.sleep(1)
        await cluster.delete(ResourceClaim, "one", "n")
        await asyncio.sleep(1)
        assert [claim.name for claim in (await cluster.list(ResourceClaim, "n")).items] == ["meanwhile"]
        assert await used(cluster) == "1"

    play(story, Busy)


def test_a_wrong_status_is_right_again_after_the_resync() -> None:
    """C-15.7"""

    async def story(cluster: MemoryCluster) -> None:
        await cluster.create(quota())
        await asyncio.sleep(1)
        await cluster.patch(ResourceQuota, "q", "n", merge={"status": {"used": {DEVICES: "7"}}}, subresource="status")
        await asyncio.sleep(RESYNC_SECONDS / 2)
        assert await used(cluster) == "7"
        await asyncio.sleep(RESYNC_SECONDS)
        assert await used(cluster) == "0"

    play(story)


def test_a_finished_pod_gives_back_what_it_asked_for() -> None:
    """C-15.4, C-15.7"""

    async def story(cluster: MemoryCluster) -> None:
        hard = {"pods": "1", "count/pods": "5", "requests.example.com/gpu": "1"}
        await cluster.create(quota(**hard))
        await asyncio.sleep(1)
        resources = {"limits": {"example.com/gpu": "1"}}
        spec = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
        await cluster.create(Pod.from_wire({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}))
        assert [await used(cluster, name) for name in hard] == ["1", "1", "1"]
        await cluster.patch(Pod, "p", "n", merge={"status": {"phase": "Failed"}}, subresource="status")
        await asyncio.sleep(1)
        assert [await used(cluster, name) for name in hard] == ["0", "1", "0"]

    play(story)
