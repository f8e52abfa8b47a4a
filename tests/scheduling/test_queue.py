"""The scheduling queue: order, back-off, flush, pods that are held back, and what wakes which pod."""

from __future__ import annotations

from typing import Any

import pytest

from virt_dra.api.core_v1 import Pod
from virt_dra.scheduling.framework.events import ClusterEvent, Hint
from virt_dra.scheduling.framework.refusals import FilterRefusal
from virt_dra.scheduling.queue import QueuedPod, SchedulingQueue

FIT = frozenset({"Fit"})
HINTS = {
    "Fit": (Hint(frozenset({ClusterEvent.NODE_ADD})),),
    "Gates": (Hint(frozenset({ClusterEvent.TARGET_POD_GATES})),),
    "Named": (
        Hint(frozenset({ClusterEvent.CLAIM}), lambda pod, old, new: bool(new), lambda old, new: [new] if new else None),
    ),
}


def pod(name: str, priority: int = 0, *gates: str) -> Pod:
    spec: dict[str, Any] = {"priority": priority, "schedulingGates": [{"name": gate} for gate in gates]}
    return Pod.from_wire({"metadata": {"name": name, "namespace": "lab", "uid": name}, "spec": spec})


def queue() -> SchedulingQueue:
    return SchedulingQueue(
        HINTS, lambda pod: FilterRefusal("Gates", ("waiting",)) if pod.spec.scheduling_gates else None
    )


def popped(waiting: SchedulingQueue, now: float) -> QueuedPod:
    pod = waiting.pop(now)
    assert pod is not None
    return pod


def refused(waiting: SchedulingQueue, name: str, now: float, rejectors: frozenset[str] = FIT) -> QueuedPod:
    """A pod that was tried and fitted nowhere."""
    waiting.add(pod(name), now)
    pods = popped(waiting, now)
    assert pods.uid == name
    waiting.failed(pods, pods.pod, rejectors, now)
    return pods


def test_pods_come_by_priority_then_by_time() -> None:
    waiting = queue()
    for number, added in enumerate((pod("a"), pod("b", 5), pod("c"), pod("d", 5))):
        waiting.add(added, float(number))
    assert [popped(waiting, 10).uid for _ in range(4)] == ["b", "d", "a", "c"]
    assert waiting.pop(10) is None


def test_a_refused_pod_waits_for_an_event_that_its_plugin_wants() -> None:
    """C-4.6."""
    waiting = queue()
    refused(waiting, "a", 0)
    waiting.event(ClusterEvent.SLICE, None, None, 20)
    assert waiting.pop(20) is None
    waiting.event(ClusterEvent.NODE_ADD, None, None, 20)
    assert popped(waiting, 20).uid == "a"


def test_a_refused_pod_is_tried_again_after_five_minutes() -> None:
    """C-4.7: a lost event is covered by the flush."""
    waiting = queue()
    refused(waiting, "a", 0)
    assert waiting.next_time() == 300
    assert waiting.pop(299) is None
    assert popped(waiting, 300).uid == "a"


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1.25), (2, 2.25), (3, 4.25), (4, 8.25), (5, 10.25), (50, 10.25)])
def test_errors_back_off_twice_as_long_each_time(failures: int, seconds: float) -> None:
    """C-2.7: 1, 2, 4, 8, 10 seconds, and up to the end of the window."""
    waiting = queue()
    waiting.add(pod("a"), 0)
    now = 0.0
    for _ in range(failures):
        pods = popped(waiting, now)
        waiting.failed(pods, pods.pod, frozenset(), now)
        at = waiting.next_time()
        assert at is not None
        last, now = now, at
    assert now - last == seconds
    assert waiting.pop(now - 0.01) is None


def test_a_refused_pod_that_backs_off_is_taken_early_if_nothing_else_is_active() -> None:
    waiting = queue()
    refused(waiting, "a", 0)
    waiting.event(ClusterEvent.NODE_ADD, None, None, 0.1)
    assert waiting.depths()["backoff"] == 1
    assert popped(waiting, 0.1).uid == "a"


def test_an_event_during_the_attempt_counts_afterwards() -> None:
    waiting = queue()
    waiting.add(pod("a"), 0)
    pods = popped(waiting, 0)
    waiting.event(ClusterEvent.NODE_ADD, None, None, 0)
    waiting.failed(pods, pods.pod, FIT, 0)
    assert popped(waiting, 0).uid == "a"


def test_a_pod_that_is_held_back_is_never_tried_and_counts_as_gated() -> None:
    """C-5.1."""
    waiting = queue()
    gated = pod("a", 0, "example.com/wait")
    waiting.add(gated, 0)
    assert waiting.pop(1000) is None
    assert waiting.depths() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    waiting.update(gated, pod("a"), 1000)
    assert popped(waiting, 1000).uid == "a"


def test_a_hint_may_name_the_pods_that_it_is_for() -> None:
    waiting = queue()
    for name in "abc":
        refused(waiting, name, 0, frozenset({"Named"}))
    waiting.event(ClusterEvent.CLAIM, None, "b", 20)
    assert popped(waiting, 20).uid == "b"
    assert waiting.pop(20) is None


def test_a_deleted_pod_is_nowhere() -> None:
    waiting = queue()
    waiting.add(pod("active"), 0)
    waiting.delete("active")
    refused(waiting, "waiting", 0)
    waiting.delete("waiting")
    refused(waiting, "backing-off", 0)
    waiting.event(ClusterEvent.NODE_ADD, None, None, 0)
    waiting.delete("backing-off")
    assert len(waiting) == 0
    assert waiting.pop(1000) is None


def test_a_pod_that_came_back_during_its_attempt_is_not_queued_twice() -> None:
    waiting = queue()
    waiting.add(pod("a"), 0)
    pods = popped(waiting, 0)
    waiting.add(pod("a"), 0)
    waiting.failed(pods, pods.pod, frozenset(), 0)
    assert len(waiting) == 1
