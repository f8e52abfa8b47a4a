"""Lists of large objects: pages have a size, whatever the objects have, and the event loop goes on while they are
read."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from devtools.cluster.scripted_server import ScriptedServer, asking, json_answer, scripted_server
from virt_dra.api.core_v1 import Pod
from virt_dra.cluster.kube.cluster import KubeCluster
from virt_dra.cluster.kube.raw import RawObjects
from virt_dra.cluster.port import Unavailable
from virt_dra.cluster.watching.informer import Informer
from virt_dra.controllers.transforms import trimmed

PODS = "/api/v1/pods"
KIB = 1024


class Paged:
    """Serves pods of given sizes in pages, as an API server does; ``served``: the limit asked for and the bytes of each
    page."""

    def __init__(self, *sizes: int) -> None:
        self.names = [f"p{number:05}" for number in range(len(sizes))]
        self.sizes = dict(zip(self.names, sizes, strict=True))
        self.served: list[tuple[int, int]] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.query.get("watch"):
            await asyncio.sleep(60)
        begin, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        names = self.names[begin : begin + limit]
        items = [
            {
                "metadata": {
                    "name": name,
                    "namespace": "n",
                    "uid": name,
                    "resourceVersion": "1",
                    "annotations": {"a": "x" * self.sizes[name]},
                }
            }
            for name in names
        ]
        following = begin + limit
        meta = {"resourceVersion": "9", **({"continue": str(following)} if following < len(self.names) else {})}
        body = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": items, "metadata": meta}).encode()
        self.served.append((limit, len(body)))
        return web.Response(body=body, content_type="application/json")


async def _asked(paged: Paged, folder: Path, test: Callable[[KubeCluster], Awaitable[None]], **limits: Any) -> None:
    async with scripted_server() as server:
        _serve(server, paged)
        async with asking(server, folder, limits=limits) as cluster:
            await test(cluster)


def _serve(server: ScriptedServer, paged: Paged) -> None:
    server.answers("GET", PODS, paged)


@pytest.mark.parametrize(
    "sizes",
    [
        (256 * KIB,) * 120,
        (KIB,) * 700 + (256 * KIB,) * 60 + (KIB,) * 700,
        (KIB, 1500 * KIB) * 20,
        (20_000 * KIB, 10, 20_000 * KIB, 10),
    ],
)
async def test_every_object_comes_once_in_pages_that_are_not_large(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    paged = Paged(*sizes)
    read: list[int] = []

    async def test(cluster: KubeCluster) -> None:
        names: list[str] = []
        async for page in cluster.pages(Pod):
            names += [pod.name for pod in page.items]
            read.append(sum(paged.sizes[pod.name] for pod in page.items))
        assert names == paged.names

    await _asked(paged, tmp_path, test)
    assert max(read) <= max(8 * 1024 * KIB, *sizes), "four times what a page should have, or one object"
    assert len(paged.served) < 40 + sum(sizes) // (300 * KIB), "no more requests than the sizes call for"


async def test_small_objects_come_in_as_few_pages_as_ever(tmp_path: Path) -> None:
    paged = Paged(*(KIB,) * 1200)

    async def test(cluster: KubeCluster) -> None:
        assert len((await cluster.list(Pod)).items) == 1200

    await _asked(paged, tmp_path, test)
    assert [limit for limit, _ in paged.served] == [500, 500, 500]


async def test_an_informer_keeps_of_large_objects_what_is_read_and_the_event_loop_goes_on(tmp_path: Path) -> None:
    paged = Paged(*(256 * KIB,) * 200)
    stalls: list[float] = []

    async def beat() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            stalls.append(time.perf_counter() - before)

    async def test(cluster: KubeCluster) -> None:
        informer = Informer(cluster, Pod, transform=trimmed)
        heart = asyncio.create_task(beat())
        running = asyncio.create_task(informer.run())
        await asyncio.wait_for(informer.synced(), 60)
        assert len(informer.store) == 200
        assert sum(len(str(pod.metadata.annotations)) for pod in informer.store.values()) < 200 * 100
        for task in (heart, running):
            task.cancel()
        await asyncio.wait({heart, running})

    await _asked(paged, tmp_path, test)
    assert stalls


@pytest.mark.parametrize("read", ["typed", "raw"])
async def test_a_list_whose_pages_come_slowly_ends(tmp_path: Path, read: str) -> None:
    """Each page comes in time, and there is always another one."""

    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(0.1)
        following = str(int(request.query.get("continue", "0")) + 1)
        meta = {"resourceVersion": "9", "continue": following}
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "items": [], "metadata": meta})

    async with scripted_server() as server:
        server.answers("GET", PODS, slow)
        kinds = [{"name": "pods", "kind": "Pod", "namespaced": True}]
        server.answers("GET", "/api/v1", json_answer({"kind": "APIResourceList", "resources": kinds}))
        async with asking(server, tmp_path, limits={"list_seconds": 0.5}) as cluster:
            with pytest.raises(Unavailable, match=r"/api/v1/pods takes more than 0\.5 s for one list, as no"):
                await (cluster.list(Pod) if read == "typed" else RawObjects(cluster.transport).list_raw("v1", "Pod"))
        assert 2 <= len(server.asked_for(PODS)) <= 6
