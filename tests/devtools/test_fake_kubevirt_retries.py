"""How the tests' own KubeVirt tries again (K-12.8, K-12.9): client-go's waits, and at once when the VMI changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from devtools.agents import kubevirt
from devtools.agents.kubevirt import FakeKubeVirt, SyncError, check_failure
from devtools.agents.rate_limiter import RateLimiter
from devtools.agents.worlds import eventually
from tests.devtools.test_fake_kubevirt import gates_of, vmi
from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import ObjectMeta
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.embedded import embedded_cluster
from virt_dra.cluster.port import Cluster, Invalid
from virt_dra.cluster.watching.event_recorder import EVENT
from virt_dra.simulator.agents.kubelet import Kubelet

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def test_a_keys_wait_doubles_up_to_a_thousand_seconds() -> None:
    limiter = RateLimiter[str](lambda: 0.0)
    waits = [limiter.failed("a") for _ in range(20)]
    assert waits[:4] == [0.005, 0.01, 0.02, 0.04]
    assert waits[17:] == [655.36, 1000.0, 1000.0]
    assert limiter.failed("b") == 0.005
    limiter.forget("a")
    assert limiter.failed("a") == 0.005


def test_all_keys_together_are_limited_after_a_burst() -> None:
    now = [0.0]
    limiter = RateLimiter[int](lambda: now[0])
    assert {limiter.failed(key) for key in range(100)} == {0.005}
    assert [round(limiter.failed(key), 3) for key in range(100, 103)] == [0.1, 0.2, 0.3]
    now[0] = 10.0
    assert limiter.failed(200) == 0.005


def test_a_failures_message_stays_as_long_as_its_reason_does() -> None:
    first = check_failure((), SyncError("FailedCreate", "one"), NOW)
    assert [(c["type"], c["status"], c["reason"], c["message"]) for c in first] == [
        ("Synchronized", "False", "FailedCreate", "one")
    ]
    assert check_failure(first, SyncError("FailedCreate", "another"), NOW) == first
    assert [c["message"] for c in check_failure(first, SyncError("Other", "another"), NOW)] == ["another"]
    assert check_failure(first, None, NOW) == ()


class Refusing:
    """A cluster that refuses pods as long as :attr:`message` isn't ""."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.message = 'admission webhook "w" denied the request: no'

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def create(self, obj: Any) -> Any:
        if isinstance(obj, Pod) and self.message:
            raise Invalid(self.message, ())
        return await self._cluster.create(obj)


async def test_a_refused_pod_is_created_later_and_at_once_when_the_vmi_changes(tmp_path: Path) -> None:
    memory = embedded_cluster()
    await memory.create(Namespace(metadata=ObjectMeta(name="test")))
    refusing = Refusing(memory)
    cluster: Cluster = refusing
    fake = FakeKubeVirt(cluster, Kubelet(memory, ("n",), (), tmp_path), gates_of("1.9.0"))
    key = ("test", "vm")
    async with fake.running():
        await memory.create(VirtualMachineInstance.from_wire(vmi("test", status={"phase": "Pending"})))

        async def tries() -> int:
            return fake.creations.get(key, 0)

        await eventually(tries, lambda count: count >= 8)
        stored = await memory.get(VirtualMachineInstance, "vm", "test")
        (synchronized,) = [c for c in stored.status.conditions if c["type"] == "Synchronized"]
        assert (synchronized["status"], synchronized["reason"]) == ("False", "FailedCreate")
        assert synchronized["message"] == f"failed to create virtual machine pod: {refusing.message}"
        (ready,) = [c for c in stored.status.conditions if c["type"] == "Ready"]
        assert (ready["status"], ready["reason"]) == ("False", "PodNotExists")
        events = (await memory.list(EVENT, "test")).items
        told = {(e.to_wire()["type"], e.to_wire()["reason"], e.to_wire()["message"]) for e in events}
        assert told == {("Warning", "FailedCreate", f"Error creating pod: {refusing.message}")}
        # The next attempt would be more than half a second away.
        refusing.message = ""
        before = fake.creations[key]
        await asyncio.sleep(0.1)
        assert fake.creations[key] <= before + 1
        if fake.creations[key] == before:
            await memory.patch(VirtualMachineInstance, "vm", "test", merge={"metadata": {"annotations": {"a": "b"}}})
        await eventually(lambda: memory.list(Pod, "test"), lambda pods: len(pods.items) == 1, seconds=0.3)
        stored = await eventually(
            lambda: memory.get(VirtualMachineInstance, "vm", "test"), lambda vmi: vmi.status.phase == "Scheduling"
        )
        assert not [c for c in stored.status.conditions if c["type"] == "Synchronized"]


class GoneInAGap:
    """A cluster on which the first pod is deleted at once, and no watch shows that it was there: as where the API
    server restarts meanwhile, after which clients list."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._hidden = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def create(self, obj: Any) -> Any:
        made = await self._cluster.create(obj)
        if isinstance(obj, Pod) and not self._hidden:
            self._hidden = made.metadata.uid
            await self._cluster.delete(Pod, made.name, made.namespace, grace_seconds=0)
        return made

    async def watch(self, kind: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
        async for event in self._cluster.watch(kind, *args, **options):
            if kind is not Pod or event.object.metadata.uid != self._hidden:
                yield event


async def test_a_vmi_whose_pod_went_unseen_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubevirt, "UNSEEN_SECONDS", 0.05)
    memory = embedded_cluster()
    await memory.create(Namespace(metadata=ObjectMeta(name="test")))
    cluster: Cluster = GoneInAGap(memory)
    fake = FakeKubeVirt(cluster, Kubelet(memory, ("n",), (), tmp_path), gates_of("1.9.0"))
    async with fake.running():
        await memory.create(VirtualMachineInstance.from_wire(vmi("test", status={"phase": "Pending"})))
        await eventually(
            lambda: memory.get(VirtualMachineInstance, "vm", "test"), lambda seen: seen.status.phase == "Failed"
        )
    assert fake.creations == {("test", "vm"): 1}
