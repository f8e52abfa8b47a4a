"""Events about objects: repeated ones are counted, many are held back, failures are only logged."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from devtools.cluster.control_plane import ControlPlane
from tests.cluster.contract.running import claim, device_class
from tests.cluster.watching.references import reference_to
from virt_dra.api.core_v1 import Namespace, ObjectReference
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import Cluster
from virt_dra.cluster.watching.event_recorder import EVENT, EventLimits, EventRecorder

START = datetime(2026, 1, 1, tzinfo=UTC)
USUAL = EventLimits()
ABOUT = ObjectReference(api_version="resource.k8s.io/v1", kind="ResourceClaim", namespace="n", name="c", uid="u-1")


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **time: float) -> None:
        self.now += timedelta(**time)


def recorder(cluster: Cluster, clock: Clock, limits: EventLimits = USUAL) -> EventRecorder:
    numbers = itertools.count(1)
    return EventRecorder(
        cluster, "virt-dra-operator", "host-1", clock=clock, suffixes=lambda: f"{next(numbers):x}", limits=limits
    )


async def written(cluster: Cluster, namespace: str = "") -> list[dict[str, Any]]:
    return [obj.to_wire() for obj in (await cluster.list(EVENT, namespace)).items]


async def run(test: Callable[[MemoryCluster, Clock], Awaitable[None]]) -> None:
    await _run(test)


async def _run(test: Callable[[MemoryCluster, Clock], Awaitable[None]]) -> None:
    await test(MemoryCluster.deterministic(), Clock())


async def test_an_event_says_about_what_by_whom_and_when() -> None:
    async def test(cluster: MemoryCluster, clock: Clock) -> None:
        events = recorder(cluster, clock)
        events.record(ABOUT, "Warning", "NoDevice", "no device fits")
        assert await written(cluster) == []
        await events.flush()
        (event,) = await written(cluster)
        assert {key: event["metadata"][key] for key in ("name", "namespace")} == {"name": "c.1", "namespace": "n"}
        assert {key: value for key, value in event.items() if key != "metadata"} == {
            "apiVersion": "v1",
            "kind": "Event",
            "involvedObject": {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "namespace": "n",
                "name": "c",
                "uid": "u-1",
            },
            "type": "Warning",
            "reason": "NoDevice",
            "message": "no device fits",
            "source": {"component": "virt-dra-operator", "host": "host-1"},
            "reportingComponent": "virt-dra-operator",
            "reportingInstance": "host-1",
            "count": 1,
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
        }

    await run(test)


async def test_the_same_said_again_within_the_window_is_counted() -> None:
    async def test(cluster: MemoryCluster, clock: Clock) -> None:
        events = recorder(cluster, clock)
        for minutes in (0, 9, 9, 11):
            clock.advance(minutes=minutes)
            events.record(ABOUT, "Warning", "NoDevice", "no device fits")
        events.record(ABOUT, "Warning", "NoDevice", "another text")
        events.record(ABOUT.with_(uid="u-2"), "Warning", "NoDevice", "no device fits")
        await events.flush()
        recorded = [
            (event["metadata"]["name"], event["count"], event["firstTimestamp"][11:16], event["lastTimestamp"][11:16])
            for event in await written(cluster)
        ]
        assert recorded == [
            ("c.1", 3, "00:00", "00:18"),
            ("c.2", 1, "00:29", "00:29"),
            ("c.3", 1, "00:29", "00:29"),
            ("c.4", 1, "00:29", "00:29"),
        ]

    await run(test)


async def test_a_clock_that_was_set_back_keeps_no_window_open() -> None:
    """Nobody knows how long ago the last one was; its time would go back."""

    async def test(cluster: MemoryCluster, clock: Clock) -> None:
        events = recorder(cluster, clock)
        for hours in (0, -1):
            clock.advance(hours=hours)
            events.record(ABOUT, "Warning", "NoDevice", "no device fits")
            await events.flush()
        told = [(event["count"], event["lastTimestamp"]) for event in await written(cluster)]
        assert sorted(told) == [(1, "2025-12-31T23:00:00Z"), (1, "2026-01-01T00:00:00Z")]

    await run(test)


async def test_an_event_that_was_removed_is_made_anew() -> None:
    async def test(cluster: MemoryCluster, clock: Clock) -> None:
        events = recorder(cluster, clock)
        for _ in range(2):
            events.record(ABOUT, "Normal", "Fine", "all is well")
            await events.flush()
            await cluster.delete(EVENT, (await written(cluster))[0]["metadata"]["name"], "n")
        events.record(ABOUT, "Normal", "Fine", "all is well")
        await events.flush()
        assert [(event["metadata"]["name"], event["count"]) for event in await written(cluster)] == [("c.3", 1)]

    await run(test)


async def test_an_object_that_causes_many_events_gets_few() -> None:
    async def test(cluster: MemoryCluster, clock: Clock) -> None:
        events = recorder(cluster, clock, EventLimits(burst=3, refill=timedelta(minutes=5)))
        for number in range(10):
            events.record(ABOUT, "Warning", "NoDevice", f"try {number}")
        events.record(ABOUT.with_(uid="u-2", name="d"), "Warning", "NoDevice", "another object")
        clock.advance(minutes=5)
        events.record(ABOUT, "Warning", "NoDevice", "later")
        await events.flush()
        assert [event["message"] for event in await written(cluster)] == [
            "try 0",
            "try 1",
            "try 2",
            "later",
            "another object",
        ]
        assert events.dropped == 7

    await run(test)


async def test_failures_are_logged_and_do_not_stop_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    async def test(cluster: MemoryCluster, clock: Clock) -> None:
        await cluster.create(Namespace(metadata=ObjectMeta(name="n")))
        events = recorder(cluster, clock)
        events.record(ABOUT.with_(namespace="gone"), "Normal", "Fine", "one")
        events.record(ABOUT, "Normal", "Fine", "x" * 2000)
        await events.flush()
        assert events.dropped == 1
        (event,) = await written(cluster)
        assert event["message"] == "x" * 1023 + "…"

    with caplog.at_level(logging.WARNING):
        await _run_strict(test)
    assert [record.getMessage() for record in caplog.records] == [
        'an event about ResourceClaim c could not be written: namespaces "gone" not found'
    ]


async def _run_strict(test: Callable[[MemoryCluster, Clock], Awaitable[None]]) -> None:
    await test(MemoryCluster.deterministic(namespaces_must_exist=True), Clock())


async def test_more_than_can_wait_pushes_out_the_oldest() -> None:
    async def test(cluster: MemoryCluster, clock: Clock) -> None:
        events = recorder(cluster, clock, EventLimits(waiting=2))
        for text in ("one", "two", "three"):
            events.record(ABOUT, "Normal", "Fine", text)
        task = asyncio.create_task(events.run())
        await asyncio.sleep(0.01)
        events.record(ABOUT, "Normal", "Fine", "four")
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})
        assert ([event["message"] for event in await written(cluster)], events.dropped) == (["two", "three", "four"], 1)

    await run(test)


async def test_events_about_cluster_scoped_objects_are_kept_in_default() -> None:
    async def test(cluster: MemoryCluster, clock: Clock) -> None:
        about = reference_to(await cluster.create(device_class("x", "gpu")))
        assert (about.kind, about.namespace, about.name) == ("DeviceClass", "", "x-gpu")
        events = recorder(cluster, clock)
        events.record(about, "Normal", "Fine", "all is well")
        await events.flush()
        assert [event["metadata"]["namespace"] for event in await written(cluster)] == ["default"]

    await run(test)


@pytest.mark.control_plane
async def test_a_real_api_server_takes_and_counts_them(control_plane: ControlPlane, namespace: str) -> None:
    # Imported here, since the client's package takes a third of a second.
    from virt_dra.cluster.kube.cluster import connect

    async def test() -> Sequence[dict[str, Any]]:
        async with connect(str(control_plane.kubeconfig)) as cluster:
            about = reference_to(await cluster.create(claim(namespace, "c")))
            events = recorder(cluster, Clock())
            for _ in range(3):
                events.record(about, "Warning", "NoDevice", "no device fits")
            await events.flush()
            assert events.dropped == 0
            assert (await cluster.get(ResourceClaim, "c", namespace)).metadata.uid == about.uid
            return await written(cluster, namespace)

    (event,) = await test()
    assert (event["count"], event["involvedObject"]["name"], event["message"]) == (3, "c", "no device fits")
