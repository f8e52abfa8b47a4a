"""The claim controller as a loop (C-10): what a real control plane's does, seen from the objects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controllers.loops.claims.claim_world import (
    ALLOCATION,
    ENTRY,
    ClaimWorld,
    claim,
    extended_claim,
    pod,
    reference,
    running,
    story,
    template,
)
from tests.controllers.loops.loop_world import play
from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import FINALIZER, ResourceClaim
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import Conflict, Forbidden, NotFound

DIRECT: Json = {"name": "gpu", "resourceClaimName": "shared"}
NO_TEMPLATE = 'resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'


def test_a_pod_gets_its_claim_from_the_template_and_its_name_in_status() -> None:
    """C-10.1, C-10.5, C-10.6"""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template(), pod())
        (made,) = await it.claims()
        assert made.metadata.generate_name == "p-gpu-"
        assert await it.recorded() == [{"name": "gpu", "resourceClaimName": made.name}]

    story(told)


def test_a_template_that_comes_later_lets_a_waiting_pod_go_on() -> None:
    """C-10.1, C-22.9: a template re-evaluates the pods that name it. C-10.4: the Event."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(pod())
        assert await it.claims() == []
        assert await it.world.events() == [
            ("Pod/p", "Warning", "FailedResourceClaimCreation", f"PodResourceClaim gpu: {NO_TEMPLATE}")
        ]
        await it.world.create(template())
        assert len(await it.claims()) == 1

    story(told)


def test_the_claims_before_the_one_that_fails_are_made() -> None:
    """C-10.4: in order, the first error stops; what was made is found again."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template())
        await it.world.create(pod("p", ENTRY, {"name": "nic", "resourceClaimTemplateName": "u"}))
        assert [claim.metadata.generate_name for claim in await it.claims()] == ["p-gpu-"]
        assert await it.recorded() == []
        await it.world.create(template("u"))
        assert [claim.metadata.generate_name for claim in await it.claims()] == ["p-gpu-", "p-nic-"]
        assert [status["name"] for status in await it.recorded()] == ["gpu", "nic"]

    story(told)


def test_a_claim_that_somebody_deletes_is_made_again_for_a_pending_pod() -> None:
    """C-10.5.1"""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template(), pod())
        (first,) = await it.claims()
        await it.cluster.delete(ResourceClaim, first.name, "lab")
        (second,) = await it.claims()
        assert second.metadata.uid != first.metadata.uid
        assert await it.recorded() == [{"name": "gpu", "resourceClaimName": second.name}]

    story(told)


def test_a_finished_pod_gives_its_generated_claim_back() -> None:
    """C-10.2, C-10.10, C-10.12"""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template(), pod("p", node="n"))
        (made,) = await it.claims()
        await it.allocate(made.name, await it.pod())
        await it.finish()
        assert await it.claims() == []

    story(told)


def test_a_direct_claim_is_free_again_after_its_last_pod() -> None:
    """C-10.10, C-10.15: one consumer after the other, in order; C-22: pending again."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(
            claim(), pod("a", DIRECT, node="n"), pod("b", DIRECT, node="n"), pod("c", DIRECT, node="n")
        )
        await it.allocate("shared", await it.pod("a"), await it.pod("b"), await it.pod("c"))
        await it.finish("b")
        assert await it.reserved("shared") == ["a", "c"]
        await it.cluster.delete(Pod, "a", "lab")
        assert await it.reserved("shared") == ["c"]
        await it.finish("c", "Failed")
        (freed,) = await it.claims()
        assert (freed.status.to_wire(), freed.metadata.finalizers) == ({}, ())

    story(told)


