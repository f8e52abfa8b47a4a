"""Histories with faults: writes that fail before or after they took effect, restarts between any two writes (C-22.14,
C-22.15)."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from tests.controllers.loops.loop_world import LoopWorld, RecordedMetrics, virtual_cluster
from tests.controllers.loops.taint_eviction.objects import claim, gpus, pod, result, rule, taint, toleration
from tests.sampling import sample
from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceSlice
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import counted_suffixes
from virt_dra.cluster.port import Conflict, Unavailable
from virt_dra.simulator.control_plane import LOOPS, AmbientSources, control_plane
from virt_dra.simulator.virtual_time import run_virtually, virtual_now

VMS = 8
WRITES = ("patch", "delete", "update", "update_status", "create")


class Unreliable:
    """A cluster that refuses some writes, and loses the answers to others, as long as ``chance`` isn't None."""

    def __init__(self, cluster: MemoryCluster, chance: Random | None) -> None:
        self._cluster, self.chance = cluster, chance

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._cluster, name)
        if name not in WRITES:
            return method

        async def write(*arguments: Any, **options: Any) -> Any:
            fate = self.chance.random() if self.chance is not None else 1.0
            if fate < 0.15:
                raise Unavailable("no answer")
            if fate < 0.25:
                raise Conflict("the object has been modified")
            answer = await method(*arguments, **options)
            if fate < 0.4:
                raise Unavailable("the answer was lost")
            return answer

        return write


async def history(seed: int, *, faults: bool) -> tuple[set[str], dict[str, str]]:
    """The pods that are left, and the effect of each rule with the status of its condition, after calm has returned."""
    chance = Random(seed)
    world = LoopWorld(virtual_cluster(), RecordedMetrics())
    await world.cluster.create(Namespace.from_wire({"metadata": {"name": "lab"}}))
    unreliable = Unreliable(world.cluster, Random(seed + 1) if faults else None)
    loops = tuple(loop for loop in LOOPS if loop.name == "device taint eviction")
    names = counted_suffixes()
    for number in range(VMS):
        vm = await world.create(pod(f"vm-{number}", f"c-{number}"))
        tolerations = chance.choice([[], [toleration()], [toleration(5)], [toleration(40)]])
        await world.create(claim(f"c-{number}", result(f"gpu-{number}", tolerations=tolerations), reserved=(vm,)))
    await world.create(gpus({f"gpu-{number}": [] for number in range(VMS)}))
    for _ in range(4):
        async with control_plane(unreliable, AmbientSources(virtual_now, names, lambda: 0.5), loops=loops):
            for _ in range(chance.randrange(1, 4)):
                await _something(world, chance)
                pause = chance.choice([0.0, 0.002, 1.0, 7.0])
                await asyncio.sleep(pause if faults else 10.0)
    unreliable.chance = None
    async with control_plane(unreliable, AmbientSources(virtual_now, names, lambda: 0.5), loops=loops):
        await asyncio.sleep(120)
    left = {pod.name for pod in (await world.cluster.list(Pod, "lab")).items}
    rules = (await world.cluster.list(DeviceTaintRule)).items
    return left, {rule.name: f"{rule.spec.taint.effect} {rule.status.conditions[0].status}" for rule in rules}


async def _something(world: LoopWorld, chance: Random) -> None:
    """Taints only come, so that the end doesn't depend on when the loop ran."""
    device = f"gpu-{chance.randrange(VMS)}"
    if chance.random() < 0.5:
        published = await world.cluster.get(ResourceSlice, "slice")
        tainted = {
            gpu.name: [*(t.to_wire() for t in gpu.taints), *([taint()] if gpu.name == device else [])]
            for gpu in published.spec.devices
        }
        await world.cluster.update(
            published.with_(spec=gpus({name: taints[:3] for name, taints in tainted.items()}).spec)
        )
    else:
        effect = chance.choice(["NoExecute", "None"])
        await world.create(
            rule(
                f"rule-{len((await world.cluster.list(DeviceTaintRule)).items)}",
                effect=effect,
                selector={"device": device},
            )
        )


@pytest.mark.slow(seconds=0.2)
@pytest.mark.parametrize("seed", range(sample(60)))
def test_after_faults_and_restarts_the_end_is_that_of_the_undisturbed_run(seed: int) -> None:
    disturbed = run_virtually(history(seed, faults=True))
    assert disturbed == run_virtually(history(seed, faults=False))
