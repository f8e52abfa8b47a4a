"""Events of large objects: read beside the event loop, in order, and never longer than an object can be."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from devtools.cluster.scripted_server import (
    ScriptedServer,
    asking,
    event_line,
    json_answer,
    scripted_server,
    stream_answer,
)
from virt_dra.api.core_v1 import Pod
from virt_dra.cluster.kube.cluster import KubeCluster
from virt_dra.cluster.port import Unavailable
from virt_dra.cluster.watching.informer import Informer
from virt_dra.controllers.transforms import trimmed

PODS = "/api/v1/pods"
KIB = 1024


def pod(number: int, containers: int) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": f"p{number}", "namespace": "a", "uid": f"u{number}", "resourceVersion": str(10 + number)},
        "spec": {"containers": [{"name": f"c{index}", "image": "i"} for index in range(containers)]},
    }


def _watched(server: ScriptedServer, *pieces: bytes) -> None:
    answer = json_answer({"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": []})
    server.answers("GET", PODS, answer, stream_answer(*pieces, then="silence"))


@pytest.mark.slow
async def test_the_event_loop_does_not_read_large_objects(tmp_path: Path) -> None:
    """Counted in processor time of the loop's thread, which other work on the machine doesn't change."""
    events = [event_line("ADDED", pod(number, 20_000 if number % 2 else 1)) for number in range(8)]
    assert max(map(len, events)) > 650 * KIB
    came: list[str] = []
    used: list[float] = []

    async def beat() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            used.append(time.thread_time() - before)

    async with scripted_server() as server, asking(server, tmp_path) as cluster:
        _watched(server, *events)
        informer = Informer(cluster, Pod, transform=trimmed)
        informer.on_change(lambda old, new: came.append("" if new is None else new.name))
        heart, running = asyncio.create_task(beat()), asyncio.create_task(informer.run())
        async with asyncio.timeout(120):
            while len(came) < len(events):
                await asyncio.sleep(0.01)
        for task in (heart, running):
            task.cancel()
        await asyncio.wait({heart, running})
    assert came == [f"p{number}" for number in range(8)]
    assert max(used) < 0.03


@pytest.mark.parametrize(
    ("limits", "pieces", "wanted"),
    [
        ({"answer_bytes": 2**20}, [b"0" * 700_000] * 3, "an event of a watch has more than 1 MiB"),
        (
            {"answer_containers": 99},
            [event_line("ADDED", pod(1, 99))],
            "an event of a watch has more than 99 JSON objects and lists",
        ),
    ],
)  # fmt: skip
async def test_an_event_without_end_ends_the_watch(
    limits: Mapping[str, int], pieces: list[bytes], wanted: str, tmp_path: Path
) -> None:
    async with scripted_server() as server, asking(server, tmp_path, limits=limits) as cluster:
        server.answers("GET", PODS, stream_answer(*pieces, then="silence"))
        with pytest.raises(Unavailable) as raised:
            await _follow(cluster)
    assert str(raised.value) == wanted


async def test_a_refused_watch_without_end_ends(tmp_path: Path) -> None:
    limits = {"answer_bytes": 2**20, "attempts": 1}
    async with scripted_server() as server, asking(server, tmp_path, limits=limits) as cluster:
        server.answers("GET", PODS, _endless_refusal)
        with pytest.raises(Unavailable, match="/api/v1/pods answers more than 1 MiB, as no API server does"):
            await _follow(cluster)


async def _follow(cluster: KubeCluster) -> None:
    async with asyncio.timeout(20):
        async for _ in cluster.watch(Pod, resource_version="5"):
            pass


async def _endless_refusal(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(status=500)
    await response.prepare(request)
    with suppress(ConnectionError):
        while True:
            await response.write(b"0" * 2**16)
    return response
