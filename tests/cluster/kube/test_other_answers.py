"""Answers with the status of a success that are about something else: of a proxy, a load balancer, a server that is at
fault."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from devtools.cluster.scripted_server import ScriptedServer, event_line, json_answer, stream_answer
from tests.cluster.kube.test_client import POD, PODS, asked, page, raw
from virt_dra.api.core_v1 import Pod
from virt_dra.cluster.kube.cluster import KubeCluster
from virt_dra.cluster.port import Unavailable
from virt_dra.cluster.watching.informer import Informer

PODS_SERVED = {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": []}

OTHER_OBJECTS: list[Any] = [
    {},
    [],
    {"kind": "Status", "status": "Success"},
    {"kind": "Pod", "apiVersion": "v1"},
    raw("other"),
    {**raw("p"), "kind": "ResourceClaim"},
    {**raw("p"), "metadata": {**raw("p")["metadata"], "namespace": "elsewhere"}},
    {**raw("p"), "metadata": ["p"]},
]


@pytest.mark.parametrize("answered", OTHER_OBJECTS, ids=range(len(OTHER_OBJECTS)))
async def test_another_object_than_was_asked_for_is_no_answer(tmp_path: Path, answered: object) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers("GET", "/api/v1", json_answer({"kind": "APIResourceList", "resources": [PODS_SERVED]}))
        for method in ("GET", "PUT", "PATCH"):
            server.answers(method, POD, json_answer(answered))
        server.answers("POST", PODS, json_answer(answered, 201))
        pod = Pod.from_wire(raw("p"))
        attempts = (
            cluster.get(Pod, "p", "n"), cluster.create(pod), cluster.update(pod),
            cluster.patch(Pod, "p", "n", merge={}), cluster.patch(Pod, "p", "n", operations=[]),
            cluster.get_raw("v1", "Pod", "p", "n"), cluster.create_raw(raw("p")), cluster.update_raw(raw("p")),
            cluster.patch_raw("v1", "Pod", "p", "n", merge={}),
        )  # fmt: skip
        for attempt in attempts:
            with pytest.raises(Unavailable, match="the server answered"):
                await attempt

    await asked(test, tmp_path)


OTHER_LISTS: list[Any] = [
    {},
    {"kind": "PodList", "apiVersion": "v1"},
    {**page(), "metadata": {}},
    {**page(), "metadata": {"resourceVersion": 7}},
    {**page(), "kind": "ResourceClaimList"},
    {**page(), "items": "none"},
    {**page(), "items": {"p": raw("p")}},
    raw("p"),
]


@pytest.mark.parametrize("answered", OTHER_LISTS, ids=range(len(OTHER_LISTS)))
async def test_what_is_no_list_does_not_mean_that_nothing_is_there(tmp_path: Path, answered: object) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers("GET", PODS, json_answer(answered))
        server.answers("GET", "/api/v1", json_answer({"kind": "APIResourceList", "resources": [PODS_SERVED]}))
        with pytest.raises(Unavailable, match="the server answered"):
            await cluster.list(Pod, "n")
        with pytest.raises(Unavailable, match="the server answered"):
            await cluster.list_raw("v1", "Pod", "n")
        async with running_informer(cluster, server) as informer:
            server.answers("GET", PODS, json_answer(page(raw("a"))), stream_answer(then="silence"))
            await informer.synced()
            assert [obj.name for obj in informer.store.values()] == ["a"]

    await asked(test, tmp_path)


@asynccontextmanager
async def running_informer(cluster: KubeCluster, server: ScriptedServer) -> AsyncIterator[Informer[Pod]]:
    """One that has been answered at least once."""
    informer = Informer(cluster, Pod, "n", first_pause=0.01, longest_pause=0.02)
    asked_so_far = len(server.asked_for(PODS))
    task = asyncio.create_task(informer.run())
    try:
        while len(server.asked_for(PODS)) == asked_so_far:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert not informer.has_synced
        yield informer
    finally:
        task.cancel()
        await asyncio.wait({task})


OTHER_EVENTS: list[Any] = [
    {"type": "MODIFIED", "object": {}},
    {"type": "DELETED", "object": {"kind": "Pod", "metadata": {"resourceVersion": "90"}}},
    {"type": "DELETED", "object": {**raw("a", 90), "kind": "ResourceClaim"}},
    {"type": "MODIFIED", "object": {**raw("a", 90), "metadata": {"name": 7, "resourceVersion": "90"}}},
    {"type": 7, "object": raw("a", 90)},
    ["MODIFIED", raw("a", 90)],
    "<html>",
]


@pytest.mark.parametrize("event", OTHER_EVENTS, ids=range(len(OTHER_EVENTS)))
async def test_an_event_about_something_else_is_not_passed_over(tmp_path: Path, event: object) -> None:
    """It may stand for a change: the watch goes on from the version before it."""

    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        odd = event.encode() + b"\n" if isinstance(event, str) else json.dumps(event).encode() + b"\n"
        server.answers(
            "GET", PODS, json_answer(page(raw("a", 9))), stream_answer(event_line("MODIFIED", raw("a", 11)), odd),
            stream_answer(event_line("DELETED", raw("a", 12)), then="silence"),
        )  # fmt: skip
        informer = Informer(cluster, Pod, "n", first_pause=0.01, longest_pause=0.02)
        seen: list[tuple[str, str]] = []

        def tell(old: Pod | None, new: Pod | None) -> None:
            seen.append((old.metadata.resource_version if old else "", new.metadata.resource_version if new else ""))

        informer.on_change(tell)
        task = asyncio.create_task(informer.run())
        async with asyncio.timeout(60):
            while len(seen) < 3:
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})
        assert seen == [("", "9"), ("9", "11"), ("11", "")]
        assert server.asked_for(PODS)[2].query["resourceVersion"] == "11"

    await asked(test, tmp_path)
