"""Claims of PodGroups, and the groups' protection (C-9, C-10.8, C-10.9)."""

from __future__ import annotations

from dataclasses import replace

from tests.controllers.loops.claims.claim_world import ENTRY, GROUPS, ClaimWorld, claim, group, pod, story, template
from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.scheduling_v1 import POD_GROUP_FINALIZER, PodGroup
from virt_dra.api.wire import Json

DIRECT: Json = {"name": "gpu", "resourceClaimName": "shared"}


def test_a_group_has_one_claim_that_its_pods_name() -> None:
    """C-10.8, C-10.5.3"""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template(), group(), pod("a", group="g"), pod("b", group="g"))
        (made,) = await it.claims()
        owner = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "g", "controller": True}
        uid = (await it.group()).metadata.uid
        assert [reference.to_wire() for reference in made.metadata.owner_references] == [{**owner, "uid": uid}]
        assert made.metadata.generate_name == "g-gpu-"
        named = [{"name": "gpu", "resourceClaimName": made.name}]
        assert [status.to_wire() for status in (await it.group()).status.resource_claim_statuses] == named
        assert (await it.recorded("a"), await it.recorded("b")) == (named, named)

    story(told, gates=GROUPS)


def test_pods_that_come_before_their_group_wait_for_it() -> None:
    """C-10.4: a missing PodGroup is retried, without an Event; C-10.1: a PodGroup re-evaluates its pods."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template(), pod("a", group="g"))
        assert (await it.claims(), await it.world.events()) == ([], [])
        await it.world.create(group())
        assert len(await it.claims()) == 1
        assert len(await it.recorded("a")) == 1

    story(told, gates=GROUPS)


def test_an_entry_that_the_group_does_not_share_is_the_pods_own() -> None:
    """C-3.5, C-10.5"""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template(), group(), pod("a", ENTRY, ENTRY | {"name": "own"}, group="g"))
        assert [claim.metadata.generate_name for claim in await it.claims()] == ["a-own-", "g-gpu-"]

    story(told, gates=GROUPS)


def test_a_missing_template_is_reported_on_the_group() -> None:
    """C-10.8"""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(group())
        assert await it.claims() == []
        why = (
            'PodGroupResourceClaim gpu: resource claim template "t": '
            'resourceclaimtemplate.resource.k8s.io "t" not found'
        )
        assert await it.world.events() == [("PodGroup/g", "Warning", "FailedResourceClaimCreation", why)]

    story(told, gates=GROUPS)


def test_when_one_claim_of_a_group_is_made_again_the_names_of_the_others_stay() -> None:
    """C-10.8: Kubernetes applies only the new name, which takes the others away (docs/decisions/0010)."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template(), group("g", ENTRY, ENTRY | {"name": "nic"}))
        first, _ = await it.claims()
        await it.cluster.delete(ResourceClaim, first.name, "lab")
        names = {
            claim.metadata.annotations["resource.kubernetes.io/pod-claim-name"]: claim.name
            for claim in await it.claims()
        }
        recorded = {
            status.name: status.resource_claim_name for status in (await it.group()).status.resource_claim_statuses
        }
        assert recorded == names
        assert set(names) == {"gpu", "nic"}

    story(told, gates=GROUPS)


def test_the_reservation_of_a_group_lasts_as_long_as_the_group() -> None:
    """C-10.9: without the check whether its pods are done."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(claim(), group("g", DIRECT), pod("a", DIRECT, node="n", group="g"))
        await it.allocate("shared", await it.group())
        await it.finish("a")
        assert await it.reserved("shared") == ["g"]
        await it.cluster.delete(PodGroup, "g", "lab")
        (freed,) = await it.claims()
        assert (freed.status.to_wire(), freed.metadata.finalizers) == ({}, ())

    story(told, gates=GROUPS)


def test_a_bound_pod_of_a_group_reserves_the_claim_for_the_group() -> None:
    """C-10.7, C-3.5"""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(claim(), group("g", DIRECT), pod("other", DIRECT, node="n"))
        await it.allocate("shared", await it.pod("other"))
        await it.world.create(pod("a", DIRECT, node="n", group="g"), pod("b", DIRECT, node="n", group="g"))
        assert await it.reserved("shared") == ["other", "g"]

    story(told, gates=GROUPS)


def test_reservations_of_groups_are_not_ours_to_drop_without_the_gate() -> None:
    """C-10.9"""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(claim())
        gone = PodGroup.from_wire({"metadata": {"name": "gone", "namespace": "lab", "uid": "u"}})
        await it.allocate("shared", gone)
        assert await it.reserved("shared") == ["gone"]

    story(told, gates=replace(GROUPS, workload_resource_claims=False))


def test_the_claim_of_a_group_goes_with_the_group() -> None:
    """C-10.8, C-10.10: garbage collection marks it, the controller lets it go."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(template(), group(), pod("a", node="n", group="g"))
        (made,) = await it.claims()
        await it.allocate(made.name, await it.group())
        await it.cluster.delete(PodGroup, "g", "lab")
        assert [claim.name for claim in await it.claims()] == [made.name]
        await it.finish("a")
        assert await it.claims() == []
        assert (await it.cluster.list(PodGroup, "lab")).items == ()

    story(told, gates=GROUPS)


def test_a_group_that_is_deleted_stays_until_its_last_pod_is_done() -> None:
    """The finalizer of the admission plugin PodGroupProtection, and its controller."""

    async def told(it: ClaimWorld) -> None:
        await it.world.create(
            claim(), group("g", DIRECT), pod("a", DIRECT, node="n", group="g"), pod("b", DIRECT, group="g")
        )
        await it.cluster.delete(PodGroup, "g", "lab")
        await it.finish("a")
        await it.world.calm()
        assert (await it.group()).metadata.finalizers == (POD_GROUP_FINALIZER,)
        await it.cluster.delete(Pod, "b", "lab")
        await it.world.calm()
        assert (await it.cluster.list(PodGroup, "lab")).items == ()

    story(told, gates=GROUPS)