def test_a_scheduled_pod_that_is_being_deleted_keeps_its_claim_until_it_is_gone() -> None:
    """C-10.2"""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(claim(), pod("p", DIRECT, node="n", finalizers=["example.com/wait"]))
        await it.allocate("shared", await it.pod())
        await it.cluster.delete(Pod, "p", "lab")
        assert await it.reserved("shared") == ["p"]
        await it.cluster.patch(Pod, "p", "lab", merge={"metadata": {"finalizers": []}})
        assert await it.reserved("shared") == []

    story(told)


def test_a_pod_bound_by_others_gets_its_claim_reserved_and_no_allocation() -> None:
    """C-10.7, C-10.3"""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(claim(), claim("idle"), pod("first", DIRECT, node="n"))
        await it.allocate("shared", await it.pod("first"))
        await it.world.create(pod("p", DIRECT, {"name": "idle", "resourceClaimName": "idle"}, node="n"))
        assert await it.reserved("shared") == ["first", "p"]
        assert (await it.cluster.get(ResourceClaim, "idle", "lab")).status.to_wire() == {}

    story(told)


def test_a_finished_pod_is_not_reserved_again_while_others_keep_the_claim() -> None:
    """docs/decisions/0010: Kubernetes reserves and releases such a claim without end (C-10.3, C-10.7, C-10.9)."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(claim(), pod("runs", DIRECT, node="n"), pod("p", DIRECT, node="n"))
        await it.allocate("shared", await it.pod("runs"), await it.pod())
        await it.finish()
        assert await it.reserved("shared") == ["runs"]
        version = it.cluster.resource_version
        await it.world.calm(600)
        assert it.cluster.resource_version == version

    story(told)


def test_reservations_of_unknown_and_replaced_pods_are_dropped_others_stay() -> None:
    """C-10.9: unknown pods after a look at the cluster, another UID, foreign consumers; C-10.14: all claims are looked
    at after a start."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(claim(), pod("p", DIRECT))
        await it.allocate("shared", await it.pod())
        current = await it.cluster.get(ResourceClaim, "shared", "lab")
        foreign = {"apiGroup": "example.com", "resource": "jobs", "name": "j", "uid": "j1"}
        reserved = [
            reference(await it.pod()),
            {"resource": "pods", "name": "gone", "uid": "x"},
            {"resource": "pods", "name": "p", "uid": "y"},
        ]
        status = {"allocation": ALLOCATION, "reservedFor": [*reserved, foreign]}
        await it.cluster.update_status(ResourceClaim.from_wire(current.to_wire() | {"status": status}))
        await it.world.calm()
        left = (await it.cluster.get(ResourceClaim, "shared", "lab")).status.reserved_for
        assert [(consumer.resource, consumer.name) for consumer in left] == [("pods", "p"), ("jobs", "j")]

    story(told)


