"""What is kept by namespace stays bounded, and cheap to keep, however many namespaces there are.

Each case meets 20,000 of them. Bounds are of memory that Python allocates, and of seconds of a processor.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from virt_dra.api.core_v1 import ObjectReference
from virt_dra.api.meta import ObjectT
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.watching.event_recorder import EventLimits, EventRecorder
from virt_dra.controllers.operator.explain_queue import SHARES, ExplainQueue
from virt_dra.fairness.use import REMEMBERED, TenantUse
from webhooks.worker.evaluation_queue import EvaluationQueue, QueueLimits, TurnRefused

NAMESPACES = [f"a-tenants-namespace-{number}" for number in range(20_000)]
MIB = 1 << 20


def _kept(flood: Callable[[], Any]) -> tuple[Any, int]:
    """What a flood leaves behind, and its bytes."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        left = flood()
        return left, tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def _waiting_pods() -> ExplainQueue:
    queue = ExplainQueue(0.0)
    for namespace in NAMESPACES:
        queue.add(f"{namespace}/vm")
    return queue


def _explained_pods() -> ExplainQueue:
    """One pod of each namespace after the other, each for a hundredth of a second."""
    queue = ExplainQueue(0.0)
    for number, namespace in enumerate(NAMESPACES):
        queue.spend(f"{namespace}/vm", 0.01, number * 0.1)
    return queue


def _charged_tenants() -> TenantUse:
    use = TenantUse(itertools.count().__next__, 10.0)
    for namespace in NAMESPACES:
        use.add(("address", "account", namespace), 0.01)
    return use


def _reviews() -> EvaluationQueue:
    queue = EvaluationQueue(QueueLimits(), lambda: 0.0)
    for namespace in NAMESPACES:
        try:
            queue.ask(("address", "account", namespace), lambda: None)
        except TurnRefused:
            continue
    return queue


def _events() -> EventRecorder:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    names = map(str, itertools.count())
    nowhere = _Nowhere(lambda: now, lambda: next(names), lambda: next(names))
    recorder = EventRecorder(nowhere, "operator", "0", clock=lambda: now, suffixes=lambda: next(names))

    async def write() -> None:
        for namespace in NAMESPACES:
            about = ObjectReference(kind="VirtualMachineInstance", namespace=namespace, name="vm", uid="u")
            recorder.record(about, "Warning", "Waiting", namespace * 40)
            await recorder.flush()

    asyncio.run(write())
    return recorder


class _Nowhere(MemoryCluster):
    """Keeps nothing of what is written, so that what the recorder keeps can be measured."""

    async def create(self, obj: ObjectT) -> ObjectT:
        return obj


@pytest.mark.parametrize(
    ("flood", "mebibytes"),
    [
        pytest.param(_waiting_pods, 4, id="pods that wait to be explained"),
        pytest.param(_explained_pods, 0.1, id="allowances of explaining"),
        pytest.param(_charged_tenants, 4, id="use of tenants"),
        pytest.param(_reviews, 1, id="reviews that wait for a child"),
        pytest.param(_events, 16, id="events", marks=pytest.mark.slow),
    ],
)
def test_what_is_kept_of_twenty_thousand_namespaces_is_bounded(flood: Callable[[], Any], mebibytes: float) -> None:
    _, size = _kept(flood)
    assert size < mebibytes * MIB, f"{size / MIB:.2f} MiB"


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(_waiting_pods, id="pods that wait to be explained"),  # 33 s, when the fullest was looked for
        pytest.param(_explained_pods, id="allowances of explaining"),
        pytest.param(_charged_tenants, id="use of tenants"),
        pytest.param(_reviews, id="reviews that wait for a child"),
    ],
)
def test_a_namespace_costs_the_event_loop_no_more_where_there_are_thousands(flood: Callable[[], Any]) -> None:
    began = time.process_time()
    flood()
    seconds = time.process_time() - began
    assert seconds < len(NAMESPACES) * 500e-6, f"{seconds / len(NAMESPACES) * 1e6:.0f} µs each"


def test_as_many_are_kept_as_the_limits_say() -> None:
    assert (len(_waiting_pods()), len(_charged_tenants()), _reviews().waiting) == (
        SHARES.queued,
        REMEMBERED,
        QueueLimits().all_waiting,
    )
    assert EventLimits().remembered < len(NAMESPACES)


def test_one_namespace_loses_its_place_to_those_that_have_none() -> None:
    """The queue of pods to explain is full of one tenant's; others come in, and the last of its own go."""
    queue = ExplainQueue(0.0, SHARES.__class__(queued=6, queued_per_namespace=4))
    for key in ("a/1", "a/2", "a/3", "a/4", "b/1", "b/2"):
        assert queue.add(key) is None
    assert [queue.add(key) for key in ("c/1", "d/1", "b/3", "e/1", "f/1", "g/1")] == [
        "a/4", "a/3", "b/3", "b/2", "a/2", "g/1",
    ]  # fmt: skip
    assert [queue.take(0.0) for _ in range(7)] == ["a/1", "b/1", "c/1", "d/1", "e/1", "f/1", None]
