"""A laboratory of classic DRA under virtual time: an embedded cluster of an old release, its loops, and drivers of the
tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import count
from typing import TypeVar

from tests.controllers.loops.loop_world import EVENT
from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.wire import Json
from virt_dra.classic.claim_controller import ClassicClaimController
from virt_dra.classic.driver import AllocationRefused, ClassicDriver, DriverSettings, PendingClaim, on_node
from virt_dra.classic.driver_controller import CONFIG_MAP, DriverController
from virt_dra.classic.objects import ClassicAllocation, ClassicClaim, PodSchedulingContext
from virt_dra.classic.release import NEWEST_STRUCTURED, ClassicRelease
from virt_dra.classic.rules import classic_cluster
from virt_dra.classic.scheduling.scheduler import ClassicScheduler
from virt_dra.classic.versions import read_classic
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import counted_suffixes
from virt_dra.cluster.port import Cluster
from virt_dra.simulator.control_plane import AmbientSources, LoopKind, control_plane
from virt_dra.simulator.virtual_time import run_virtually, virtual_now

T = TypeVar("T")
V1ALPHA2 = "resource.k8s.io/v1alpha2"


class FakeDriver:
    """A driver with some devices on some nodes. ``free``: node -> devices left. All calls are recorded."""

    def __init__(self, name: str, free: dict[str, int], *, shareable: bool = False) -> None:
        self.name = name
        self.free = dict(free)
        self.shareable = shareable
        self.held: dict[str, str] = {}
        """Claim UID -> node."""
        self.calls: list[str] = []
        self.pending: list[PendingClaim] = []
        self.broken: str = ""
        """An error with which allocate fails, as long as it is set."""

    async def allocate(
        self, claims: Sequence[PendingClaim], node: str
    ) -> Sequence[ClassicAllocation | AllocationRefused]:
        self.calls.append(f"allocate {', '.join(claim.claim.name for claim in claims)} on {node or 'any node'}")
        self.pending += claims
        if self.broken:
            return [AllocationRefused(self.broken) for _ in claims]
        return [self._one(claim.claim.metadata.uid, node or next(iter(self.free))) for claim in claims]

    def _one(self, uid: str, node: str) -> ClassicAllocation | AllocationRefused:
        if uid not in self.held:
            if self.free.get(node, 0) < 1:
                return AllocationRefused(f"no device left on {node}")
            self.free[node] -= 1
            self.held[uid] = node
        return on_node(self.name, f"device-of-{uid[-2:]}", self.held[uid], shareable=self.shareable)

    async def deallocate(self, claim: ClassicClaim) -> None:
        self.calls.append(f"deallocate {claim.name}")
        node = self.held.pop(claim.metadata.uid, None)
        if node is not None:
            self.free[node] += 1

    async def unsuitable_nodes(
        self, pod: Pod, claims: Sequence[PendingClaim], nodes: Sequence[str]
    ) -> Sequence[Collection[str]]:
        self.calls.append(f"unsuitable nodes of {pod.name} among {', '.join(nodes)}")
        uids = [claim.claim.metadata.uid for claim in claims]

        def fits(node: str) -> bool:
            """What a claim holds already counts for it: an allocation may not have been recorded."""
            held = [uid for uid in uids if uid in self.held]
            return all(self.held[uid] == node for uid in held) and self.free.get(node, 0) >= len(uids) - len(held)

        bad = [node for node in nodes if not fits(node)]
        return [bad for _ in claims]


class Lab:
    """``cluster``: without what a test puts between it and the loops."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster

    async def create(self, *objects: Json) -> None:
        for raw in objects:
            await self.cluster.create(read_classic(raw))

    async def pod(self, name: str) -> Pod:
        return await self.cluster.get(Pod, name, "lab")

    async def claim(self, name: str) -> ClassicClaim:
        return await self.cluster.get(ClassicClaim, name, "lab")

    async def claims(self) -> list[ClassicClaim]:
        return list((await self.cluster.list(ClassicClaim, "lab")).items)

    async def contexts(self) -> list[PodSchedulingContext]:
        return list((await self.cluster.list(PodSchedulingContext, "lab")).items)

    async def finish(self, name: str) -> None:
        await self.cluster.patch(Pod, name, "lab", merge={"status": {"phase": "Succeeded"}}, subresource="status")

    async def events(self) -> list[str]:
        """``reason: message``, each once, in the order in which they came first."""
        events = [event.to_wire() for event in (await self.cluster.list(EVENT)).items]
        return list(dict.fromkeys(f"{event['reason']}: {event['message']}" for event in events))

    async def waits(self, name: str) -> str:
        """The message of the pod's PodScheduled condition."""
        conditions = (await self.pod(name)).status.conditions
        return next((condition.message or "" for condition in conditions if condition.type == "PodScheduled"), "")

    async def calm(self, seconds: float = 60.0) -> None:
        await asyncio.sleep(seconds)


