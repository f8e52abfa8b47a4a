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
        async with self._session.get(f"http://127.0.0.1:{self._ports[1]}/{path}") as answer:
            return answer.status, await answer.text()

    async def post(self, verb: str, body: Any) -> tuple[int, Any]:
        async with self._session.post(f"http://127.0.0.1:{self._ports[0]}/{verb}", json=body) as answer:
            return answer.status, await (answer.json() if answer.status == 200 else answer.text())

    async def best(self, name: str, *claims: str) -> str:
        status, scores = await self.post("prioritize", {"Pod": pod(name, *claims).to_wire(), "NodeNames": NODES})
        assert status == 200
        return next((score["Host"] for score in scores if score["Score"] == 10), "")


@asynccontextmanager
async def extender(policy: str = "pack") -> AsyncIterator[Extender]:
    cluster = embedded_cluster()
    for obj in (
        Namespace.from_wire({"metadata": {"name": "vms"}}),
        GPU_CLASS,
        *map(node, NODES),
        *[gpus(name, 2) for name in NODES],
    ):
        await cluster.create(obj)
    metrics = ExtenderMetrics()
    followed = FollowedCluster(cluster, AdvisorSettings(policy, DEFAULT), metrics)
    server = ExtenderServer(followed, metrics)
    async with server.serving(ANY) as ports, aiohttp.ClientSession() as session, followed.following():
        yield Extender(cluster, followed, session, ports)


async def test_it_answers_by_what_the_cluster_shows() -> None:
    async with extender() as served:
        await served.cluster.create(claim("used"))
        await served.cluster.create(claim("c"))
        stored = await served.cluster.get(ResourceClaim, "used", "vms")
        await served.cluster.update_status(stored.with_(status=allocated(claim("used"), "b", "gpu-0").status))
        await served.ready()
        assert await served.best("p", "c") == "b"
        status, verdict = await served.post(
            "filter", {"Pod": pod("p", "c").to_wire(), "NodeNames": [*NODES, "unknown"]}
        )
        assert (status, verdict) == (200, {"FailedNodes": {}, "Error": "", "NodeNames": [*NODES, "unknown"]})
        assert await served.post("prioritize", {}) == (400, "Pod: must be an object, not null")
        assert await served.get("healthz") == (200, "ok")
        status, metrics = await served.get("metrics")
        assert 'virt_dra_extender_answers_total{verb="prioritize",verdict="scored"} 1.0' in metrics
        assert 'virt_dra_extender_scored_total{policy="pack"} 2.0' in metrics
        assert "virt_dra_extender_ready 1.0" in metrics
        assert "virt_dra_extender_process_starts_total 1.0" in metrics


async def test_changes_reach_it_before_the_next_answer() -> None:
    async with extender() as served:
        await served.ready()
        await served.cluster.create(claim("c"))
        stored = await served.cluster.create(claim("used", 2))
        await served.cluster.update_status(stored.with_(status=allocated(claim("used"), "a", "gpu-0", "gpu-1").status))
        async with asyncio.timeout(30):
            while await served.best("p", "c") != "b":
                await asyncio.sleep(0.02)
        await served.cluster.delete(ResourceClaim, "used", "vms")
        await served.cluster.delete(Node, "b")
        async with asyncio.timeout(30):
            while await served.best("p", "c") != "a":
                await asyncio.sleep(0.02)


async def test_a_process_that_is_killed_is_replaced_and_knows_everything() -> None:
    async with extender() as served:
        await served.ready()
        await served.cluster.create(claim("c"))
        first = served.followed.process.pid
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(60):
            while True:
                status, _ = await served.post("prioritize", {"Pod": pod("p", "c").to_wire(), "NodeNames": NODES})
                if status == 200 and await served.best("p", "c") == "a":
                    break
                assert status in (200, 503)
                await asyncio.sleep(0.1)
        assert served.followed.process.pid != first


async def test_before_it_knows_the_cluster_it_says_so() -> None:
    followed = FollowedCluster(embedded_cluster(), AdvisorSettings("pack", DEFAULT))
    async with ExtenderServer(followed, ExtenderMetrics()).serving(ANY) as ports, aiohttp.ClientSession() as session:
        extender = Extender(embedded_cluster(), followed, session, ports)
        assert await extender.post("prioritize", {}) == (503, "the extender doesn't know the cluster yet")
        kinds = "Node, ResourceSlice, DeviceClass, DeviceTaintRule, ResourceClaim, Pod, Namespace"
        assert await extender.get("readyz") == (503, f"waiting for {kinds}")


async def test_without_a_client_certificate_a_verifying_one_answers_nothing() -> None:
    followed = FollowedCluster(embedded_cluster(), AdvisorSettings("pack", DEFAULT))
    server = ExtenderServer(followed, ExtenderMetrics(), verified=True)
    async with server.serving(ANY) as ports, aiohttp.ClientSession() as session:
        extender = Extender(embedded_cluster(), followed, session, ports)
        assert await extender.post("prioritize", {}) == (403, "a client certificate is required")
