"""The extender whole on an embedded cluster: informers, the advising process, HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.extender.objects import GPU_CLASS, allocated, claim, gpus, node, pod
from virt_dra.allocator import DEFAULT
from virt_dra.api.core_v1 import Namespace, Node
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.embedded import embedded_cluster
from virt_dra.extender.advising_process import AdvisorSettings
from virt_dra.extender.following import FollowedCluster
from virt_dra.extender.metrics import ExtenderMetrics
from virt_dra.extender.server import ExtenderPorts, ExtenderServer

ANY = ExtenderPorts(port=0, plain_port=0)
NODES = ["a", "b"]


class Extender:
    def __init__(
        self, cluster: MemoryCluster, followed: FollowedCluster, session: aiohttp.ClientSession, ports: tuple[int, int]
    ) -> None:
        self.cluster, self.followed, self._session, self._ports = cluster, followed, session, ports

    async def ready(self) -> None:
        async with asyncio.timeout(60):
            while await self.get("readyz") != (200, "ok"):
                await asyncio.sleep(0.02)

    @property
    def port(self) -> int:
        return self._ports[0]

    async def get(self, path: str) -> tuple[int, str]:
        async with self._session.get(f"http://127.0.0.1:{self._ports[1]}/{path}") as found:
            return found.status, await found.text()

    async def post(self, verb: str, body: Any) -> tuple[int, Any]:
        async with self._session.post(f"http://127.0.0.1:{self._ports[0]}/{verb}", json=body) as found:
            return found.status, await (found.json() if found.status == 200 else found.text())

    async def best(self, name: str, *claims: str) -> str:
        status, found = await self.post("prioritize", {"Pod": pod(name, *claims).to_wire(), "NodeNames": NODES})
        assert status == 200
        return next((each["Host"] for each in found if each["Score"] == 10), "")


@asynccontextmanager
async def extender(policy: str = "pack") -> AsyncIterator[Extender]:
    cluster = embedded_cluster()
    for each in (
        Namespace.from_wire({"metadata": {"name": "vms"}}),
        GPU_CLASS,
        *map(node, NODES),
        *[gpus(name, 2) for name in NODES],
    ):
        await cluster.create(each)
    metrics = ExtenderMetrics()
    followed = FollowedCluster(cluster, AdvisorSettings(policy, DEFAULT), metrics)
    server = ExtenderServer(followed, metrics)
    async with server.serving(ANY) as ports, aiohttp.ClientSession() as session, followed.following():
        yield Extender(cluster, followed, session, ports)


async def test_it_answers_by_what_the_cluster_shows() -> None:
    async with extender() as one:
        await one.cluster.create(claim("used"))
        await one.cluster.create(claim("c"))
        stored = await one.cluster.get(ResourceClaim, "used", "vms")
        await one.cluster.update_status(stored.with_(status=allocated(claim("used"), "b", "gpu-0").status))
        await one.ready()
        assert await one.best("p", "c") == "b"
        status, found = await one.post("filter", {"Pod": pod("p", "c").to_wire(), "NodeNames": [*NODES, "unknown"]})
        assert (status, found) == (200, {"FailedNodes": {}, "Error": "", "NodeNames": [*NODES, "unknown"]})
        assert await one.post("prioritize", {}) == (400, "Pod: must be an object, not null")
        assert await one.get("healthz") == (200, "ok")
        status, metrics = await one.get("metrics")
        assert 'virt_dra_extender_answers_total{verb="prioritize",verdict="scored"} 1.0' in metrics
        assert 'virt_dra_extender_scored_total{policy="pack"} 2.0' in metrics
        assert "virt_dra_extender_ready 1.0" in metrics
        assert "virt_dra_extender_process_starts_total 1.0" in metrics


async def test_changes_reach_it_before_the_next_answer() -> None:
    async with extender() as one:
        await one.ready()
        await one.cluster.create(claim("c"))
        stored = await one.cluster.create(claim("used", 2))
        await one.cluster.update_status(stored.with_(status=allocated(claim("used"), "a", "gpu-0", "gpu-1").status))
        async with asyncio.timeout(30):
            while await one.best("p", "c") != "b":
                await asyncio.sleep(0.02)
        await one.cluster.delete(ResourceClaim, "used", "vms")
        await one.cluster.delete(Node, "b")
        async with asyncio.timeout(30):
            while await one.best("p", "c") != "a":
                await asyncio.sleep(0.02)


async def test_a_process_that_is_killed_is_replaced_and_knows_everything() -> None:
    async with extender() as one:
        await one.ready()
        await one.cluster.create(claim("c"))
        first = one.followed.process.pid
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(60):
            while True:
                status, _ = await one.post("prioritize", {"Pod": pod("p", "c").to_wire(), "NodeNames": NODES})
                if status == 200 and await one.best("p", "c") == "a":
                    break
                assert status in (200, 503)
                await asyncio.sleep(0.1)
        assert one.followed.process.pid != first


async def test_before_it_knows_the_cluster_it_says_so() -> None:
    followed = FollowedCluster(embedded_cluster(), AdvisorSettings("pack", DEFAULT))
    async with ExtenderServer(followed, ExtenderMetrics()).serving(ANY) as ports, aiohttp.ClientSession() as session:
        one = Extender(embedded_cluster(), followed, session, ports)
        assert await one.post("prioritize", {}) == (503, "the extender doesn't know the cluster yet")
        kinds = "Node, ResourceSlice, DeviceClass, DeviceTaintRule, ResourceClaim, Pod, Namespace"
        assert await one.get("readyz") == (503, f"waiting for {kinds}")


async def test_without_a_client_certificate_a_verifying_one_answers_nothing() -> None:
    followed = FollowedCluster(embedded_cluster(), AdvisorSettings("pack", DEFAULT))
    server = ExtenderServer(followed, ExtenderMetrics(), verified=True)
    async with server.serving(ANY) as ports, aiohttp.ClientSession() as session:
        one = Extender(embedded_cluster(), followed, session, ports)
        assert await one.post("prioritize", {}) == (403, "a client certificate is required")
