"""The loop that keeps slices published: on the embedded cluster with faults, and on a real API server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count

import pytest

from devtools.cluster.control_plane import ControlPlane
from node_driver.devices import DeviceKind, PassthroughDevice, PublishedSet
from node_driver.publishing import NoPublishingObserver, Publisher
from node_driver.slices import SliceContent, slice_contents
from virt_dra.api.core_v1 import Node
from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.api.meta import ObjectMeta, ObjectT
from virt_dra.api.resource_v1 import DeviceTaint, ResourceSlice
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.embedded import embedded_cluster, strict_cluster
from virt_dra.cluster.memory.names import counted_suffixes
from virt_dra.cluster.port import ApiError, Cluster, Forbidden, Unavailable

DRIVER, NODE = "passthrough.virt-dra.io", "node-1"
TAINT = DeviceTaint(key=f"{DRIVER}/held", effect="NoSchedule")


def contents(count: int, *tainted: int) -> tuple[SliceContent, ...]:
    devices = tuple(PassthroughDevice(f"pci-{number}", DeviceKind.VFIO, "") for number in range(count))
    return slice_contents(PublishedSet(devices), {f"pci-{number}": (TAINT,) for number in tainted})


class Writes(NoPublishingObserver):
    def __init__(self) -> None:
        self.count = Counter[str]()

    def wrote(self, verb: str) -> None:
        self.count[verb] += 1

    def failed(self, reason: str) -> None:
        self.count[reason] += 1


@asynccontextmanager
async def publishing(
    cluster: Cluster, *, node: str = NODE, settling: float = 0.01
) -> AsyncIterator[tuple[Publisher, Writes]]:
    """A publisher that runs."""
    writes = Writes()
    publisher = Publisher(cluster, DRIVER, node, observer=writes, settling=settling, chance=lambda: 0.0)
    task = asyncio.create_task(publisher.run())
    try:
        yield publisher, writes
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def with_node(cluster: MemoryCluster) -> MemoryCluster:
    await cluster.create(Node(metadata=ObjectMeta(name=NODE)))
    return cluster


async def state(cluster: Cluster, node: str = NODE) -> list[tuple[str, int, int, str]]:
    """Index, generation, devices and taints of each slice."""
    slices = (await cluster.list(ResourceSlice, fields=f"spec.driver={DRIVER},spec.nodeName={node}")).items
    return [
        (
            obj.name.partition("-")[0],
            obj.spec.pool.generation,
            len(obj.spec.devices),
            " ".join(device.name for device in obj.spec.devices if device.taints),
        )
        for obj in sorted(slices, key=lambda obj: obj.name)
    ]


async def until(
    cluster: Cluster, wanted: list[tuple[str, int, int, str]], seconds: float = 2.0, node: str = NODE
) -> None:
    """Waits for a state; after ``seconds`` the comparison fails."""
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        if await state(cluster, node) == wanted:
            return
        await asyncio.sleep(0.01)
    assert await state(cluster, node) == wanted


async def test_devices_are_published_and_changed() -> None:
    cluster = await with_node(embedded_cluster())
    async with publishing(cluster) as (publisher, writes):
        publisher.publish(contents(65))
        await publisher.published()
        assert await state(cluster) == [("00000", 1, 64, ""), ("00001", 1, 1, "")]
        publisher.publish(contents(65, 3))
        await publisher.published()
        assert await state(cluster) == [("00000", 1, 64, "pci-3"), ("00001", 1, 1, "")]
        publisher.publish(contents(0))
        await publisher.published()
        assert await state(cluster) == [("00000", 1, 0, "")]
    assert writes.count == {"create": 2, "update": 2, "delete": 1}


async def test_wiped_slices_are_published_again_within_two_seconds() -> None:
    cluster = await with_node(embedded_cluster())
    publisher = Publisher(cluster, DRIVER, NODE)
    task = asyncio.create_task(publisher.run())
    publisher.publish(contents(130))
    await publisher.published()
    for obj in (await cluster.list(ResourceSlice)).items:  # as a kubelet does, one by one
        await asyncio.sleep(0.05)
        await cluster.delete(ResourceSlice, obj.name)
    await until(cluster, [("00000", 1, 64, ""), ("00001", 1, 64, ""), ("00002", 1, 2, "")], seconds=1.9)
    task.cancel()


async def test_changes_by_hand_are_undone() -> None:
    cluster = await with_node(embedded_cluster())
    async with publishing(cluster) as (publisher, _):
        publisher.publish(contents(2))
        await publisher.published()
        (obj,) = (await cluster.list(ResourceSlice)).items
        await cluster.update(obj.with_(spec=obj.spec.with_(devices=obj.spec.devices[:1])))
        await until(cluster, [("00000", 1, 2, "")])


async def test_what_is_published_already_is_not_asked_for_again() -> None:
    cluster = await faulty()
    asked: list[str] = []
    cluster.fault = asked.append
    async with publishing(cluster) as (publisher, _):
        publisher.publish(contents(2))
        await publisher.published()
        await asyncio.sleep(0.2)  # the watch reports what it wrote
        asked.clear()
        publisher.publish(contents(2))
        await publisher.published()
        await asyncio.sleep(0.2)
        assert asked == []
        publisher.publish(contents(2, 1))
        await publisher.published()
    assert asked == ["get"]


async def test_slices_of_other_drivers_and_nodes_are_left_alone() -> None:
    cluster = await with_node(embedded_cluster())
    await cluster.create(Node(metadata=ObjectMeta(name="node-2")))
    async with publishing(cluster, node="node-2") as (publisher, _):
        publisher.publish(contents(1))
        await publisher.published()
    (other,) = (await cluster.list(ResourceSlice)).items
    foreign = other.with_(metadata=ObjectMeta(name="foreign"), spec=other.spec.with_(driver="gpu.example.com"))
    await cluster.create(foreign)
    async with publishing(cluster) as (publisher, _):
        publisher.publish(contents(3))
        await publisher.published()
    assert await state(cluster, "node-2") == [("00000", 1, 1, "")]
    assert await cluster.get(ResourceSlice, "foreign")


async def test_a_node_that_was_made_anew_owns_the_new_slices() -> None:
    cluster = await with_node(embedded_cluster())
    async with publishing(cluster) as (publisher, _):
        publisher.publish(contents(1))
        await publisher.published()
        await cluster.delete(Node, NODE)  # the garbage collector deletes its slices
        node = await cluster.create(Node(metadata=ObjectMeta(name=NODE)))
        await until(cluster, [("00000", 1, 1, "")])
        (obj,) = (await cluster.list(ResourceSlice)).items
    assert [reference.uid for reference in obj.metadata.owner_references] == [node.metadata.uid]


# --- faults ---------------------------------------------------------------------------------------------------------


class Faulty(MemoryCluster):
    """Answers some requests with an error. ``fault(verb)``: the error of this request, None for none; ``after``: the
    write takes effect all the same."""

    fault: Callable[[str], ApiError | None] = staticmethod(lambda verb: None)
    after = False

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        if error := self.fault("get"):
            raise error
        return await super().get(kind, name, namespace)

    async def create(self, obj: ObjectT) -> ObjectT:
        error = self.fault("create")
        if error and not self.after:
            raise error
        created = await super().create(obj)
        if error:
            raise error
        return created


async def faulty() -> Faulty:
    uids = count()
    cluster = Faulty(lambda: datetime.now(UTC), counted_suffixes(), lambda: f"uid-{next(uids)}")
    await with_node(cluster)
    return cluster


def times(number: int, verb: str, error: ApiError) -> Callable[[str], ApiError | None]:
    """The first requests of a kind fail."""
    left = iter(range(number))
    return lambda asked: error if asked == verb and next(left, None) is not None else None


async def test_it_goes_on_when_the_api_server_is_back() -> None:
    cluster = await faulty()
    cluster.fault = times(3, "get", Unavailable("connection refused"))
    async with publishing(cluster) as (publisher, writes):
        publisher.publish(contents(1))
        await asyncio.sleep(0.05)
        assert publisher.refusal == "connection refused"
        await until(cluster, [("00000", 1, 1, "")], seconds=5)
        await publisher.published()
        assert publisher.refusal == ""
    assert writes.count == {"ServiceUnavailable": 3, "create": 1}


async def test_a_slice_whose_creation_was_not_answered_is_not_made_twice() -> None:
    cluster = await faulty()
    cluster.fault, cluster.after = times(1, "create", Unavailable("connection reset")), True
    async with publishing(cluster) as (publisher, writes):
        publisher.publish(contents(1))
        await publisher.published()
        await asyncio.sleep(0.1)
        assert await state(cluster) == [("00000", 1, 1, "")]
    assert writes.count == {"ServiceUnavailable": 1}


async def test_a_missing_permission_is_said_and_asked_for_again() -> None:
    cluster = await faulty()
    cluster.fault = times(2, "create", Forbidden("resourceslices is forbidden"))
    async with publishing(cluster) as (publisher, _):
        publisher.publish(contents(1))
        await asyncio.sleep(0.05)
        assert publisher.refusal == "resourceslices is forbidden"
        await until(cluster, [("00000", 1, 1, "")], seconds=5)


def strict(gates: FeatureGates = PLAIN) -> MemoryCluster:
    uids = count()
    return strict_cluster(lambda: datetime.now(UTC), counted_suffixes(), lambda: f"uid-{next(uids)}", gates)


async def test_an_invalid_slice_is_not_tried_until_something_else_is_wanted() -> None:
    cluster = await with_node(strict())
    async with publishing(cluster) as (publisher, writes):
        devices = tuple(PassthroughDevice(f"Upper-{number}", DeviceKind.VFIO, "") for number in range(1))
        publisher.publish(slice_contents(PublishedSet(devices), {}))
        await asyncio.sleep(0.5)
        assert writes.count == {"Invalid": 1}
        assert "Upper-0" in publisher.refusal
        publisher.publish(contents(1))
        await publisher.published()
        assert await state(cluster) == [("00000", 1, 1, "")]


async def test_fields_of_a_gate_that_is_off_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster = await with_node(strict(FeatureGates(device_taints=False, device_taint_rules=False)))
    async with publishing(cluster) as (publisher, writes):
        publisher.publish(contents(3, 1))
        await publisher.published()
        await asyncio.sleep(0.2)
        assert await state(cluster) == [("00000", 1, 3, "")]
        publisher.publish(contents(4, 1))
        await publisher.published()
        await asyncio.sleep(0.2)
        assert await state(cluster) == [("00000", 1, 4, "")]
    assert writes.count == {"create": 1, "update": 1}
    assert [record.message.partition(": ")[2] for record in caplog.records if "dropped" in record.message] == [
        "the API server dropped fields; probably these feature gates are off: DRADeviceTaints"
    ] * 2


# --- a real API server ----------------------------------------------------------------------------------------------


@pytest.mark.control_plane
async def test_a_real_api_server_takes_all_that_a_slice_can_say(control_plane: ControlPlane) -> None:
    from virt_dra.cluster.kube.cluster import connect  # the client's package takes a third of a second

    devices = tuple(PassthroughDevice(f"pci-{number}", DeviceKind.VFIO, "") for number in range(130))
    mdevs = tuple(
        PassthroughDevice(f"mdev-{card}", DeviceKind.MDEV, "", counter_set=f"card-{card}", counters={"a": 1})
        for card in range(9)
    )
    published = PublishedSet(devices + mdevs, counter_sets={f"card-{card}": {"a": 2} for card in range(9)})
    wanted = slice_contents(published, {"pci-70": (TAINT,)})
    name = "publishing-node"
    async with connect(str(control_plane.kubeconfig)) as cluster:
        await cluster.create(Node(metadata=ObjectMeta(name=name)))
        try:
            async with publishing(cluster, node=name, settling=0.3) as (publisher, writes):
                publisher.publish(wanted)
                await publisher.published()
                made = [
                    ("00000", 1, 0, ""), ("00001", 1, 0, ""), ("00002", 1, 64, ""), ("00003", 1, 64, "pci-70"),
                    ("00004", 1, 11, ""),
                ]  # fmt: skip
                await until(cluster, made, node=name)
                assert writes.count == {"create": 5}
                for obj in (await cluster.list(ResourceSlice, fields=f"spec.nodeName={name}")).items:
                    await cluster.delete(ResourceSlice, obj.name)
                await until(cluster, made, node=name)
                await asyncio.sleep(0.5)
                assert writes.count == {"create": 10}
        finally:
            for obj in (await cluster.list(ResourceSlice, fields=f"spec.nodeName={name}")).items:
                await cluster.delete(ResourceSlice, obj.name)
            await cluster.delete(Node, name)
