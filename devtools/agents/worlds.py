"""A cluster to put agents into: the embedded one with its loops, or the real control plane of this test run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from devtools.agents.embedded_loops import embedded_loops
from devtools.cluster.control_plane import ControlPlane
from virt_dra.api.core_v1 import Namespace
from virt_dra.api.meta import ObjectMeta
from virt_dra.cluster.kube.cluster import connect
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.cluster.memory.embedded import embedded_cluster
from virt_dra.cluster.port import ApiError, Cluster

T = TypeVar("T")

PATIENCE = 30.0
UNLIMITED = ClientLimits(qps=0)
"""Agents of many machines are one client here."""


@asynccontextmanager
async def embedded_world() -> AsyncIterator[tuple[Cluster, str]]:
    """An embedded cluster in which claims are made and pods scheduled, and a namespace."""
    cluster = embedded_cluster()
    await cluster.create(Namespace(metadata=ObjectMeta(name="test")))
    async with embedded_loops(cluster):
        yield cluster, "test"


@asynccontextmanager
async def real_world(control_plane: ControlPlane) -> AsyncIterator[tuple[Cluster, str]]:
    """The real control plane with scheduler and controllers, as the admin, and a new namespace. Cluster-scoped objects
    that the body makes are its own to delete."""
    await asyncio.to_thread(control_plane.start_scheduler)
    await asyncio.to_thread(control_plane.start_controllers)
    namespace = await asyncio.to_thread(control_plane.create_namespace)
    try:
        async with connect(str(control_plane.kubeconfig), limits=UNLIMITED) as cluster:
            yield cluster, namespace
    finally:
        await asyncio.to_thread(control_plane.delete_namespace, namespace)


async def eventually(
    look: Callable[[], Awaitable[T]], holds: Callable[[T], bool] = bool, *, seconds: float = PATIENCE
) -> T:
    """What ``look`` answers as soon as it ``holds``; an :class:`ApiError` counts as not yet. Fails with the last answer
    otherwise."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    last: object = None
    while loop.time() < end:
        try:
            answer = await look()
            if holds(answer):
                return answer
            last = answer
        except ApiError as error:
            last = error
        await asyncio.sleep(0.02)
    raise AssertionError(f"not within {seconds:.0f} s; last: {last}")
