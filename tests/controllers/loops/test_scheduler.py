"""The scheduler on the embedded cluster: what is written, in which order, and what happens when the cluster says no
(C-5.11, C-21)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import FINALIZER, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.controllers.loops.scheduler.batch import SchedulingDecision, apply, gather, plan
from virt_dra.scheduling.placement import Placement, Unplaced

Json = dict[str, Any]
NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
LATER = datetime(2026, 5, 1, 13, 0, tzinfo=UTC)
DRIVER = "gpu.example.com"


async def schedule(cluster: MemoryCluster, now: datetime, **options: Any) -> tuple[SchedulingDecision, ...]:
    """One round over all pending pods."""
    return await apply(cluster, plan(await gather(cluster, ""), **options), now)


def slice_(node: str, devices: int) -> ResourceSlice:
    published = [{"name": f"d{i}", "attributes": {"model": {"string": "A"}}} for i in range(devices)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return ResourceSlice.from_wire(
        {"metadata": {"name": node}, "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": published}}
    )


GPU = DeviceClass.from_wire(
    {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}}
)


def claim(
    name: str, count: int = 1, expression: str = 'device.attributes["gpu.example.com"].model == "A"'
) -> ResourceClaim:
    exactly = {
        "deviceClassName": "gpu",
        "count": count,
        "allocationMode": "ExactCount",
        "selectors": [{"cel": {"expression": expression}}],
    }
    return ResourceClaim.from_wire(
        {
            "metadata": {"name": name, "namespace": "lab"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        }
    )


def pod(name: str, *claims: str) -> Pod:
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    containers = [
        {"name": "compute", "image": "launcher", "resources": {"claims": [{"name": claim} for claim in claims]}}
    ]
    return Pod.from_wire(
        {"metadata": {"name": name, "namespace": "lab"}, "spec": {"resourceClaims": entries, "containers": containers}}
    )


def node(name: str) -> Node:
    return Node.from_wire(
        {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110"}}}
    )


class Recorder(MemoryCluster):
    """Notes each write of the scheduler, and lets a test act just before one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.writes: list[str] = []
        self.before: dict[str, Callable[[], Awaitable[object]]] = {}

    async def _note(self, write: str) -> None:
        act = self.before.pop(write, None)
        if act is not None:
            await act()
        self.writes.append(write)

    async def update(self, obj: Any) -> Any:
        await self._note(f"update {obj.KIND} {obj.name}")
        return await super().update(obj)

    async def update_status(self, obj: Any) -> Any:
        await self._note(f"status {obj.KIND} {obj.name}")
        return await super().update_status(obj)

    async def patch(self, kind: Any, name: str, namespace: str = "", **how: Any) -> Any:
        await self._note(f"patch {kind.KIND} {name} {how.get('subresource', '')}".strip())
        return await super().patch(kind, name, namespace, **how)

    async def bind(self, pod: Any, node: str) -> None:
        await self._note(f"bind Pod {pod.name}")
        await super().bind(pod, node)


async def cluster_with(*objects: TypedObject) -> Recorder:
    cluster = Recorder.deterministic()
    for obj in (GPU, *objects):
        await cluster.create(obj)
    return cluster


async def run(scenario: Callable[[], Awaitable[None]]) -> None:
    await scenario()


async def conditions(cluster: MemoryCluster, name: str) -> list[Json]:
    return [condition.to_wire() for condition in (await cluster.get(Pod, name, "lab")).status.conditions]


async def test_a_pod_gets_its_devices_and_its_node() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"), slice_("n1", 2), claim("c"), pod("p", "c"))
        await schedule(cluster, NOW)
        assert cluster.writes == ["update ResourceClaim c", "status ResourceClaim c", "bind Pod p"]
        bound, allocated = await cluster.get(Pod, "p", "lab"), await cluster.get(ResourceClaim, "c", "lab")
        assert bound.spec.node_name == "n1"
        assert allocated.metadata.finalizers == (FINALIZER,)
        only_n1 = {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
        }
        assert allocated.status.to_wire() == {
            "allocation": {
                "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "d0"}]},
                "nodeSelector": only_n1,
                "allocationTimestamp": "2026-05-01T12:00:00Z",
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": bound.metadata.uid}],
        }
        assert await conditions(cluster, "p") == [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        ]
        cluster.writes.clear()
        assert await schedule(cluster, LATER) == ()
        assert cluster.writes == []

    await run(scenario)


async def test_pods_compete_in_order_and_the_loser_learns_why() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(
            node("n1"), slice_("n1", 1), claim("c1"), claim("c2"), pod("p1", "c1"), pod("p2", "c2")
        )
        decisions = await schedule(cluster, NOW)
        assert [type(decision.outcome) for decision in decisions] == [Placement, Unplaced]
        refusal = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 cannot allocate all claims.",
            "lastTransitionTime": "2026-05-01T12:00:00Z",
        }
        assert await conditions(cluster, "p2") == [refusal]
        cluster.writes.clear()
        await schedule(cluster, LATER)
        assert cluster.writes == []  # nothing new to say
        await cluster.update(slice_("n1", 2).with_(metadata=(await cluster.get(ResourceSlice, "n1")).metadata))
        await schedule(cluster, LATER)
        assert (await cluster.get(Pod, "p2", "lab")).spec.node_name == "n1"
        assert await conditions(cluster, "p2") == [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        ]

    await run(scenario)


