"""Pods, groups, claims and what other components do to them, for tests of the claim controller as a loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from tests.controllers.loops.loop_world import LoopWorld, play
from virt_dra.api.core_v1 import Pod
from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.api.resource_v1 import EXTENDED_RESOURCE_CLAIM_ANNOTATION, FINALIZER, ResourceClaim, ResourceClaimTemplate
from virt_dra.api.scheduling_v1 import PodGroup
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import counted_suffixes
from virt_dra.cluster.port import Cluster
from virt_dra.simulator.control_plane import LOOPS as KINDS_OF_LOOPS
from virt_dra.simulator.control_plane import AmbientSources, control_plane
from virt_dra.simulator.virtual_time import virtual_now

T = TypeVar("T")

GROUPS = replace(PLAIN, generic_workload=True, workload_resource_claims=True)
LOOPS = ("resource claims",)
GROUP_LOOPS = ("resource claims", "pod group protection")
SPEC: Json = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
ALLOCATION: Json = {
    "devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "n", "device": "d0"}]}
}
ENTRY: Json = {"name": "gpu", "resourceClaimTemplateName": "t"}


def template(name: str = "t") -> ResourceClaimTemplate:
    return ResourceClaimTemplate.from_wire({"metadata": {"name": name, "namespace": "lab"}, "spec": {"spec": SPEC}})


def claim(name: str = "shared") -> ResourceClaim:
    return ResourceClaim.from_wire({"metadata": {"name": name, "namespace": "lab"}, "spec": SPEC})


def pod(name: str = "p", *entries: Json, node: str = "", group: str = "", **meta: Any) -> Pod:
    entries = entries or (ENTRY,)
    spec: Json = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": list(entries)}
    spec |= {"nodeName": node} if node else {}
    spec |= {"schedulingGroup": {"podGroupName": group}} if group else {}
    return Pod.from_wire({"metadata": {"name": name, "namespace": "lab", **meta}, "spec": spec})


def group(name: str = "g", *entries: Json) -> PodGroup:
    spec: Json = {"schedulingPolicy": {"basic": {}}, "resourceClaims": list(entries or (ENTRY,))}
    return PodGroup.from_wire({"metadata": {"name": name, "namespace": "lab"}, "spec": spec})


class ClaimWorld:
    """The steps of a story. What they return is the state after the loops have become quiet."""

    def __init__(self, world: LoopWorld) -> None:
        self.world, self.cluster = world, world.cluster

    async def pod(self, name: str = "p") -> Pod:
        return await self.cluster.get(Pod, name, "lab")

    async def group(self, name: str = "g") -> PodGroup:
        return await self.cluster.get(PodGroup, name, "lab")

    async def claims(self) -> list[ResourceClaim]:
        await self.world.calm()
        return list((await self.cluster.list(ResourceClaim, "lab")).items)

    async def recorded(self, name: str = "p") -> list[Json]:
        await self.world.calm()
        return [status.to_wire() for status in (await self.pod(name)).status.resource_claim_statuses]

    async def allocate(self, name: str, *consumers: Pod | PodGroup) -> ResourceClaim:
        """As the scheduler does it: the finalizer, then allocation and reservations together."""
        pending = await self.cluster.get(ResourceClaim, name, "lab")
        held = (*pending.metadata.finalizers, FINALIZER)
        protected = await self.cluster.update(
            pending.with_(metadata=pending.metadata.with_(finalizers=tuple(dict.fromkeys(held))))
        )
        status = {"allocation": ALLOCATION, "reservedFor": [reference(consumer) for consumer in consumers]}
        return await self.cluster.update_status(ResourceClaim.from_wire(protected.to_wire() | {"status": status}))

    async def status(self, name: str, **status: Any) -> None:
        await self.cluster.patch(Pod, name, "lab", merge={"status": status}, subresource="status")

    async def finish(self, name: str = "p", phase: str = "Succeeded") -> None:
        await self.status(name, phase=phase)

    async def reserved(self, name: str) -> list[str]:
        await self.world.calm()
        return [consumer.name for consumer in (await self.cluster.get(ResourceClaim, name, "lab")).status.reserved_for]


def reference(consumer: Pod | PodGroup) -> Json:
    kind = (
        {"resource": "pods"}
        if isinstance(consumer, Pod)
        else {"apiGroup": "scheduling.k8s.io", "resource": "podgroups"}
    )
    return {**kind, "name": consumer.name, "uid": consumer.metadata.uid}


def extended_claim(of: Pod) -> ResourceClaim:
    """As the scheduler makes it for a pod's extended resources (C-7.2)."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": of.name, "uid": of.metadata.uid, "controller": True}
    meta: Json = {"name": f"{of.name}-extended-resources-x", "namespace": "lab", "ownerReferences": [owner]}
    return ResourceClaim.from_wire(
        {"metadata": {**meta, "annotations": {EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"}}, "spec": SPEC}
    )


@asynccontextmanager
async def running(it: ClaimWorld) -> AsyncIterator[None]:
    """A claim controller runs, with informers of its own."""
    sources = AmbientSources(virtual_now, counted_suffixes(), lambda: 0.5)
    async with control_plane(it.cluster, sources, loops=tuple(loop for loop in KINDS_OF_LOOPS if loop.name in LOOPS)):
        yield


def story(
    told: Callable[[ClaimWorld], Awaitable[T]],
    *,
    gates: FeatureGates = PLAIN,
    between: Callable[[MemoryCluster], Cluster] = lambda cluster: cluster,
) -> T:
    """Play a story while the claim controller runs, with PodGroups' protection if the gates have PodGroups."""
    return play(
        lambda world: told(ClaimWorld(world)),
        *(GROUP_LOOPS if gates.generic_workload else LOOPS),
        gates=gates,
        between=between,
    )