def play_classic(
    story: Callable[[Lab], Awaitable[T]], *drivers: ClassicDriver, release: ClassicRelease = NEWEST_STRUCTURED,
    nodes: int = 3, between: Callable[[MemoryCluster], Cluster] = lambda cluster: cluster,
    settings: DriverSettings | None = None,
) -> T:  # fmt: skip
    """Run a story on ``nodes`` nodes n1, n2, … while a control plane and drivers run."""

    async def main() -> T:
        lab = await new_lab(nodes)
        loops = loops_of(drivers, release, settings)
        async with control_plane(
            between(lab.cluster), AmbientSources(virtual_now, counted_suffixes(), lambda: 0.5), loops=loops
        ):
            return await story(lab)

    return run_virtually(main())


async def new_lab(nodes: int = 3) -> Lab:
    """A new cluster with nodes n1, n2, … and a namespace."""
    uids = count(1)
    cluster = classic_cluster(virtual_now, counted_suffixes(), lambda: f"00000000-0000-4000-8000-{next(uids):012x}")
    await cluster.create(Namespace.from_wire({"metadata": {"name": "lab"}}))
    lab = Lab(cluster)
    await lab.create(*(node(f"n{number}") for number in range(1, nodes + 1)))
    return lab


def loops_of(
    drivers: Sequence[ClassicDriver],
    release: ClassicRelease = NEWEST_STRUCTURED,
    settings: DriverSettings | None = None,
) -> tuple[LoopKind, ...]:
    """A control plane of a release, and a controller for each driver."""
    chosen = settings or DriverSettings(release=release)

    def controller(driver: ClassicDriver) -> LoopKind:
        return LoopKind(driver.name, lambda context: DriverController(context, driver, chosen))

    return (
        LoopKind("classic claims", lambda context: ClassicClaimController(context, release)),
        LoopKind("classic scheduler", lambda context: ClassicScheduler(context, release)),
        *map(controller, drivers),
    )


def node(name: str, **labels: str) -> Json:
    labels = {"kubernetes.io/hostname": name, **labels}
    status = {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def preempts(nodes: int) -> str:
    """How the message of a pod that fits nowhere ends."""
    return f"preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."


def resource_class(name: str, driver: str, **fields: object) -> Json:
    return {"apiVersion": V1ALPHA2, "kind": "ResourceClass", "metadata": {"name": name}, "driverName": driver, **fields}


def claim(name: str, cls: str, **spec: object) -> Json:
    metadata = {"name": name, "namespace": "lab"}
    return {
        "apiVersion": V1ALPHA2,
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"resourceClassName": cls, **spec},
    }


def template(name: str, cls: str, **spec: object) -> Json:
    metadata = {"name": name, "namespace": "lab"}
    inner = {"metadata": {"labels": {"from": name}}, "spec": {"resourceClassName": cls, **spec}}
    return {"apiVersion": V1ALPHA2, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": inner}


def pod(name: str, *claims: str, templates: Sequence[str] = (), **spec: object) -> Json:
    """A pod with entries named after its claims and templates."""
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    entries += [{"name": template, "resourceClaimTemplateName": template} for template in templates]
    inner = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": entries, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "lab"}, "spec": inner}


def config_map(name: str, **data: str) -> TypedObject:
    return CONFIG_MAP.from_wire(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "lab"}, "data": data}
    )