async def test_two_pods_share_a_claim_in_one_round() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(
            node("n1"), node("n2"), slice_("n2", 1), claim("c"), pod("p1", "c"), pod("p2", "c")
        )
        await schedule(cluster, NOW)
        shared = await cluster.get(ResourceClaim, "c", "lab")
        assert [consumer.name for consumer in shared.status.reserved_for] == ["p1", "p2"]
        assert [(await cluster.get(Pod, name, "lab")).spec.node_name for name in ("p1", "p2")] == ["n2", "n2"]

    await run(scenario)


async def test_a_conflict_is_retried_with_a_fresh_read() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"), slice_("n1", 1), claim("c"), pod("p", "c"))

        async def label() -> None:
            await MemoryCluster.patch(cluster, ResourceClaim, "c", "lab", merge={"metadata": {"labels": {"a": "b"}}})

        cluster.before["status ResourceClaim c"] = label
        await schedule(cluster, NOW)
        assert cluster.writes[:3] == ["update ResourceClaim c", "status ResourceClaim c", "status ResourceClaim c"]
        assert (await cluster.get(Pod, "p", "lab")).spec.node_name == "n1"

    await run(scenario)


ALLOCATION = {"devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "d0"}]}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("allocate", "claim lab/c got allocated elsewhere in the meantime"),
        ("delete", 'add finalizer to claim lab/c: resourceclaims.resource.k8s.io "c" not found'),
        ("recreate", "claim lab/c got deleted and created again in the meantime"),
    ],
)
async def test_a_claim_that_changed_its_fate_is_an_error_of_the_attempt(change: str, message: str) -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"), slice_("n1", 1), claim("c"), pod("p", "c"))
        decisions = plan(await gather(cluster))
        if change == "allocate":
            current = await cluster.get(ResourceClaim, "c", "lab")
            await cluster.update_status(
                ResourceClaim.from_wire(current.to_wire() | {"status": {"allocation": ALLOCATION}})
            )
        else:
            await cluster.delete(ResourceClaim, "c", "lab")
            if change == "recreate":
                await cluster.create(claim("c"))
        (decision,) = await apply(cluster, decisions, NOW)
        assert isinstance(decision.outcome, Unplaced)
        assert (decision.outcome.reason, decision.outcome.message) == ("SchedulerError", message)
        assert (await cluster.get(Pod, "p", "lab")).spec.node_name is None
        assert (await conditions(cluster, "p"))[0]["reason"] == "SchedulerError"

    await run(scenario)


async def test_a_reservation_is_taken_back_when_the_pod_is_gone() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"), slice_("n1", 1), claim("c"), pod("p", "c"))

        async def delete_pod() -> None:
            await cluster.delete(Pod, "p", "lab")

        cluster.before["bind Pod p"] = delete_pod
        (decision,) = await schedule(cluster, NOW)
        assert isinstance(decision.outcome, Unplaced)
        left = await cluster.get(ResourceClaim, "c", "lab")
        assert left.status.allocation is not None  # stays until somebody deallocates it (C-5.16)
        assert left.status.reserved_for == ()

    await run(scenario)


async def test_an_unusable_allocation_is_given_back_and_the_next_round_succeeds() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"), slice_("n1", 1), claim("c"), pod("p", "c"))
        gone = {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]
        }
        old = {
            "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "gone", "device": "d0"}]},
            "nodeSelector": gone,
        }
        current = await cluster.get(ResourceClaim, "c", "lab")
        await cluster.update_status(ResourceClaim.from_wire(current.to_wire() | {"status": {"allocation": old}}))
        (first,) = await schedule(cluster, NOW)
        assert isinstance(first.outcome, Unplaced)
        assert first.outcome.message == "0/1 nodes are available: 1 resourceclaim not available on the node."
        assert (await cluster.get(ResourceClaim, "c", "lab")).status.allocation is None
        await schedule(cluster, NOW)
        assert (await cluster.get(Pod, "p", "lab")).spec.node_name == "n1"

    await run(scenario)


async def test_a_broken_selector_is_shown_verbatim() -> None:
    async def scenario() -> None:
        broken = claim("c", expression='device.attributes["gpu.example.com"].memory == 1')
        cluster = await cluster_with(node("n1"), slice_("n1", 1), broken, pod("p", "c"))
        await schedule(cluster, NOW)
        (condition,) = await conditions(cluster, "p")
        assert (condition["reason"], condition["message"]) == (
            "SchedulerError",
            "claim lab/c: selector #0 on device gpu.example.com/n1/d0: CEL runtime "
            "error: no such key: memory. consider using CEL optional "
            "chaining (.? followed by orValue()) or guarding the check with has() for optional fields",
        )

    await run(scenario)


async def test_taint_rules_keep_devices_from_being_allocated() -> None:
    async def scenario() -> None:
        rule = DeviceTaintRule.from_wire(
            {
                "metadata": {"name": "r"},
                "spec": {"deviceSelector": {"driver": DRIVER}, "taint": {"key": "k", "effect": "NoSchedule"}},
            }
        )
        cluster = await cluster_with(node("n1"), slice_("n1", 1), claim("c"), pod("p", "c"), rule)
        await schedule(cluster, NOW)
        (condition,) = await conditions(cluster, "p")
        assert condition["message"] == "0/1 nodes are available: 1 cannot allocate all claims."

    await run(scenario)


async def test_finished_bound_and_deleted_pods_are_left_alone() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"))
        await cluster.create(
            Pod.from_wire(
                {**pod("bound").to_wire(), "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}}
            )
        )
        done = await cluster.create(pod("done"))
        await cluster.patch(Pod, done.name, "lab", merge={"status": {"phase": "Succeeded"}}, subresource="status")
        cluster.writes.clear()
        decisions: tuple[SchedulingDecision, ...] = await schedule(cluster, NOW)
        assert (decisions, cluster.writes) == ((), [])

    await run(scenario)
