"""The loops of a control plane, running on a cluster: what kube-scheduler and kube-controller-manager do on a real one.
Under :mod:`.virtual_time` a run is deterministic and minutes pass at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.classic.claim_controller import ClassicClaimController
from virt_dra.classic.plane import ClassicPlane
from virt_dra.classic.scheduling.scheduler import ClassicScheduler
from virt_dra.cluster.port import Cluster
from virt_dra.cluster.watching.event_recorder import EventRecorder
from virt_dra.cluster.watching.informer import Informer
from virt_dra.cluster.watching.shared_informers import SharedInformers
from virt_dra.controllers.loops.claims.loop import ResourceClaimController
from virt_dra.controllers.loops.context import (
    DEFAULT_TIMERS,
    ControlLoop,
    LoopContext,
    LoopMetrics,
    LoopTimers,
    NoMetrics,
)
from virt_dra.controllers.loops.pod_group_protection import PodGroupProtection
from virt_dra.controllers.loops.pool_status.loop import PoolStatusRequests
from virt_dra.controllers.loops.quota import QuotaController
from virt_dra.controllers.loops.scheduler.loop import SchedulerLoop
from virt_dra.controllers.loops.taint_eviction.loop import TaintEviction


@dataclass(frozen=True)
class LoopKind:
    """A loop that a control plane may have. ``runs``: whether it runs with these gates."""

    name: str
    make: Callable[[LoopContext], ControlLoop]
    runs: Callable[[FeatureGates], bool] = lambda gates: True


LOOPS: tuple[LoopKind, ...] = (
    LoopKind("scheduler", SchedulerLoop),
    LoopKind("resource claims", ResourceClaimController),
    LoopKind("pod group protection", PodGroupProtection, lambda gates: gates.generic_workload),
    LoopKind("device taint eviction", TaintEviction, lambda gates: gates.device_taints),
    LoopKind("pool status", PoolStatusRequests, lambda gates: gates.resource_pool_status),
    LoopKind("quota", QuotaController),
)
"""All loops, in the order in which they are made."""

CLASSIC_LOOPS = (LoopKind("classic claims", ClassicClaimController), LoopKind("classic scheduler", ClassicScheduler))
"""Those of a control plane of Kubernetes 1.26 to 1.31 instead; drivers' controllers come beside it (C-18)."""
CLASSIC_PLANES = {f"1.{minor}": partial(ClassicPlane, minor) for minor in range(26, 32)}
"""What scenarios of these releases are played on (docs/spec/scenarios.md)."""
CLASSIC_KINDS = {f"1.{minor}": ClassicPlane.kinds(minor) for minor in range(26, 32)}
"""Release -> kinds of classic DRA, and their version."""


@dataclass(frozen=True)
class AmbientSources:
    """The sources of time and randomness of a control plane. ``names``: unique suffixes of Events' names."""

    clock: Callable[[], datetime]
    names: Callable[[], str]
    chance: Callable[[], float]


@asynccontextmanager
async def control_plane(
    cluster: Cluster, sources: AmbientSources, *, gates: FeatureGates = PLAIN, timers: LoopTimers = DEFAULT_TIMERS,
    metrics: LoopMetrics | None = None, loops: tuple[LoopKind, ...] = LOOPS, options: Mapping[str, object] = {},
) -> AsyncIterator[None]:  # fmt: skip
    """A context in which the loops run; informers have synced when its body begins. Errors of loops are raised."""
    elapsed = asyncio.get_running_loop().time
    informers = SharedInformers(
        cluster, lambda cluster, kind: Informer(cluster, kind, optional=True, clock=elapsed, chance=sources.chance)
    )
    recorders: dict[str, EventRecorder] = {}

    def recorder(component: str) -> EventRecorder:
        if component not in recorders:
            recorders[component] = EventRecorder(cluster, component, "", clock=sources.clock, suffixes=sources.names)
        return recorders[component]

    context = LoopContext(
        cluster, informers, sources.clock, recorder, sources.chance, gates, timers, metrics or NoMetrics(), options
    )
    made = [kind.make(context) for kind in loops if kind.runs(gates)]
    async with AsyncExitStack() as ending:
        group = await ending.enter_async_context(asyncio.TaskGroup())
        tasks = [group.create_task(informers.run(), name="informers")]
        await informers.synced()
        tasks += [group.create_task(events.run(), name=f"events of {name}") for name, events in recorders.items()]
        tasks += [group.create_task(loop.run(), name=type(loop).__name__) for loop in made]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
