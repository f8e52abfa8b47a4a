"""The operator's loop over the embedded cluster: from changes to what is written, and how it starts and stops."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Literal

import pytest

from devtools.agents.worlds import eventually
from tests.controllers.operator.ambient import ambient
from tests.controllers.operator.inline_explanations import InlineExplanations
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import NEWEST, Gates
from virt_dra.api.meta import ObjectT
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import AlreadyExists, Forbidden
from virt_dra.cluster.watching.event_recorder import EVENT
from virt_dra.controllers import keyed_loop
from virt_dra.controllers.operator.instance_loop import InstanceLoop, LoopSettings
from virt_dra.controllers.standalone import reconcile as standalone
from virt_dra.controllers.standalone.pod import StandaloneOptions

STANDALONE = standalone.StandaloneSettings(Gates.for_version(NEWEST), StandaloneOptions("launcher"))
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RESULT: Json = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}


class Recorded:
    """Counts what the loop's observer hears of reconciles."""

    def __init__(self) -> None:
        self.results: Counter[str] = Counter()
        self.published_after: list[float] = []

    def reconciled(self, result: str, seconds: float) -> None:
        self.results[result] += 1

    def published(self, seconds: float) -> None:
        self.published_after.append(seconds)

    def depth(self, ready: int, delayed: int, in_work: int) -> None: ...
    def started(self, waited: float) -> None: ...
    def finished(self, seconds: float, outcome: str) -> None: ...
    def listed(self, kind: str, objects: int, seconds: float) -> None: ...
    def received(self, kind: str, event: str) -> None: ...
    def restarted(self, kind: str, reason: str) -> None: ...


class Counting(MemoryCluster):
    """Counts writes by what they write."""

    writes: Counter[str]

    async def create(self, obj: ObjectT) -> ObjectT:
        self.writes[f"create {obj.KIND}"] += 1
        return await super().create(obj)

    async def update(self, obj: ObjectT) -> ObjectT:
        self.writes[f"update {obj.KIND}"] += 1
        return await super().update(obj)

    async def patch(
        self, kind: type[ObjectT], name: str, namespace: str = "", *, merge: dict[str, Any] | None = None,
        operations: Sequence[dict[str, Any]] | None = None, subresource: Literal["", "status"] = "",
    ) -> ObjectT:  # fmt: skip
        self.writes[f"patch {kind.KIND}"] += 1
        return await super().patch(kind, name, namespace, merge=merge, operations=operations, subresource=subresource)


def read(kind: type[ObjectT], name: str, namespace: str = "vms", **parts: Any) -> ObjectT:
    scope = {"namespace": namespace} if kind.NAMESPACED else {}
    return kind.from_wire({"metadata": {"name": name, **scope, **parts.pop("metadata", {})}, **parts})


async def vm_with_pod(
    cluster: MemoryCluster, name: str = "vm", *, node: str | None = "node-1"
) -> tuple[VirtualMachineInstance, Pod]:
    """A VMI with one GPU of a template's claim, its launcher pod, and the claim, which isn't allocated."""
    entry = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
    gpu = {"name": "gpu1", "claimName": "gpu", "requestName": "gpu"}
    spec = {"resourceClaims": [entry], "domain": {"devices": {"gpus": [gpu]}}}
    vmi = await cluster.create(read(VirtualMachineInstance, name, spec=spec, status={"phase": "Scheduling"}))
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": name,
        "uid": vmi.metadata.uid,
        "controller": True,
    }
    labels = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": vmi.metadata.uid}
    container = {"name": "compute", "image": "x", "resources": {"claims": [{"name": "gpu", "request": "gpu"}]}}
    pod_spec = {"containers": [container], "resourceClaims": [entry], **({"nodeName": node} if node else {})}
    pod = await cluster.create(
        read(Pod, f"virt-launcher-{name}", spec=pod_spec, metadata={"labels": labels, "ownerReferences": [owner]})
    )
    pod_owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.metadata.uid, "controller": True}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    await cluster.create(
        read(
            ResourceClaim,
            f"{name}-gpu",
            spec={"devices": {"requests": [request]}},
            metadata={"ownerReferences": [pod_owner]},
        )
    )
    statuses = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
    pod = await cluster.patch(Pod, pod.name, "vms", merge={"status": statuses}, subresource="status")
    return vmi, pod


