"""The lives of claims on the embedded cluster: made, recorded, reserved, released, deleted (C-10, C-22)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import FINALIZER, ResourceClaim, ResourceClaimTemplate
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import ApiError, Conflict, Forbidden, NotFound
from virt_dra.controllers.loops.claims import ChangeReservations, DeleteClaim, apply, gather, plan, reconcile

REQUESTS: Json = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
TEMPLATE = ResourceClaimTemplate.from_wire(
    {"metadata": {"name": "single-gpu", "namespace": "lab"}, "spec": {"spec": REQUESTS}}
)
ALLOCATION: Json = {
    "devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "node-a", "device": "d0"}]}
}


def pod(name: str = "vm-pod", *claims: Json, node: str | None = None) -> Pod:
    entries = list(claims) or [{"name": "gpu", "resourceClaimTemplateName": "single-gpu"}]
    container = {
        "name": "compute",
        "image": "launcher",
        "resources": {"claims": [{"name": entry["name"]} for entry in entries]},
    }
    spec: Json = {"resourceClaims": entries, "containers": [container], **({"nodeName": node} if node else {})}
    return Pod.from_wire({"metadata": {"name": name, "namespace": "lab"}, "spec": spec})


class Life:
    """A cluster with the template, and short words for what happens to a pod and its claim."""

    def __init__(self, cluster: MemoryCluster | None = None) -> None:
        self.cluster = cluster or MemoryCluster.deterministic()

    async def start(self, *objects: TypedObject) -> None:
        for obj in (TEMPLATE, *objects):
            await self.cluster.create(obj)

    async def pod(self, name: str = "vm-pod") -> Pod:
        return await self.cluster.get(Pod, name, "lab")

    async def claims(self) -> tuple[ResourceClaim, ...]:
        return (await self.cluster.list(ResourceClaim, "lab")).items

    async def recorded(self, name: str = "vm-pod") -> list[Json]:
        return [status.to_wire() for status in (await self.pod(name)).status.resource_claim_statuses]

    async def allocate(self, claim: str, *consumers: str) -> None:
        """As the scheduler does it: the finalizer, then allocation and reservations together."""
        pending = await self.cluster.get(ResourceClaim, claim, "lab")
        protected = await self.cluster.update(pending.with_(metadata=pending.metadata.with_(finalizers=(FINALIZER,))))
        reserved = [
            {"resource": "pods", "name": name, "uid": (await self.pod(name)).metadata.uid} for name in consumers
        ]
        wire = protected.to_wire() | {"status": {"allocation": ALLOCATION, "reservedFor": reserved}}
        await self.cluster.update_status(ResourceClaim.from_wire(wire))

    async def finish(self, name: str = "vm-pod") -> None:
        await self.cluster.patch(Pod, name, "lab", merge={"status": {"phase": "Succeeded"}}, subresource="status")

    async def settled(self) -> bool:
        return not plan(await gather(self.cluster)).actions


async def test_a_claim_is_made_and_recorded_and_then_nothing_is_left_to_do() -> None:
    it = Life()
    await it.start(pod())
    assert await reconcile(it.cluster) == ()
    (claim,) = await it.claims()
    assert claim.name.startswith("vm-pod-gpu-")
    assert claim.spec.to_wire() == {"devices": {"requests": [_defaulted(REQUESTS["devices"]["requests"][0])]}}
    assert claim.metadata.annotations == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    uid = (await it.pod()).metadata.uid
    owners = [owner.to_wire() for owner in claim.metadata.owner_references]
    assert owners == [{"apiVersion": "v1", "kind": "Pod", "name": "vm-pod", "uid": uid, "controller": True}]
    assert await it.recorded() == [{"name": "gpu", "resourceClaimName": claim.name}]
    version = it.cluster.resource_version
    assert await reconcile(it.cluster) == ()
    assert it.cluster.resource_version == version


def _defaulted(request: Json) -> Json:
    return {**request, "exactly": {**request["exactly"], "allocationMode": "ExactCount", "count": 1}}


async def test_after_a_crash_between_creating_and_recording_the_claim_is_found_again() -> None:
    it = Life()
    await it.start(pod())
    assert await apply(it.cluster, plan(await gather(it.cluster)).actions) == ()
    assert await it.recorded() == []
    assert await reconcile(it.cluster) == ()
    (claim,) = await it.claims()
    assert await it.recorded() == [{"name": "gpu", "resourceClaimName": claim.name}]


async def test_a_missing_template_is_told_until_it_is_there() -> None:
    it = Life()
    await it.cluster.create(pod())
    (event,) = await reconcile(it.cluster, "lab")
    assert (event.kind, event.name, event.type, event.reason, event.retry) == (
        "Pod",
        "vm-pod",
        "Warning",
        "FailedResourceClaimCreation",
        True,
    )
    assert event.message == (
        'PodResourceClaim gpu: resource claim template "single-gpu": '
        'resourceclaimtemplate.resource.k8s.io "single-gpu" not found'
    )
    await it.cluster.create(TEMPLATE)
    assert await reconcile(it.cluster, "lab") == ()
    assert len(await it.recorded()) == 1


async def test_the_generated_claim_of_a_finished_pod_is_released_and_deleted() -> None:
    it = Life()
    await it.start(pod())
    await reconcile(it.cluster)
    (claim,) = await it.claims()
    await it.allocate(claim.name, "vm-pod")
    assert await it.settled()
    await it.finish()
    assert await reconcile(it.cluster) == ()
    assert await it.claims() == ()


async def test_a_direct_claim_is_pending_again_once_its_last_pod_is_gone() -> None:
    it = Life()
    direct = {"name": "gpu", "resourceClaimName": "shared"}
    shared = ResourceClaim.from_wire({"metadata": {"name": "shared", "namespace": "lab"}, "spec": REQUESTS})
    await it.start(shared, pod("one", direct), pod("two", direct))
    await it.allocate("shared", "one", "two")
    await it.finish("one")
    await reconcile(it.cluster)
    (claim,) = await it.claims()
    assert [consumer.name for consumer in claim.status.reserved_for] == ["two"]
    assert claim.status.allocation is not None
    await it.cluster.delete(Pod, "two", "lab")
    await reconcile(it.cluster)
    (claim,) = await it.claims()
    assert (claim.status.reserved_for, claim.status.allocation, claim.metadata.finalizers) == ((), None, ())
    assert await it.recorded("one") == []


async def test_deleting_a_claim_waits_for_its_pod_and_then_goes_through() -> None:
    it = Life()
    shared = ResourceClaim.from_wire({"metadata": {"name": "shared", "namespace": "lab"}, "spec": REQUESTS})
    await it.start(shared, pod("one", {"name": "gpu", "resourceClaimName": "shared"}, node="node-a"))
    await it.allocate("shared", "one")
    await it.cluster.delete(ResourceClaim, "shared", "lab")
    assert await it.settled()
    await it.finish("one")
    await reconcile(it.cluster)
    assert await it.claims() == ()


async def test_a_claim_that_is_allocated_but_not_used_can_be_deleted() -> None:
    it = Life()
    await it.start(ResourceClaim.from_wire({"metadata": {"name": "shared", "namespace": "lab"}, "spec": REQUESTS}))
    await it.allocate("shared")
    assert await it.settled()
    await it.cluster.delete(ResourceClaim, "shared", "lab")
    await reconcile(it.cluster)
    assert await it.claims() == ()


async def test_a_pod_bound_by_hand_gets_its_allocated_claim_reserved() -> None:
    it = Life()
    shared = ResourceClaim.from_wire({"metadata": {"name": "shared", "namespace": "lab"}, "spec": REQUESTS})
    await it.start(shared, pod("bound", {"name": "gpu", "resourceClaimName": "shared"}, node="node-a"))
    assert await it.settled(), "an unallocated claim is never allocated here"
    await it.allocate("shared")
    await reconcile(it.cluster)
    (claim,) = await it.claims()
    uid = (await it.pod("bound")).metadata.uid
    assert [consumer.to_wire() for consumer in claim.status.reserved_for] == [
        {"resource": "pods", "name": "bound", "uid": uid}
    ]


async def test_a_pod_created_again_under_its_name_gets_a_claim_of_its_own() -> None:
    it = Life()
    await it.start(pod())
    await reconcile(it.cluster)
    (old,) = await it.claims()
    await it.allocate(old.name, "vm-pod")
    await it.cluster.delete(Pod, "vm-pod", "lab")
    await it.cluster.create(pod())
    await reconcile(it.cluster)
    (new,) = await it.claims()
    assert new.metadata.uid != old.metadata.uid
    assert new.metadata.owner_references[0].uid == (await it.pod()).metadata.uid
    assert await it.recorded() == [{"name": "gpu", "resourceClaimName": new.name}]


def refuse(error: ApiError) -> Callable[..., Awaitable[None]]:
    async def refusing(*_: object, **__: object) -> None:
        raise error

    return refusing


async def test_a_refused_creation_is_told_and_the_pods_other_claims_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Life()
    entries = [{"name": name, "resourceClaimTemplateName": "single-gpu"} for name in ("a", "b")]
    await it.start(pod("vm-pod", *entries))
    with monkeypatch.context() as patched:
        patched.setattr(it.cluster, "create", refuse(Forbidden("exceeded quota: gpus")))
        (event,) = await reconcile(it.cluster)
    assert (event.reason, event.message) == (
        "FailedResourceClaimCreation",
        "PodResourceClaim a: create ResourceClaim : exceeded quota: gpus",
    )
    assert await it.claims() == ()
    assert await reconcile(it.cluster) == ()
    assert len(await it.recorded()) == 2


@pytest.mark.parametrize(
    ("method", "error", "told"),
    [
        (
            "patch",
            Forbidden("no"),
            [("FailedResourceClaimStatusUpdate", "update pod lab/vm-pod ResourceClaimStatuses: no")],
        ),
        ("patch", Conflict("changed"), []),
        ("patch", NotFound("gone"), []),
    ],
)
async def test_a_refused_record_is_told_unless_the_pod_changed(
    monkeypatch: pytest.MonkeyPatch, method: str, error: ApiError, told: list[tuple[str, str]]
) -> None:
    it = Life()
    await it.start(pod())
    await apply(it.cluster, plan(await gather(it.cluster)).actions)
    monkeypatch.setattr(it.cluster, method, refuse(error))
    events = await apply(it.cluster, plan(await gather(it.cluster)).actions)
    assert [(event.reason, event.message) for event in events] == told


@pytest.mark.parametrize(
    ("method", "reason", "message"),
    [
        ("update_status", "FailedResourceClaimReservation", "reserve claim {claim}: no"),
        ("update", "FailedResourceClaimReservation", "reserve claim {claim}: no"),
        ("delete", "FailedResourceClaimRelease", "delete unused generated claim lab/{claim}: no"),
    ],
)
async def test_a_refused_release_is_told(
    monkeypatch: pytest.MonkeyPatch, method: str, reason: str, message: str
) -> None:
    it = Life()
    await it.start(pod())
    await reconcile(it.cluster)
    (claim,) = await it.claims()
    await it.allocate(claim.name, "vm-pod")
    await it.finish()
    monkeypatch.setattr(it.cluster, method, refuse(Forbidden("no")))
    (event,) = await reconcile(it.cluster)
    assert (event.kind, event.reason, event.message) == ("ResourceClaim", reason, message.format(claim=claim.name))


class Interrupted(MemoryCluster):
    """Another writer acts once, just before a status write or right after a list."""

    before_status: Callable[[], Awaitable[object]] | None = None
    after_list: Callable[[type[TypedObject]], Awaitable[object]] | None = None

    async def update_status(self, obj: Any) -> Any:
        act, self.before_status = self.before_status, None
        if act is not None:
            await act()
        return await super().update_status(obj)

    async def list(self, kind: Any, namespace: str = "", **how: Any) -> Any:
        listed = await super().list(kind, namespace, **how)
        if self.after_list is not None:
            await self.after_list(kind)
        return listed


async def test_a_claim_that_gets_a_new_consumer_while_it_is_released_is_not_deleted() -> None:
    cluster = Interrupted.deterministic()
    it = Life(cluster)
    await it.start(pod())
    await reconcile(cluster)
    (claim,) = await it.claims()
    await it.allocate(claim.name, "vm-pod")
    await it.finish()
    actions = plan(await gather(cluster)).actions
    assert [type(action) for action in actions] == [ChangeReservations, DeleteClaim]
    await cluster.create(pod("other", {"name": "gpu", "resourceClaimName": claim.name}, node="node-a"))

    async def join() -> None:
        other = {"resource": "pods", "name": "other", "uid": (await it.pod("other")).metadata.uid}
        current = await cluster.get(ResourceClaim, claim.name, "lab")
        status = current.status.to_wire()
        joined = {**status, "reservedFor": [*status["reservedFor"], other]}
        await cluster.update_status(ResourceClaim.from_wire(current.to_wire() | {"status": joined}))

    cluster.before_status = join
    assert await apply(cluster, actions) == ()
    (kept,) = await it.claims()
    assert kept.metadata.deletion_timestamp is None
    await reconcile(cluster)
    (kept,) = await it.claims()
    assert [consumer.name for consumer in kept.status.reserved_for] == ["other"]


async def test_the_consumers_of_a_claim_younger_than_the_list_of_pods_are_not_dropped() -> None:
    cluster = Interrupted.deterministic()
    it = Life(cluster)
    await it.start(pod("early", {"name": "gpu", "resourceClaimTemplateName": "single-gpu"}))

    async def meanwhile(kind: type[TypedObject]) -> None:
        if kind is ResourceClaim:  # recorded for the pod after the claims were listed
            await cluster.create(
                ResourceClaim.from_wire({"metadata": {"name": "late", "namespace": "lab"}, "spec": REQUESTS})
            )
            recorded = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "late"}]}}
            await cluster.patch(Pod, "early", "lab", merge=recorded, subresource="status")
        if kind is Pod:  # used by a pod created after the pods were listed
            cluster.after_list = None
            await cluster.create(pod("young", {"name": "gpu", "resourceClaimName": "late"}, node="node-a"))
            await it.allocate("late", "young")

    cluster.after_list = meanwhile
    seen = await gather(cluster)
    assert [claim.name for claim in seen.claims] == ["late"]
    assert not [action for action in plan(seen).actions if isinstance(action, ChangeReservations)]


async def test_a_claim_found_again_is_reserved_in_the_pass_that_records_it() -> None:
    it = Life()
    await it.start(pod(node="node-a"))
    await apply(it.cluster, plan(await gather(it.cluster)).actions)
    (own,) = await it.claims()
    await it.allocate(own.name)
    await it.cluster.create(
        ResourceClaim.from_wire({"metadata": {"name": "foreign", "namespace": "lab"}, "spec": REQUESTS})
    )
    stale = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "foreign"}]}}
    await it.cluster.patch(Pod, "vm-pod", "lab", merge=stale, subresource="status")
    planned = plan(await gather(it.cluster))
    assert planned.events == ()
    await apply(it.cluster, planned.actions)
    assert await it.recorded() == [{"name": "gpu", "resourceClaimName": own.name}]
    reserved = (await it.cluster.get(ResourceClaim, own.name, "lab")).status.reserved_for
    assert [consumer.name for consumer in reserved] == ["vm-pod"]
    assert await it.settled()


async def test_an_entry_recorded_as_not_needed_stays_so_when_other_names_are_recorded() -> None:
    it = Life()
    await it.start(
        pod("vm-pod", *({"name": name, "resourceClaimTemplateName": "single-gpu"} for name in ("z", "none")))
    )
    unneeded = {"status": {"resourceClaimStatuses": [{"name": "none"}]}}
    await it.cluster.patch(Pod, "vm-pod", "lab", merge=unneeded, subresource="status")
    assert await reconcile(it.cluster) == ()
    (claim,) = await it.claims()
    assert await it.recorded() == [{"name": "none"}, {"name": "z", "resourceClaimName": claim.name}]
