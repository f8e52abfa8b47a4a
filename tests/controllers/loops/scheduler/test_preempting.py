"""Preemption as an option of the scheduler's loop: it evicts, and the pod gets the devices. Off by default."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.controllers.loops.loop_world import LoopWorld, play
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.scheduling_v1 import PodDisruptionBudget
from virt_dra.api.wire import Json
from virt_dra.controllers.loops.scheduler import preempting
from virt_dra.scheduling.preemption import PlanningSteps, PreemptionPlan, planning
from virt_dra.scheduling.preemption_trial import TrialCluster

LOOPS = ("scheduler", "resource claims")
ON = {"scheduler.preemption": True}
DRIVER = "gpu.example.com"
REQUESTS: Json = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


async def one_gpu_for_two(world: LoopWorld) -> None:
    """A node with one device, taken by a VM of priority 0."""
    await world.create(Node.from_wire({"metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "110"}}}))
    await world.create(DeviceClass.from_wire({"metadata": {"name": "gpu"}}))
    template = {"metadata": {"name": "gpu", "namespace": "lab"}, "spec": {"spec": REQUESTS}}
    await world.create(ResourceClaimTemplate.from_wire(template))
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "n1", "devices": [{"name": "d0"}]}
    await world.create(ResourceSlice.from_wire({"metadata": {"name": "n1"}, "spec": spec}))
    await world.create(vm("low", 0))
    await world.calm()
    assert (await get(world, "low")).spec.node_name == "n1"


async def another_node(world: LoopWorld) -> None:
    await world.create(Node.from_wire({"metadata": {"name": "n2"}, "status": {"allocatable": {"pods": "110"}}}))
    pool = {"name": "n2", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "n2", "devices": [{"name": "d0"}]}
    await world.create(ResourceSlice.from_wire({"metadata": {"name": "n2"}, "spec": spec}))


def vm(name: str, priority: int, **spec: str) -> Pod:
    entries = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    container = {"name": "compute", "image": "launcher", "resources": {"claims": [{"name": "gpu"}]}}
    wire = {
        "containers": [container],
        "resourceClaims": entries,
        "priority": priority,
        "terminationGracePeriodSeconds": 30,
        **spec,
    }
    return Pod.from_wire({"metadata": {"name": name, "namespace": "lab", "labels": {"app": name}}, "spec": wire})


async def get(world: LoopWorld, name: str) -> Pod:
    return await world.cluster.get(Pod, name, "lab")


async def message(world: LoopWorld, name: str) -> str | None:
    return next(
        (
            condition.message
            for condition in (await get(world, name)).status.conditions
            if condition.type == "PodScheduled"
        ),
        None,
    )


def test_a_pod_of_higher_priority_gets_the_device_when_its_victim_has_gone() -> None:
    """The victim goes as its kubelet lets it; meanwhile nobody else is evicted."""

    async def story(world: LoopWorld) -> None:
        await one_gpu_for_two(world)
        await world.create(vm("high", 10))
        await world.calm()
        victim = await get(world, "low")
        (mark,) = [condition for condition in victim.status.conditions if condition.type == "DisruptionTarget"]
        assert (mark.reason, mark.message) == (
            "PreemptionByScheduler",
            "default-scheduler: preempting to accommodate a higher priority pod",
        )
        assert victim.metadata.deletion_timestamp is not None
        high = await get(world, "high")
        assert (high.spec.node_name, high.status.nominated_node_name) == (None, "n1")
        preempted = ("Pod/low", "Normal", "Preempted", f"Preempted by pod {high.metadata.uid} on node n1")
        assert preempted in await world.events()
        await world.calm(30)
        assert (await message(world, "high") or "").startswith("0/1 nodes are available: 1 cannot allocate all claims.")
        await world.cluster.delete(Pod, "low", "lab", grace_seconds=0)
        await world.calm(15)
        assert (await get(world, "high")).spec.node_name == "n1"
        (claim,) = (await world.cluster.list(ResourceClaim, "lab")).items
        assert claim.status.reserved_for[0].name == "high"

    play(story, *LOOPS, options=ON, graceful=True)


def test_without_the_option_nobody_is_evicted() -> None:
    """C-2.2: Kubernetes has no preemption that knows devices."""

    async def story(world: LoopWorld) -> None:
        await one_gpu_for_two(world)
        await world.create(vm("high", 10))
        await world.calm(30)
        assert (await get(world, "low")).metadata.deletion_timestamp is None
        assert (await get(world, "high")).spec.node_name is None

    play(story, *LOOPS)


def test_a_budget_protects() -> None:
    """policy/v1: no disruption is allowed."""

    async def story(world: LoopWorld) -> None:
        await one_gpu_for_two(world)
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "low"}}}
        budget = PodDisruptionBudget.from_wire({"metadata": {"name": "keep", "namespace": "lab"}, "spec": spec})
        await world.create(budget)
        await world.create(vm("high", 10))
        await world.calm(30)
        assert (await get(world, "low")).metadata.deletion_timestamp is None

    play(story, *LOOPS, options=ON, graceful=True)


def test_a_pod_that_never_preempts_waits() -> None:
    async def story(world: LoopWorld) -> None:
        await one_gpu_for_two(world)
        await world.create(vm("high", 10, preemptionPolicy="Never"))
        await world.calm(30)
        assert (await get(world, "low")).metadata.deletion_timestamp is None
        assert (await message(world, "high") or "").endswith("preemption: not eligible due to preemptionPolicy=Never.")

    play(story, *LOOPS, options=ON, graceful=True)


def test_a_long_plan_leaves_room_for_other_work_and_is_made_anew_if_that_spoils_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the first plan is made, its victim goes by itself: nobody need be evicted any more."""
    victims: list[list[str]] = []

    async def story(world: LoopWorld) -> None:
        await one_gpu_for_two(world)
        await another_node(world)
        await world.create(vm("middle", 5))
        await world.calm()
        deleting: list[asyncio.Task[None]] = []

        def watched(
            pod: Pod, cluster: TrialCluster, budgets: Sequence[PodDisruptionBudget], *, changed: bool
        ) -> PlanningSteps:
            outcome = yield from planning(pod, cluster, budgets, changed=changed)
            victims.append([victim.name for victim in outcome.victims] if isinstance(outcome, PreemptionPlan) else [])
            if len(victims) == 1:
                deleting.append(asyncio.ensure_future(world.cluster.delete(Pod, "low", "lab", grace_seconds=0)))
                for _ in range(10 * preempting.PLACEMENTS_AT_ONCE):
                    yield
            return outcome

        monkeypatch.setattr(preempting, "planning", watched)
        await world.create(vm("high", 10))
        await world.calm(15)
        assert (
            (await get(world, "high")).spec.node_name,
            (await get(world, "middle")).metadata.deletion_timestamp,
        ) == ("n1", None)

    play(story, *LOOPS, options=ON, graceful=True)
    assert victims == [["low"], []]