async def allocate(cluster: MemoryCluster, pod: Pod, name: str = "vm") -> None:
    reserved = [{"resource": "pods", "name": pod.name, "uid": pod.metadata.uid}]
    status = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": reserved}
    await cluster.patch(ResourceClaim, f"{name}-gpu", "vms", merge={"status": status}, subresource="status")


def gpu_slice(address: str = "0000:41:00.0", generation: int = 1) -> ResourceSlice:
    pool = {"name": "node-1", "generation": generation, "resourceSliceCount": 1}
    devices = [{"name": "gpu-0", "attributes": {"resource.kubernetes.io/pciBusID": {"string": address}}}]
    return read(
        ResourceSlice,
        "node-1",
        spec={"driver": "gpu.example.com", "nodeName": "node-1", "pool": pool, "devices": devices},
    )


def counting() -> Counting:
    cluster = Counting.deterministic()
    cluster.writes = Counter()
    return cluster


@asynccontextmanager
async def running(cluster: MemoryCluster) -> AsyncIterator[tuple[InstanceLoop, Recorded]]:
    observer = Recorded()
    loop = InstanceLoop(cluster, LoopSettings(), ambient(lambda: NOW), observer, InlineExplanations())
    tasks = [asyncio.create_task(loop.run_informers()), asyncio.create_task(loop.run_workers())]
    try:
        yield loop, observer
        await loop.stop()
    finally:
        for task in tasks:
            task.cancel()
        done, _ = await asyncio.wait(tasks)
        for task in done:
            assert task.cancelled() or task.exception() is None


async def published(cluster: MemoryCluster, state: str, name: str = "vm") -> VirtualMachineInstanceDevices:
    return await eventually(
        lambda: cluster.get(VirtualMachineInstanceDevices, name, "vms"),
        lambda devices: bool(devices.status.devices) and devices.status.devices[0].state == state,
    )


async def test_an_allocation_shows_in_the_object_and_on_the_vmi_and_is_told_once() -> None:
    cluster = counting()
    vmi, pod = await vm_with_pod(cluster)
    await cluster.create(gpu_slice())
    async with running(cluster) as (loop, observer):
        waiting = await published(cluster, "Pending")
        assert (waiting.status.ready, waiting.status.devices[0].reason) == ("0/1", "NotAllocated")

        await allocate(cluster, pod)
        done = await published(cluster, "Resolved")
        assert (done.status.ready, done.status.node_name, done.status.devices[0].pci_address) == (
            "1/1",
            "node-1",
            "0000:41:00.0",
        )
        assert [owner.uid for owner in done.metadata.owner_references] == [vmi.metadata.uid]
        await eventually(
            lambda: cluster.get(VirtualMachineInstance, "vm", "vms"),
            lambda vmi: '"pciAddress":"0000:41:00.0"' in vmi.metadata.annotations.get("virt-dra.io/device-status", ""),
        )
        told = await eventually(lambda: cluster.list(EVENT, "vms"), lambda listed: len(listed.items) == 1)
        event = told.items[0].to_wire()
        assert (event["reason"], event["message"]) == ("DevicesResolved", "on node node-1: gpus/gpu1 0000:41:00.0")
        assert event["involvedObject"]["uid"] == vmi.metadata.uid
        assert len(observer.published_after) == 1
        assert loop.devices_by_state() == {"Resolved": 1}


