"""A machine whose clock is an hour off, and others' clocks that are: what is decided with a cluster stays the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiohttp import web

from devtools.cluster.scripted_server import ScriptedServer, asking, json_answer, scripted_server
from virt_dra.cluster.cluster_clock import ClusterClock
from virt_dra.cluster.kube.cluster import KubeCluster
from virt_dra.cluster.kube.leader import LeaseTiming, lead

T = TypeVar("T")
HOUR = timedelta(hours=1)
GROUP = "/apis/coordination.k8s.io/v1"
LEASES = f"{GROUP}/namespaces/ns/leases"
TIMING = LeaseTiming(duration=2, renew_deadline=1.5, retry=0.3)


class LeaseServer:
    """Has the Lease of a holder, which ``renews`` it at each reading, by a clock that is off."""

    def __init__(self, server: ScriptedServer, off: timedelta, *, renews: bool) -> None:
        self.off, self.renews, self._version = off, renews, 1
        self.spec: dict[str, Any] = {"holderIdentity": "other", "leaseDurationSeconds": 2, "renewTime": self._time()}
        kinds = [{"name": "leases", "kind": "Lease", "namespaced": True}]
        server.answers("GET", GROUP, json_answer({"kind": "APIResourceList", "resources": kinds}))
        server.answers("GET", f"{LEASES}/op", self._read)
        server.answers("PUT", f"{LEASES}/op", self._written)
        self._server = server

    def _time(self) -> str:
        return (datetime.now(UTC) + self.off).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    async def _read(self, _: web.BaseRequest) -> web.StreamResponse:
        if self.renews:
            self._version += 1
            self.spec["renewTime"] = self._time()
        return self._answer()

    async def _written(self, _: web.BaseRequest) -> web.StreamResponse:
        self._version += 1
        self.spec = json.loads(self._server.bodies[-1])["spec"]
        return self._answer()

    def _answer(self) -> web.Response:
        meta = {"name": "op", "namespace": "ns", "resourceVersion": str(self._version)}
        return web.json_response(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": self.spec}
        )


@asynccontextmanager
async def machine(server: ScriptedServer, folder: Path, off: timedelta) -> AsyncIterator[KubeCluster]:
    """A client on a machine whose clock is off."""
    async with asking(server, folder) as cluster:
        cluster.transport.clock = ClusterClock(lambda: datetime.now(UTC) + off)
        yield cluster


@pytest.mark.parametrize("ours", [HOUR, -HOUR])
async def test_the_time_is_the_api_servers_after_one_answer(ours: timedelta, tmp_path: Path) -> None:
    async with scripted_server() as server, machine(server, tmp_path, ours) as cluster:
        await cluster.server_version()
        clock = cluster.transport.clock
        assert abs(clock() - datetime.now(UTC)) < timedelta(seconds=4)
        stamped_by_another = datetime.now(UTC) + HOUR
        assert abs(clock.count_from(stamped_by_another) - datetime.now(UTC)) < timedelta(seconds=4)


async def test_a_lease_that_is_renewed_is_not_taken(tmp_path: Path) -> None:
    """All clocks at the same time, since most of it is waiting."""

    async def holder(ours: timedelta, others: timedelta, folder: Path) -> str:
        async with scripted_server() as server, machine(server, folder, ours) as cluster:
            leases = LeaseServer(server, others, renews=True)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(lead(cluster, "op", "ns", "us", _for_ever, timing=TIMING), 4)
        return str(leases.spec["holderIdentity"])

    assert await with_all_clocks(holder, tmp_path) == ["other"] * 4


async def test_a_lease_whose_holder_is_gone_is_taken_in_time_and_says_the_servers(tmp_path: Path) -> None:
    async def written(ours: timedelta, others: timedelta, folder: Path) -> list[dict[str, Any]]:
        taken: list[dict[str, Any]] = []
        async with scripted_server() as server, machine(server, folder, ours) as cluster:
            leases = LeaseServer(server, others, renews=False)
            await cluster.server_version()

            async def work() -> None:
                taken.append(dict(leases.spec))

            await asyncio.wait_for(lead(cluster, "op", "ns", "us", work, timing=TIMING), 20)
        return taken

    for taken in await with_all_clocks(written, tmp_path):
        assert [spec["holderIdentity"] for spec in taken] == ["us"]
        said = datetime.fromisoformat(taken[0]["renewTime"])
        assert abs(said - datetime.now(UTC)) < timedelta(seconds=20)


async def with_all_clocks(ask: Callable[[timedelta, timedelta, Path], Awaitable[T]], folder: Path) -> Sequence[T]:
    """The results for our and the other's clock an hour ahead or behind, each with a folder of its own."""
    folders = []
    for number in range(4):
        folders.append(folder / str(number))
        folders[-1].mkdir()
    clocks = product([HOUR, -HOUR], [HOUR, -HOUR])
    return await asyncio.gather(*(ask(*pair, place) for pair, place in zip(clocks, folders, strict=True)))


async def _for_ever() -> None:
    await asyncio.Event().wait()
