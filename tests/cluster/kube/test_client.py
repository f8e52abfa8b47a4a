"""What the client of a real API server does with answers that a healthy server seldom gives: told by a server that says
what we want."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from devtools.cluster.scripted_server import (
    ScriptedServer,
    asking,
    cut_answer,
    event_line,
    json_answer,
    scripted_server,
    status,
    status_object,
    stream_answer,
    text_answer,
)
from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cluster.kube.cluster import KubeCluster
from virt_dra.cluster.kube.transport import USER_AGENT
from virt_dra.cluster.port import (
    Conflict,
    Gone,
    Invalid,
    NotFound,
    StatusCause,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unreadable,
)
from virt_dra.cluster.watching.informer import Informer, running
from virt_dra.cluster.watching.transforms import known_fields_only

PODS = "/api/v1/namespaces/n/pods"
POD = f"{PODS}/p"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


async def asked(test: Callable[[ScriptedServer, KubeCluster], Awaitable[None]], folder: Path, **limits: float) -> None:
    """Runs a test against a server of its own."""

    async with asyncio.timeout(20), scripted_server() as server, asking(server, folder, limits=limits) as cluster:
        server.asked.clear()
        server.bodies.clear()
        await test(server, cluster)


def raw(name: str, version: int = 1, **more: object) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "uid": f"u-{name}", "resourceVersion": str(version)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, **more}


def page(*items: dict[str, Any], version: int = 10, token: str = "") -> dict[str, Any]:
    return {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": str(version), "continue": token},
        "items": list(items),
    }


async def taken(cluster: KubeCluster, number: int, version: str = "10") -> list[tuple[str, str, str]]:
    """The next events of a watch of pods: type, name, version."""
    requests: list[tuple[str, str, str]] = []
    events = cluster.watch(Pod, "n", resource_version=version)
    try:
        async for event in events:
            requests.append((event.type, event.object.name, event.object.metadata.resource_version))
            if len(requests) == number:
                break
    finally:
        await events.aclose()  # type: ignore[attr-defined]  # it is a generator
    return requests


# --- repeating --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_busy_server_is_asked_again_after_the_time_it_says(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        busy = status(429, "TooManyRequests", "too many requests", {"Retry-After": "1"})
        server.answers("POST", PODS, busy, json_answer(raw("p"), 201))
        began = asyncio.get_running_loop().time()
        created = await cluster.create(Pod(metadata=ObjectMeta(name="p", namespace="n")))
        assert created.name == "p"
        assert asyncio.get_running_loop().time() - began >= 1
        assert len(server.asked) == 2

    await asked(test, tmp_path)


async def test_a_server_that_stays_busy_is_told_so_within_our_patience(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers("GET", POD, status(429, "TooManyRequests", "later", retryAfterSeconds=30))
        with pytest.raises(TooManyRequests) as caught:
            await cluster.get(Pod, "p", "n")
        assert (str(caught.value), caught.value.retry_after, len(server.asked)) == ("later", 30, 1)

    await asked(test, tmp_path)


async def test_a_server_that_is_starting_is_asked_again(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers("GET", POD, text_answer("upstream connect error", 503), cut_answer(), json_answer(raw("p")))
        assert (await cluster.get(Pod, "p", "n")).name == "p"
        assert len(server.asked) >= 3

    await asked(test, tmp_path)


async def test_a_creation_whose_answer_was_lost_is_not_repeated(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers("POST", PODS, cut_answer(), json_answer(raw("p"), 201))
        with pytest.raises(Unavailable, match="the connection was lost"):
            await cluster.create(Pod(metadata=ObjectMeta(generate_name="p-", namespace="n")))
        assert len(server.asked) == 1

    await asked(test, tmp_path)


async def test_operations_whose_answer_was_lost_are_not_repeated_but_merges_are(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers("PATCH", POD, cut_answer(), json_answer(raw("p")))
        with pytest.raises(Unavailable):
            await cluster.patch(Pod, "p", "n", operations=[{"op": "add", "path": "/a", "value": 1}])
        server.answers("PATCH", POD, cut_answer(), json_answer(raw("p")))
        assert (await cluster.patch(Pod, "p", "n", merge={"a": 1})).name == "p"
        content = [request.headers["Content-Type"] for request in server.asked]
        assert content == [
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/merge-patch+json",
        ]

    await asked(test, tmp_path)


async def test_an_answer_that_does_not_come_ends(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers("GET", POD, stream_answer(b"{", then="silence"))
        with pytest.raises(Unavailable, match="didn't answer in time"):
            await cluster.get(Pod, "p", "n")
        assert len(server.asked) == 2

    await asked(test, tmp_path, timeout=0.2, attempts=2)


async def test_requests_keep_to_the_rate(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers("GET", POD, json_answer(raw("p")))
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(cluster.get(Pod, "p", "n") for _ in range(10)))
        assert 0.3 <= asyncio.get_running_loop().time() - began < 3

    await asked(test, tmp_path, qps=20, burst=2)


async def test_requests_say_who_asks(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers("GET", POD, json_answer(raw("p")))
        await cluster.get(Pod, "p", "n")
        assert server.asked[0].headers["User-Agent"] == USER_AGENT
        assert USER_AGENT.startswith("virt-dra/")

    await asked(test, tmp_path)


async def test_what_the_server_warns_of_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers("GET", POD, json_answer(raw("p"), headers={"Warning": '299 - "v1 Pod is old-fashioned"'}))
        for _ in range(2):
            await cluster.get(Pod, "p", "n")
        assert [record.getMessage() for record in caplog.records] == [f"{server.url} warns: v1 Pod is old-fashioned"]

    with caplog.at_level(logging.WARNING):
        await asked(test, tmp_path)


# --- refusals ---------------------------------------------------------------------------------------------------------


async def test_refusals_carry_their_causes(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        causes = [{"field": "spec.x", "reason": "FieldValueRequired", "message": "Required value"}]
        server.answers("PUT", POD, status(422, "Invalid", 'Pod "p" is invalid: spec.x: Required value', causes=causes))
        with pytest.raises(Invalid) as caught:
            await cluster.update(Pod(metadata=ObjectMeta(name="p", namespace="n")))
        assert caught.value.causes == (StatusCause("spec.x", "FieldValueRequired", "Required value"),)

    await asked(test, tmp_path)


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a%2fb", ""])
async def test_names_that_lead_elsewhere_are_not_asked_for(tmp_path: Path, name: str) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        with pytest.raises(NotFound, match=r"^pods .* not found$"):
            await cluster.get(Pod, name, "n")
        assert server.asked == []

    await asked(test, tmp_path)


async def test_refused_credentials_are_read_anew_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async with scripted_server() as server, asking(server, tmp_path, user={"tokenFile": str(token)}) as cluster:
        refused = status(401, "Unauthorized", "Unauthorized")
        server.answers("GET", POD, refused, json_answer(raw("p")))
        token.write_text("new")
        server.asked.clear()
        assert (await cluster.get(Pod, "p", "n")).name == "p"
        assert [request.headers["Authorization"] for request in server.asked] == ["Bearer old", "Bearer new"]
        server.answers("GET", POD, refused)
        with pytest.raises(Unauthorized):
            await cluster.get(Pod, "p", "n")
        assert len(server.asked) == 4  # what was read is new enough to be tried again


# --- lists ------------------------------------------------------------------------------------------------------------


async def test_lists_come_in_pages(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers("GET", PODS, json_answer(page(raw("a"), raw("b"), token="t/1+x")), json_answer(page(raw("c"))))
        listed = await cluster.list(Pod, "n", labels="a in (b,c)", fields="spec.nodeName=n1")
        assert ([obj.name for obj in listed.items], listed.resource_version) == (["a", "b", "c"], "10")
        assert [(obj.api_version, obj.kind) for obj in listed.items] == [("v1", "Pod")] * 3
        selection = {"labelSelector": "a in (b,c)", "fieldSelector": "spec.nodeName=n1", "limit": "2"}
        assert [dict(request.query) for request in server.asked] == [selection, {**selection, "continue": "t/1+x"}]

    await asked(test, tmp_path, page=2)


async def test_a_list_whose_state_is_gone_before_its_last_page_is_read_at_once(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        gone = status(410, "Expired", "The provided continue parameter is too old")
        server.answers(
            "GET", PODS, json_answer(page(raw("a"), token="t")), gone, json_answer(page(raw("a"), raw("b"), version=20))
        )
        listed = await cluster.list(Pod, "n")
        assert ([obj.name for obj in listed.items], listed.resource_version) == (["a", "b"], "20")
        assert [dict(request.query) for request in server.asked] == [
            {"limit": "1"},
            {"limit": "1", "continue": "t"},
            {},
        ]

    await asked(test, tmp_path, page=1)


async def test_an_unreadable_object_is_left_out_of_a_list_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers(
            "GET",
            PODS,
            json_answer(page(raw("a"), raw("b", spec={"containers": 7}), raw("c", spec={"unheard": {"of": 1}}))),
        )
        for _ in range(2):
            listed = await cluster.list(Pod, "n")
            assert [obj.name for obj in listed.items] == ["a", "c"]
        assert listed.items[1].to_wire()["spec"] == {"unheard": {"of": 1}}

    with caplog.at_level(logging.WARNING):
        await asked(test, tmp_path)
    assert [record.getMessage() for record in caplog.records] == [
        "Pod n/b is left out: it doesn't have the shape known to this version of "
        "virt-dra: spec.containers: must be a list, not an integer"
    ]


async def test_an_unreadable_object_that_is_asked_for_is_refused(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers("GET", POD, json_answer(raw("p", spec={"containers": 7})))
        with pytest.raises(Unreadable) as caught:
            await cluster.get(Pod, "p", "n")
        assert str(caught.value) == (
            "Pod n/p doesn't have the shape known to this version of virt-dra: "
            "spec.containers: must be a list, not an integer"
        )

    await asked(test, tmp_path)


@pytest.mark.parametrize("body", ["<html>", "[]", ""])
async def test_an_answer_that_is_no_object_is_told(tmp_path: Path, body: str) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers("GET", POD, text_answer(body))
        with pytest.raises(Unavailable, match="the server answered what is no"):
            await cluster.get(Pod, "p", "n")

    await asked(test, tmp_path)


async def test_unknown_fields_survive_an_update_and_managed_fields_are_left_to_the_server(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        stored = raw("p", spec={"containers": [{"name": "c", "novel": [1]}], "more": True}, future={"x": None})
        stored["metadata"].update(managedFields=[{"manager": "m", "fieldsV1": {"f:spec": {}}}], novel="yes")
        server.answers("GET", POD, json_answer(stored))
        server.answers("PUT", POD, json_answer(stored))
        read = await cluster.get(Pod, "p", "n")
        await cluster.update(read.with_(metadata=read.metadata.with_(labels={"a": "b"})))
        sent = json.loads(server.bodies[-1])
        del stored["metadata"]["managedFields"]
        assert sent == {
            **stored,
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**stored["metadata"], "labels": {"a": "b"}},
        }

    await asked(test, tmp_path)


async def test_an_informer_trims_pages_and_begins_anew_when_a_page_is_gone(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        objects = [raw(name, spec={"nodeName": name, "novel": True}) for name in "abc"]
        gone = status(410, "Expired", "The provided continue parameter is too old")
        server.answers(
            "GET", PODS,
            json_answer(page(*objects[:2], token="t")), gone,
            json_answer(page(*objects[:2], token="t")), gone, json_answer(page(*objects, version=20)),
            stream_answer(event_line("MODIFIED",
                {**objects[0], "metadata": {**objects[0]["metadata"], "resourceVersion": "21"}})),
            stream_answer(event_line("ERROR", status_object(410, "Expired", "too old"))),
            json_answer(page(*objects[1:], token="t")), json_answer(page(version=30)), stream_answer(then="silence"),
        )  # fmt: skip
        informer = Informer(cluster, Pod, "n", transform=known_fields_only, first_pause=0.01, longest_pause=0.02)
        told: list[tuple[str, str]] = []
        informer.on_change(
            lambda old, new: told.append((old.metadata.resource_version if old else "", new.name if new else "-"))
        )
        async with running(informer):
            assert sorted(informer.store.keys()) == [("n", "a"), ("n", "b"), ("n", "c")]
            assert [obj.to_wire()["spec"] for obj in informer.store.values()] == [{"nodeName": name} for name in "abc"]
            while len(told) < 5:
                await asyncio.sleep(0.005)
        assert told == [("", "a"), ("", "b"), ("", "c"), ("1", "a"), ("21", "-")]
        limits = [(request.query.get("limit"), request.query.get("resourceVersion")) for request in server.asked]
        pages = [("2", None), ("2", None)]
        assert limits[:9] == [*pages, *pages, (None, None), (None, "20"), (None, "21"), *pages]

    await asked(test, tmp_path, page=2)


# --- watches ----------------------------------------------------------------------------------------------------------


async def test_a_watch_goes_on_from_the_last_version_when_its_time_is_over(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        mark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "20"}, "spec": {"containers": None}}
        first = stream_answer(event_line("ADDED", raw("a", 11)), event_line("BOOKMARK", mark))
        second = stream_answer(event_line("MODIFIED", raw("a", 21)), then="silence")
        server.answers("GET", PODS, first, second)
        assert await taken(cluster, 3) == [("ADDED", "a", "11"), ("BOOKMARK", "", "20"), ("MODIFIED", "a", "21")]
        queries = [dict(request.query) for request in server.asked]
        seconds = [int(query.pop("timeoutSeconds")) for query in queries]
        assert queries == [
            {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version} for version in ("10", "20")
        ]
        assert all(400 <= number <= 800 for number in seconds)

    await asked(test, tmp_path)


async def test_a_watch_that_is_cut_says_so_after_what_came_whole(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        half = event_line("MODIFIED", raw("a", 12))[:40]
        server.answers("GET", PODS, stream_answer(event_line("ADDED", raw("a", 11)), half, then="cut", pause=0.05))
        events = aiter(cluster.watch(Pod, "n", resource_version="10"))
        first = await anext(events)
        assert (first.type, first.object.name) == ("ADDED", "a")
        with pytest.raises(Unavailable, match="the connection was lost"):
            await anext(events)

    await asked(test, tmp_path)


async def test_a_watch_that_always_ends_at_once_is_told(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers("GET", PODS, stream_answer())
        with pytest.raises(Unavailable, match=r"^a watch of pods ended as soon as it began$"):
            await taken(cluster, 1)

    await asked(test, tmp_path)


async def test_a_watch_that_says_nothing_is_begun_anew(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        silent = stream_answer(event_line("ADDED", raw("a", 11)), then="silence")
        server.answers("GET", PODS, silent, stream_answer(event_line("DELETED", raw("a", 12)), then="silence"))
        assert await taken(cluster, 2) == [("ADDED", "a", "11"), ("DELETED", "a", "12")]
        assert [request.query["resourceVersion"] for request in server.asked] == ["10", "11"]

    await asked(test, tmp_path, silence=0.2)


@pytest.mark.parametrize("in_stream", [True, False])
async def test_a_version_that_is_too_old_is_gone(tmp_path: Path, in_stream: bool) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        if in_stream:
            server.answers(
                "GET",
                PODS,
                stream_answer(event_line("ERROR", status_object(410, "Expired", "too old resource version: 10 (99)"))),
            )
        else:
            server.answers("GET", PODS, status(410, "Expired", "too old resource version: 10 (99)"))
        with pytest.raises(Gone, match=r"^too old resource version: 10 \(99\)$"):
            await taken(cluster, 1)

    await asked(test, tmp_path)


async def test_events_of_any_length_in_pieces_of_any_length(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        slices = [
            {
                "kind": "ResourceSlice",
                "metadata": {"name": f"s{number}", "resourceVersion": str(number)},
                "spec": {"driver": "d", "pad": "é" * 1_500_000},
            }
            for number in (11, 12)
        ]
        data = b"".join(event_line("ADDED", obj) for obj in slices) + b"\n" + event_line("DELETED", slices[0])
        pieces = [data[at : at + 700_001] for at in range(0, len(data), 700_001)]
        server.answers("GET", SLICES, stream_answer(*pieces, then="silence"))
        names = []
        async for event in cluster.watch(ResourceSlice, resource_version="10"):
            names.append((event.type, event.object.name, len(event.object.spec.to_wire()["pad"])))
            if len(names) == 3:
                break
        assert names == [("ADDED", "s11", 1_500_000), ("ADDED", "s12", 1_500_000), ("DELETED", "s11", 1_500_000)]

    await asked(test, tmp_path)


async def test_what_becomes_unreadable_leaves_a_watch_as_it_leaves_a_list(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        broken = {"containers": 7}
        server.answers(
            "GET", PODS,
            stream_answer(
                event_line("ADDED", raw("a", 11)), event_line("MODIFIED", raw("a", 12, spec=broken)),
                event_line("NOVEL", raw("a", 13)), event_line("MODIFIED", raw("a", 14)),
                event_line("DELETED", raw("a", 15, spec=broken)), then="silence",
            ),
        )  # fmt: skip
        assert await taken(cluster, 4) == [
            ("ADDED", "a", "11"),
            ("DELETED", "a", "12"),
            ("MODIFIED", "a", "14"),
            ("DELETED", "a", "15"),
        ]

    await asked(test, tmp_path)


@pytest.mark.parametrize("line", [b"<html>\n", b"[]\n", b'{"type": "ADDED"}\n'])
async def test_a_watch_that_tells_no_events_is_told(tmp_path: Path, line: bytes) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers("GET", PODS, stream_answer(line))
        with pytest.raises(Unavailable, match=r"a watch sent (invalid JSON|something that is no event)"):
            await taken(cluster, 1)

    await asked(test, tmp_path)


# --- any kind ---------------------------------------------------------------------------------------------------------


async def test_kinds_are_looked_up_as_the_server_serves_them(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        kinds = [
            {"name": "oxen", "kind": "Ox", "namespaced": True, "verbs": ["get"]},
            {"name": "oxen/status", "kind": "Ox", "namespaced": True, "verbs": ["get"]},
        ]
        server.answers(
            "GET",
            "/apis/example.com/v1",
            status(404, "NotFound", "no"),
            json_answer({"kind": "APIResourceList", "resources": kinds}),
        )
        server.answers(
            "GET",
            "/apis/example.com/v1/namespaces/n/oxen/a",
            json_answer({"kind": "Ox", "metadata": {"name": "a", "namespace": "n"}}),
        )
        with pytest.raises(NotFound) as caught:
            await cluster.get_raw("example.com/v1", "Ox", "a", "n")
        assert str(caught.value) == (
            "the server doesn't serve Ox of example.com/v1: is its CustomResourceDefinition (or feature gate) missing?"
        )
        for _ in range(2):
            assert (await cluster.get_raw("example.com/v1", "Ox", "a", "n"))["metadata"] == {
                "name": "a",
                "namespace": "n",
            }
        assert len(server.asked_for("/apis/example.com/v1")) == 2
        assert (await cluster.served_kind("example.com/v1", "Ox")).subresources == ("status",)

    await asked(test, tmp_path)


async def test_server_side_apply_says_whose_fields_these_are(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        server.answers(
            "GET",
            "/api/v1",
            json_answer(
                {
                    "kind": "APIResourceList",
                    "resources": [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": []}],
                }
            ),
        )
        server.answers(
            "PATCH",
            POD,
            status(409, "Conflict", 'Apply failed with 1 conflict: conflict with "m": .spec.x'),
            json_answer(raw("p")),
        )
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}}
        with pytest.raises(Conflict, match="conflict with"):
            await cluster.apply(pod, field_manager="virt-dra")
        await cluster.apply(pod, field_manager="virt-dra", force=True, dry_run=True)
        queries = [dict(request.query) for request in server.asked_for(POD)]
        assert queries == [
            {"fieldManager": "virt-dra", "force": "false"},
            {"fieldManager": "virt-dra", "force": "true", "dryRun": "All"},
        ]
        assert {request.headers["Content-Type"] for request in server.asked_for(POD)} == {
            "application/apply-patch+yaml"
        }

    await asked(test, tmp_path)


async def test_kinds_without_a_type_are_asked_for_by_their_guessed_name(tmp_path: Path) -> None:
    async def test(server: ScriptedServer, cluster: KubeCluster) -> None:
        policy = {"kind": "Policy", "metadata": {"name": "a", "namespace": "default"}, "spec": {"x": 1}}
        server.answers("GET", "/apis/example.com/v1/namespaces/default/policies/a", json_answer(policy))
        found = await cluster.get(unknown_kind("example.com/v1", "Policy"), "a")
        assert found.to_wire()["spec"] == {"x": 1}
        server.answers("GET", "/api/v1/namespaces/a", json_answer({"kind": "Namespace", "metadata": {"name": "a"}}))
        assert (await cluster.get(Namespace, "a", "ignored")).name == "a"

    await asked(test, tmp_path)