async def test_a_restarted_loop_writes_and_tells_nothing_again() -> None:
    cluster = counting()
    _, pod = await vm_with_pod(cluster)
    await cluster.create(gpu_slice())
    await allocate(cluster, pod)
    async with running(cluster):
        await published(cluster, "Resolved")
        await eventually(lambda: cluster.list(EVENT, "vms"), lambda listed: len(listed.items) == 1)
    cluster.writes.clear()
    async with running(cluster) as (_, observer):
        await eventually(lambda: asyncio.sleep(0, observer.results["unchanged"]))
    assert (dict(cluster.writes), dict(observer.results)) == ({}, {"unchanged": 1})


async def test_what_is_taken_away_is_put_right_again() -> None:
    cluster = counting()
    _, pod = await vm_with_pod(cluster)
    await cluster.create(gpu_slice())
    await allocate(cluster, pod)
    async with running(cluster):
        first = await published(cluster, "Resolved")
        await cluster.delete(VirtualMachineInstanceDevices, "vm", "vms")
        again = await published(cluster, "Resolved")
        assert again.metadata.uid != first.metadata.uid
        forged = {"metadata": {"annotations": {"virt-dra.io/device-status": "{}"}}}
        await cluster.patch(VirtualMachineInstance, "vm", "vms", merge=forged)
        await eventually(
            lambda: cluster.get(VirtualMachineInstance, "vm", "vms"),
            lambda vmi: '"0000:41:00.0"' in vmi.metadata.annotations["virt-dra.io/device-status"],
        )


async def test_a_slice_that_comes_late_or_changes_concerns_only_the_vms_with_its_devices() -> None:
    cluster = counting()
    _, pod = await vm_with_pod(cluster)
    await vm_with_pod(cluster, "other")
    await allocate(cluster, pod)
    async with running(cluster) as (_, observer):
        await published(cluster, "Pending")
        await published(cluster, "Pending", "other")
        await asyncio.sleep(0.05)
        observer.results.clear()
        await cluster.create(gpu_slice())
        await published(cluster, "Resolved")
        await asyncio.sleep(0.05)
        # The write comes back as a change of the object, which concerns the same VM.
        assert observer.results == {"written": 1, "unchanged": 1}