def test_a_pod_on_a_node_keeps_its_devices_when_its_reservation_is_lost() -> None:
    """C-10.7, C-10.10: as measured; the reservation comes back before the stale one goes."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(claim(), pod("p", DIRECT, node="n"))
        await it.allocate("shared", await it.pod())
        lost = {"status": {"reservedFor": [{"resource": "pods", "name": "nobody", "uid": "x"}]}}
        await it.cluster.patch(ResourceClaim, "shared", "lab", merge=lost, subresource="status")
        assert await it.reserved("shared") == ["p"]

    story(told)


def test_an_allocated_claim_that_was_never_reserved_is_left_alone() -> None:
    """C-10.13, C-10.11, C-13.10"""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(claim())
        await it.allocate("shared")
        (kept,) = await it.claims()
        assert kept.status.allocation is not None
        assert kept.metadata.finalizers == (FINALIZER,)
        await it.cluster.delete(ResourceClaim, "shared", "lab")
        assert await it.claims() == []

    story(told)


def test_deleting_a_claim_in_use_waits_for_the_pod() -> None:
    """C-10.11, C-22.6"""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(claim(), pod("p", DIRECT, node="n"))
        await it.allocate("shared", await it.pod())
        await it.cluster.delete(ResourceClaim, "shared", "lab")
        (waiting,) = await it.claims()
        assert waiting.status.allocation is not None
        await it.finish()
        assert await it.claims() == []

    story(told)


def test_the_extended_claim_of_a_finished_pod_is_released_and_deleted() -> None:
    """C-7.11, C-10.12"""

    async def told(it: ClaimWorld) -> None:
        bare = Pod.from_wire(
            {
                "metadata": {"name": "p", "namespace": "lab"},
                "spec": {
                    "nodeName": "n",
                    "containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}],
                },
            }
        )
        running = await it.world.create(bare)
        assert isinstance(running, Pod)
        special = await it.world.create(extended_claim(running))
        mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
        await it.status(
            "p", extendedResourceClaimStatus={"requestMappings": [mapping], "resourceClaimName": special.name}
        )
        await it.allocate(special.name, running)
        assert len(await it.claims()) == 1
        await it.finish()
        assert await it.claims() == []

    story(told)


def test_a_claim_made_for_a_pod_that_never_ran_goes_with_it() -> None:
    """C-10.2, C-10.12: deleted before it got a node, and kept by a finalizer."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template(), pod("p", finalizers=["example.com/wait"]))
        assert len(await it.claims()) == 1
        await it.cluster.delete(Pod, "p", "lab")
        assert await it.claims() == []

    story(told)


def test_the_claim_of_a_replaced_pod_is_not_used_by_its_namesake() -> None:
    """C-10.14, C-22.5: UIDs protect against names that are used again; C-10.5.1"""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template(), pod())
        (first,) = await it.claims()
        await it.cluster.delete(Pod, "p", "lab")
        await it.world.create(pod())
        (second,) = await it.claims()
        assert second.metadata.uid != first.metadata.uid
        assert second.metadata.owner_references[0].uid == (await it.pod()).metadata.uid

    story(told)


def test_a_pod_in_a_group_without_the_gate_gets_nothing_and_no_event() -> None:
    """C-10.4: not retried. The API server of such a cluster drops the field; here one came from before."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template())
        it.cluster.load([pod("p", group="g")])
        await it.world.calm(60)
        assert (await it.claims(), await it.world.events()) == ([], [])

    story(told)


def test_a_claim_that_was_never_recorded_goes_with_its_finished_pod() -> None:
    """C-20.20: as a crash between two writes leaves it."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template(), pod("p", node="n"))
        (recorded,) = await it.claims()
        twin = recorded.with_(metadata=recorded.metadata.with_(name="twin", resource_version="", uid=""), status={})
        await it.cluster.create(ResourceClaim.from_wire(twin.without("status").to_wire()))
        assert len(await it.claims()) == 2
        await it.finish()
        assert await it.claims() == []

    story(told)


def test_a_finalizer_without_an_allocation_goes_when_the_claim_is_deleted() -> None:
    """C-22.3, C-10.11: a scheduler died between its two writes."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(claim())
        await it.cluster.patch(ResourceClaim, "shared", "lab", merge={"metadata": {"finalizers": [FINALIZER]}})
        (kept,) = await it.claims()
        assert kept.metadata.finalizers == (FINALIZER,)
        await it.cluster.delete(ResourceClaim, "shared", "lab")
        assert await it.claims() == []

    story(told)


def test_a_pod_deleted_by_force_frees_its_claim_at_once() -> None:
    """C-22.11: whatever still runs on the node."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(claim(), pod("p", DIRECT, node="n"))
        await it.allocate("shared", await it.pod())
        await it.cluster.delete(Pod, "p", "lab", grace_seconds=0)
        (freed,) = await it.claims()
        assert (freed.status.to_wire(), freed.metadata.finalizers) == ({}, ())

    story(told)


