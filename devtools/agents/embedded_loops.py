"""The loops of a control plane for the embedded cluster: where a real one has kube-controller-manager and
kube-scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.cluster.port import Cluster
from virt_dra.cluster.watching.informer import Informer
from virt_dra.controllers.loops import claims
from virt_dra.controllers.loops.scheduler import batch as scheduler
from virt_dra.simulator.agents.background import background

WATCHED = (Pod, ResourceClaim, ResourceClaimTemplate, ResourceSlice, DeviceClass, Node)


@asynccontextmanager
async def embedded_loops(
    cluster: Cluster, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> AsyncIterator[None]:
    """While in it, claims are made and freed and pods with claims get nodes and devices, after every change."""
    changed = asyncio.Event()
    informers = [Informer(cluster, kind) for kind in WATCHED]
    for informer in informers:
        informer.on_change(lambda old, new: changed.set())

    async def follow() -> None:
        while True:
            await changed.wait()
            changed.clear()
            await claims.reconcile(cluster)
            await scheduler.apply(cluster, scheduler.plan(await scheduler.gather(cluster)), clock())

    async with background(follow(), *(informer.run() for informer in informers)):
        yield