async def test_why_a_pod_waits_for_a_node_is_found_out_and_told() -> None:
    cluster = counting()
    selectors = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
    await cluster.create(read(DeviceClass, "gpu", spec={"selectors": selectors}))
    await cluster.create(read(Node, "node-1"))
    taken = read(
        ResourceClaim, "taken", spec={"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    )
    await cluster.create(taken)
    status = {
        "allocation": {"devices": {"results": [RESULT]}},
        "reservedFor": [{"resource": "pods", "name": "x", "uid": "x"}],
    }
    await cluster.patch(ResourceClaim, "taken", "vms", merge={"status": status}, subresource="status")
    await cluster.create(gpu_slice())
    await vm_with_pod(cluster, node=None)
    later = NOW.replace(minute=5)
    observer = Recorded()
    loop = InstanceLoop(cluster, LoopSettings(), ambient(lambda: later), observer, InlineExplanations())
    tasks = [asyncio.create_task(loop.run_informers()), asyncio.create_task(loop.run_workers())]
    devices = await eventually(
        lambda: cluster.get(VirtualMachineInstanceDevices, "vm", "vms"),
        lambda devices: any(condition.type == "Allocatable" for condition in devices.status.conditions),
    )
    (condition,) = (condition for condition in devices.status.conditions if condition.type == "Allocatable")
    assert (condition.status, condition.reason, condition.message) == (
        "False",
        "NoNodeFits",
        "0 of 1 nodes can take the pod: 1 node (node-1), claim vms/vm-gpu, request gpu: 1 device: in use",
    )
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_pods_that_wait_one_after_the_other_share_a_view_of_the_cluster() -> None:
    """It takes seconds to make one in a large cluster."""
    explanations = InlineExplanations()
    cluster = counting()
    await cluster.create(read(Node, "node-1"))
    loop = InstanceLoop(cluster, LoopSettings(), ambient(lambda: NOW.replace(minute=5)), Recorded(), explanations)
    tasks = [asyncio.create_task(loop.run_informers()), asyncio.create_task(loop.run_workers())]
    for name in ("one", "other"):
        await vm_with_pod(cluster, name, node=None)
        await eventually(
            lambda: cluster.get(VirtualMachineInstanceDevices, name, "vms"),  # noqa: B023 - asked before the next name
            lambda devices: any(condition.type == "Allocatable" for condition in devices.status.conditions),
        )
    assert explanations.loaded == 1
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_standalone_does_nothing_beside_a_kubevirt() -> None:
    cluster = counting()
    _, pod = await vm_with_pod(cluster)
    await cluster.create(gpu_slice())
    await allocate(cluster, pod)
    observer = Recorded()
    loop = InstanceLoop(
        cluster, LoopSettings(standalone=STANDALONE), ambient(lambda: NOW), observer, InlineExplanations()
    )
    await cluster.create(read(KubeVirt, "kubevirt", "kubevirt"))
    tasks = [asyncio.create_task(loop.run_informers()), asyncio.create_task(loop.run_workers())]
    await eventually(lambda: asyncio.sleep(0, observer.results["unchanged"]))
    assert observer.results.total() == observer.results["unchanged"]
    assert not cluster.writes.keys() & {"patch VirtualMachineInstance", "create VirtualMachineInstanceDevices"}

    await cluster.delete(KubeVirt, "kubevirt", "kubevirt")
    await eventually(lambda: asyncio.sleep(0, cluster.writes["patch VirtualMachineInstance"]))
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


class Refusing(Counting):
    """Refuses the first creations of a kind, as an API server does that has just started and doesn't know our rights
    yet."""

    refusals: int

    async def create(self, obj: ObjectT) -> ObjectT:
        if isinstance(obj, VirtualMachineInstanceDevices) and self.refusals:
            self.refusals -= 1
            raise Forbidden("not yet")
        return await super().create(obj)


@pytest.mark.parametrize("refusals", [1, 3])
async def test_what_is_refused_is_tried_again_and_told_if_it_is_refused_again(
    monkeypatch: pytest.MonkeyPatch, refusals: int
) -> None:
    monkeypatch.setattr(keyed_loop, "_REFUSED_SECONDS", (0.01, 0.1))

    cluster = Refusing.deterministic()
    cluster.writes, cluster.refusals = Counter(), refusals
    _, pod = await vm_with_pod(cluster)
    await cluster.create(gpu_slice())
    await allocate(cluster, pod)
    async with running(cluster) as (_, observer):
        await published(cluster, "Resolved")
        events = await eventually(
            lambda: cluster.list(EVENT, "vms"),
            lambda listed: any(event.to_wire()["reason"] == "DevicesResolved" for event in listed.items),
        )
    counts = {event.to_wire()["reason"]: event.to_wire()["count"] for event in events.items}
    assert counts == {"DevicesResolved": 1, **({"WriteRefused": refusals - 1} if refusals > 1 else {})}
    assert observer.results["refused"] == refusals


@pytest.mark.slow
async def test_while_an_informer_lags_behind_a_refused_plan_is_made_anew_ever_more_seldom() -> None:
    """Its watch may be down for half a minute; 20 writes a second in vain would add up."""

    cluster = Outdated.deterministic()
    cluster.writes = Counter()
    _, pod = await vm_with_pod(cluster)
    await cluster.create(gpu_slice())
    await allocate(cluster, pod)
    async with running(cluster) as (_, observer):
        await eventually(lambda: asyncio.sleep(0, observer.results["outdated"] >= 2))
        await asyncio.sleep(1.0)
        assert 4 <= observer.results["outdated"] <= 8


class Outdated(Counting):
    """All that is created is there already, for who asks."""

    async def create(self, obj: ObjectT) -> ObjectT:
        if isinstance(obj, VirtualMachineInstanceDevices):
            raise AlreadyExists("it is")
        return await super().create(obj)