def test_a_pod_on_another_node_than_its_claim_gets_it_reserved_all_the_same() -> None:
    """C-22.18: the controller doesn't ask for the node."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(claim(), pod("first", DIRECT, node="n"))
        await it.allocate("shared", await it.pod("first"))
        await it.world.create(pod("p", DIRECT, node="far-away"))
        assert await it.reserved("shared") == ["first", "p"]

    story(told)


def test_what_happened_while_no_controller_ran_is_made_up_for() -> None:
    """C-10.14, C-22.15: all claims and pods arrive as new; consumers that nobody knows any more are looked up."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template(), claim(), pod("p", ENTRY, node="n"), pod("q", DIRECT, node="n"))
        async with running(it):
            made, _ = await it.claims()
            await it.allocate(made.name, await it.pod("p"))
            await it.allocate("shared", await it.pod("q"))
        await it.finish("p")
        await it.cluster.delete(Pod, "q", "lab")
        await it.world.create(pod("r"))
        async with running(it):
            left = {claim.metadata.generate_name or claim.name: claim.status.to_wire() for claim in await it.claims()}
            assert left == {"shared": {}, "r-gpu-": {}}

    play(lambda world: told(ClaimWorld(world)))


class Between:
    """A cluster that answers some writes with an error first."""

    def __init__(self, cluster: MemoryCluster, verb: str, *errors: Exception) -> None:
        self._cluster, self._verb, self._errors = cluster, verb, list(errors)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._cluster, name)
        if name != self._verb or not self._errors:
            return method

        async def refusing(*args: Any, **kwargs: Any) -> Any:
            if self._errors:
                raise self._errors.pop(0)
            return await method(*args, **kwargs)

        return refusing


@pytest.mark.parametrize("verb", ["create", "patch", "update_status", "update", "delete"])
@pytest.mark.parametrize("error", [Conflict("changed"), NotFound("not there yet")], ids=["conflict", "not found"])
def test_a_write_that_is_refused_once_is_tried_again(verb: str, error: Exception) -> None:
    """C-21, C-10: level-triggered, whatever write fails."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template(), claim(), pod("p", ENTRY, DIRECT | {"name": "other"}, node="n"))
        (made, _) = await it.claims()
        await it.allocate(made.name, await it.pod())
        await it.allocate("shared", await it.pod())
        await it.finish()
        (left,) = await it.claims()
        assert (left.name, left.status.to_wire(), left.metadata.finalizers) == ("shared", {}, ())

    story(told, between=lambda cluster: Between(cluster, verb, error))


def test_a_refused_claim_is_reported_on_the_pod_and_tried_again() -> None:
    """C-10.4, C-15.6: exceeding a quota, for one."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template(), pod())
        assert len(await it.claims()) == 1
        refusal = "PodResourceClaim gpu: create ResourceClaim : exceeded quota"
        assert await it.world.events() == [("Pod/p", "Warning", "FailedResourceClaimCreation", refusal)]
        labels = it.world.metrics.counters
        assert labels["dynamic_resource_allocation_resourceclaim_creates_total"] == 2  # C-10.16
        assert it.world.metrics.gauges["dynamic_resource_allocation_resource_claims"] == 1

    story(told, between=lambda cluster: Between(cluster, "create", Forbidden("exceeded quota")))


class BlindWatch(Between):
    """A cluster whose watch of claims never reports a claim; only lists do."""

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster, "")

    async def watch(self, kind: type[Any], *args: Any, **kwargs: Any) -> Any:
        async for event in self._cluster.watch(kind, *args, **kwargs):
            if kind is not ResourceClaim:
                yield event


def test_a_claim_that_the_watch_has_not_shown_yet_is_not_made_twice() -> None:
    """C-10.5.1, C-22.7: a memory of created claims, and a look at the cluster."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template(), pod())
        for number in range(100):
            await it.cluster.patch(Pod, "p", "lab", merge={"metadata": {"labels": {"n": str(number)}}})
            await it.world.calm(5)
        assert len(await it.claims()) == 1

    story(told, between=BlindWatch)
