"""Other writers between the scheduler's reads and writes, and crashes between two of its writes (C-4, C-5, C-21,
C-22)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.controllers.loops.test_scheduler import (
    DRIVER,
    GPU,
    LATER,
    NOW,
    Recorder,
    claim,
    cluster_with,
    conditions,
    node,
    pod,
    run,
    schedule,
    slice_,
)
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import FINALIZER, ResourceClaim
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import Forbidden
from virt_dra.controllers.loops.claims import reconcile
from virt_dra.controllers.loops.scheduler.batch import SchedulingDecision, apply, gather, plan
from virt_dra.scheduling.placement import Placement, Unplaced

REFUSED = 'Operation cannot be fulfilled on pods/binding "p": '


def allocation(pool: str, device: str = "d0", *, node: str | None = None) -> Json:
    there = {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node or pool]}]}]
    }
    return {
        "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": pool, "device": device}]},
        "nodeSelector": there,
    }


async def set_status(cluster: MemoryCluster, name: str, status: Json) -> None:
    current = await cluster.get(ResourceClaim, name, "lab")
    await MemoryCluster.update_status(cluster, ResourceClaim.from_wire(current.to_wire() | {"status": status}))


async def bind_by_hand(cluster: MemoryCluster, name: str, node: str) -> None:
    await MemoryCluster.patch(cluster, Pod, name, "lab", merge={"spec": {"nodeName": node}})


async def reservations(cluster: MemoryCluster, name: str) -> list[str]:
    return [consumer.name for consumer in (await cluster.get(ResourceClaim, name, "lab")).status.reserved_for]


def why(decision: SchedulingDecision) -> tuple[str, str]:
    assert isinstance(decision.outcome, Unplaced), decision.outcome
    return decision.outcome.reason, decision.outcome.message


async def test_a_pod_that_somebody_else_bound_meanwhile_stays_on_its_node() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"), node("n2"), slice_("n1", 1), claim("c"), pod("p", "c"))
        cluster.before["status ResourceClaim c"] = lambda: bind_by_hand(cluster, "p", "n2")
        (decision,) = await schedule(cluster, NOW)
        assert why(decision) == (
            "SchedulerError",
            'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n2"',
        )
        assert (await cluster.get(Pod, "p", "lab")).spec.node_name == "n2"
        assert await conditions(cluster, "p") == []  # it has a node: nothing is unschedulable
        assert await reservations(cluster, "c") == []

    await run(scenario)


async def test_a_pod_bound_between_the_read_and_the_binding_stays_on_its_node() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"), node("n2"), slice_("n1", 1), claim("c"), pod("p", "c"))
        cluster.before["bind Pod p"] = lambda: bind_by_hand(cluster, "p", "n2")
        (decision,) = await schedule(cluster, NOW)
        assert why(decision) == (
            "SchedulerError",
            'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n2"',
        )
        assert (await cluster.get(Pod, "p", "lab")).spec.node_name == "n2"

    await run(scenario)


async def test_a_pod_being_deleted_or_created_again_is_not_bound() -> None:
    async def scenario() -> None:
        held = Pod.from_wire(
            {
                **pod("p", "c").to_wire(),
                "metadata": {"name": "p", "namespace": "lab", "finalizers": ["example.com/hold"]},
            }
        )
        cluster = await cluster_with(node("n1"), slice_("n1", 1), claim("c"), held)
        cluster.before["status ResourceClaim c"] = lambda: cluster.delete(Pod, "p", "lab")
        (decision,) = await schedule(cluster, NOW)
        assert why(decision) == ("SchedulerError", REFUSED + "pod p is being deleted, cannot be assigned to a host")

        cluster = await cluster_with(node("n1"), slice_("n1", 1), claim("c"), pod("p", "c"))

        async def recreate() -> None:
            await cluster.delete(Pod, "p", "lab")
            await cluster.create(pod("p", "c"))

        cluster.before["status ResourceClaim c"] = recreate
        (decision,) = await schedule(cluster, NOW)
        reason, message = why(decision)
        assert reason == "SchedulerError"
        assert message.startswith('Operation cannot be fulfilled on pods "p": StorageError: invalid object')
        assert (await conditions(cluster, "p"), await reservations(cluster, "c")) == ([], [])
        await schedule(cluster, LATER)
        assert (await cluster.get(Pod, "p", "lab")).spec.node_name == "n1"

    await run(scenario)


async def test_a_pod_changed_before_its_binding_is_no_failure_and_keeps_its_conditions() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"), slice_("n1", 1), claim("c"), pod("p", "c"))
        ready: Json = {"type": "Ready", "status": "False"}

        async def label() -> None:
            await MemoryCluster.patch(cluster, Pod, "p", "lab", merge={"metadata": {"labels": {"a": "b"}}})

        async def report() -> None:
            await MemoryCluster.patch(
                cluster, Pod, "p", "lab", merge={"status": {"conditions": [ready]}}, subresource="status"
            )

        cluster.before |= {"bind Pod p": label, "status ResourceClaim c": report}
        (decision,) = await schedule(cluster, NOW)
        assert isinstance(decision.outcome, Placement)
        assert [condition["type"] for condition in await conditions(cluster, "p")] == ["Ready", "PodScheduled"]

    await run(scenario)


async def test_a_claim_allocated_anew_meanwhile_does_not_bind_its_pods_to_the_old_node() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(
            node("n1"), node("n2"), slice_("n1", 1), slice_("n2", 1), claim("c"), pod("p1", "c"), pod("p2", "c")
        )
        decisions = plan(await gather(cluster))
        await set_status(cluster, "c", {"allocation": allocation("n2")})
        told = [why(decision) for decision in await apply(cluster, decisions, NOW)]
        assert told == [("SchedulerError", "claim lab/c got allocated elsewhere in the meantime")] * 2
        await schedule(cluster, LATER)
        assert [(await cluster.get(Pod, name, "lab")).spec.node_name for name in ("p1", "p2")] == ["n2", "n2"]

    await run(scenario)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        ("update ResourceClaim c", "add finalizer to claim lab/c: no"),
        ("status ResourceClaim c", "add allocation and reservation to claim lab/c: no"),
    ],
)
async def test_a_refused_write_is_told_in_the_schedulers_words(write: str, message: str) -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"), slice_("n1", 1), claim("c"), pod("p", "c"))
        cluster.before[write] = refusing
        (decision,) = await schedule(cluster, NOW)
        assert why(decision) == ("SchedulerError", message)
        assert (await conditions(cluster, "p"))[0]["message"] == message
        await schedule(cluster, LATER)
        assert (await cluster.get(Pod, "p", "lab")).spec.node_name == "n1"

    await run(scenario)


async def refusing() -> None:
    raise Forbidden("no")


async def test_a_refused_reservation_and_a_claim_gone_after_a_conflict_are_reported() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"), slice_("n1", 1), claim("c"), pod("p", "c"))
        await set_status(cluster, "c", {"allocation": allocation("n1")})
        cluster.before["status ResourceClaim c"] = refusing
        assert why((await schedule(cluster, NOW))[0]) == ("SchedulerError", "add reservation to claim lab/c: no")

        cluster = await cluster_with(node("n1"), slice_("n1", 1), claim("c"), pod("p", "c"))

        async def change_then_delete() -> None:
            await MemoryCluster.patch(cluster, ResourceClaim, "c", "lab", merge={"metadata": {"labels": {"a": "b"}}})
            reads = iter((0,))
            get = cluster.get

            async def gone(kind: Any, name: str, namespace: str = "") -> Any:
                if kind is ResourceClaim and next(reads, None) is not None:
                    await cluster.delete(ResourceClaim, "c", "lab")
                return await get(kind, name, namespace)

            setattr(cluster, "get", gone)  # noqa: B010 - replacing a method of the instance is what mypy refuses

        cluster.before["update ResourceClaim c"] = change_then_delete
        message = 'get updated claim lab/c after conflict: resourceclaims.resource.k8s.io "c" not found'
        assert why((await schedule(cluster, NOW))[0]) == ("SchedulerError", message)

    await run(scenario)


async def test_a_refused_condition_does_not_keep_other_pods_from_their_nodes() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"), slice_("n1", 1), pod("p1"), pod("p2"))
        cluster.before["patch Pod p1 status"] = refusing
        await schedule(cluster, NOW)
        assert [(await cluster.get(Pod, name, "lab")).spec.node_name for name in ("p1", "p2")] == ["n1", "n1"]

    await run(scenario)


async def test_an_earlier_attempts_reservation_is_released_too_when_the_binding_fails() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"), slice_("n1", 1), claim("c"), pod("p", "c"))
        uid = (await cluster.get(Pod, "p", "lab")).metadata.uid
        await set_status(
            cluster,
            "c",
            {"allocation": allocation("n1"), "reservedFor": [{"resource": "pods", "name": "p", "uid": uid}]},
        )
        cluster.before["bind Pod p"] = refusing
        assert why((await schedule(cluster, NOW))[0]) == ("SchedulerError", "no")
        left = await cluster.get(ResourceClaim, "c", "lab")
        assert (left.status.reserved_for, left.status.allocation is not None) == ((), True)

    await run(scenario)


async def test_releasing_tries_again_when_another_pod_joins_at_that_moment() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"), slice_("n1", 1), claim("c"), pod("p", "c"), pod("q", "c"))
        mine, theirs = [
            {"resource": "pods", "name": n, "uid": (await cluster.get(Pod, n, "lab")).metadata.uid} for n in ("p", "q")
        ]
        await set_status(cluster, "c", {"allocation": allocation("n1"), "reservedFor": [mine]})
        decisions = [decision for decision in plan(await gather(cluster)) if decision.pod.name == "p"]
        cluster.before["bind Pod p"] = refusing
        join = {"allocation": allocation("n1"), "reservedFor": [mine, theirs]}
        cluster.before["status ResourceClaim c"] = lambda: set_status(cluster, "c", join)
        await apply(cluster, decisions, NOW)
        assert await reservations(cluster, "c") == ["q"]

    await run(scenario)


async def test_giving_back_a_claim_that_changed_is_an_error_and_the_claim_is_left_alone() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"), slice_("n1", 1), claim("c"), pod("p", "c"))
        await set_status(cluster, "c", {"allocation": allocation("gone")})
        decisions = plan(await gather(cluster))
        await cluster.create(pod("q", "c"))
        joined = {"resource": "pods", "name": "q", "uid": (await cluster.get(Pod, "q", "lab")).metadata.uid}
        await set_status(cluster, "c", {"allocation": allocation("gone"), "reservedFor": [joined]})
        (decision,) = await apply(cluster, decisions, NOW)
        assert why(decision)[0] == "SchedulerError"
        assert (await conditions(cluster, "p"))[0]["reason"] == "SchedulerError"
        assert await reservations(cluster, "c") == ["q"]

    await run(scenario)


async def test_what_one_pod_gives_back_the_next_pod_of_the_round_gets() -> None:
    async def scenario() -> None:
        wire = pod("p1", "c").to_wire()
        wire["spec"]["nodeSelector"] = {"zone": "b"}
        cluster = await cluster_with(
            node("n1"), Node.from_wire({"metadata": {"name": "n2", "labels": {"zone": "b"}}}), slice_("n1", 1),
            claim("c"), claim("d"), Pod.from_wire(wire), pod("p2", "d"),
        )  # fmt: skip
        await set_status(cluster, "c", {"allocation": allocation("n1")})
        first, second = await schedule(cluster, NOW)
        assert why(first) == ("Unschedulable", EVERYWHERE)
        assert isinstance(second.outcome, Placement)
        assert (await cluster.get(ResourceClaim, "c", "lab")).status.to_wire() == {}
        held = (await cluster.get(ResourceClaim, "d", "lab")).status.allocation
        assert held is not None
        assert [(r.pool, r.device) for r in held.devices.results] == [("n1", "d0")]

    await run(scenario)


EVERYWHERE = (
    "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
    "1 resourceclaim not available on the node."
)


class Crash(Exception):
    """The process ends here."""


class Mortal(Recorder):
    """Dies before a given write."""

    left = 10**9

    async def _note(self, write: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash(write)
        await super()._note(write)


Act = Callable[[MemoryCluster], Awaitable[object]]


async def settle(cluster: MemoryCluster) -> None:
    for _ in range(4):
        await reconcile(cluster)
        await schedule(cluster, NOW)


async def finish(cluster: MemoryCluster) -> None:
    for name in ("p1", "p2"):
        await MemoryCluster.patch(
            cluster, Pod, name, "lab", merge={"status": {"phase": "Succeeded"}}, subresource="status"
        )


async def look(cluster: MemoryCluster) -> Json:
    pods, claims = (await cluster.list(Pod)).items, (await cluster.list(ResourceClaim)).items
    return {
        "pods": {pod.name: pod.spec.node_name for pod in pods},
        # A finalizer without an allocation is harmless (C-22.3) and the only trace that a crash may leave.
        "claims": {
            claim.name: (
                claim.status.to_wire(),
                claim.status.allocation is None or FINALIZER in claim.metadata.finalizers,
            )
            for claim in claims
        },
    }


async def world() -> Mortal:
    cluster = Mortal.deterministic()
    for obj in (GPU, node("n1"), slice_("n1", 3), claim("c"), claim("d"), pod("p1", "c", "d"), pod("p2", "c")):
        await cluster.create(obj)
    return cluster


@pytest.mark.parametrize("stage", ["starting", "finishing"])
async def test_a_crash_before_any_write_ends_in_the_same_state(stage: str) -> None:
    async def story(dies_at: int | None) -> tuple[Json, bool]:
        cluster = await world()
        if stage == "finishing":
            await settle(cluster)
            await finish(cluster)
        died = False
        if dies_at is not None:
            cluster.left = dies_at
            try:
                await settle(cluster)
            except Crash:
                died = True
            cluster.left = 10**9
        await settle(cluster)
        state = await look(cluster)
        cluster.writes.clear()
        await settle(cluster)
        assert cluster.writes == []
        return state, died

    want, _ = await story(None)
    crashes, died = 0, True
    while died:
        state, died = await story(crashes)
        assert state == want, f"crash before write {crashes}"
        crashes += 1
    assert crashes > 4


async def test_two_schedulers_with_the_same_view_converge_without_sharing_a_device() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(
            node("n1"), slice_("n1", 2), claim("c"), claim("d"), pod("p1", "c"), pod("p2", "d"), pod("p3", "c")
        )
        view = await gather(cluster)
        await apply(cluster, plan(view), NOW)
        state = await look(cluster)
        repeated = await apply(cluster, plan(view), LATER)
        assert [type(decision.outcome) for decision in repeated] == [Unplaced] * 3
        assert await look(cluster) == state  # the second takes back nothing of the first's
        assert {(await conditions(cluster, name))[0]["status"] for name in ("p1", "p2", "p3")} == {"True"}

    await run(scenario)


async def test_an_older_allocation_without_a_timestamp_takes_another_consumer_unchanged() -> None:
    async def scenario() -> None:
        cluster = await cluster_with(node("n1"), slice_("n1", 1), claim("c"), pod("p", "c"))
        await set_status(cluster, "c", {"allocation": allocation("n1")})
        await schedule(cluster, NOW)
        held = await cluster.get(ResourceClaim, "c", "lab")
        assert held.status.allocation is not None
        assert held.status.allocation.to_wire() == allocation("n1")  # C-20.16
        assert await reservations(cluster, "c") == ["p"]

    await run(scenario)
