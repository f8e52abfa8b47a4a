"""How much the control loops do in a second: 5,000 VMs' pods on the embedded cluster in virtual time, with memory.

Each loop has a row: objects are created first, then the time is measured until the loop has done its work on all of them.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count

from rich.console import Console
from rich.table import Table

from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import counted_suffixes
from virt_dra.simulator.control_plane import LOOPS, AmbientSources, control_plane
from virt_dra.simulator.virtual_time import run_virtually, virtual_now

NAMESPACE = "lab"


@dataclass(frozen=True)
class LoopRow:
    """What is measured. ``given`` creates the objects, ``done`` says whether the loop is finished; ``work``: what a unit of work is."""

    loop: str
    work: str
    given: Callable[[MemoryCluster, int], Awaitable[None]]
    done: Callable[[MemoryCluster], Awaitable[bool]]


async def _devices_and_pods(cluster: MemoryCluster, number: int) -> None:
    driver = "gpu.example.com"
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    await cluster.create(DeviceClass.from_wire({"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}))
    for each in range(number):
        name = f"node-{each:05d}"
        await cluster.create(Node.from_wire({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}))
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": name, "pool": pool, "devices": [{"name": "gpu-0"}]}
        await cluster.create(ResourceSlice.from_wire({"metadata": {"name": name}, "spec": spec}))
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
        named = {"name": f"vm-{each}", "namespace": NAMESPACE}
        await cluster.create(ResourceClaim.from_wire({"metadata": named, "spec": {"devices": {"requests": [request]}}}))
        entry = {"name": "gpu", "resourceClaimName": f"vm-{each}"}
        containers = [{"name": "compute", "image": "launcher", "resources": {"claims": [{"name": "gpu"}]}}]
        await cluster.create(Pod.from_wire({"metadata": named, "spec": {"resourceClaims": [entry], "containers": containers}}))


async def _all_bound(cluster: MemoryCluster) -> bool:
    return all(pod.spec.node_name for pod in (await cluster.list(Pod, NAMESPACE)).items)


ROWS = (LoopRow("scheduler", "VMs scheduled, a GPU each, as many nodes", _devices_and_pods, _all_bound),)


async def _measure(row: LoopRow, number: int) -> float:
    """Seconds."""
    uids = count(1)
    cluster = MemoryCluster(virtual_now, counted_suffixes(), lambda: f"00000000-0000-4000-8000-{next(uids):012x}")
    await cluster.create(Namespace.from_wire({"metadata": {"name": NAMESPACE}}))
    await row.given(cluster, number)
    loops = tuple(loop for loop in LOOPS if loop.name == row.loop)
    began = time.perf_counter()
    async with control_plane(cluster, AmbientSources(virtual_now, counted_suffixes(), lambda: 0.5), loops=loops):
        while not await row.done(cluster):
            await asyncio.sleep(1)
    return time.perf_counter() - began


def main(*, quick: bool = False) -> None:
    """Print a row for each loop."""
    number = 500 if quick else 5000
    table = Table("loop", "number", "seconds", "a second", "MiB", "of what", title="control loops, embedded, in virtual time")
    for row in ROWS:
        seconds = run_virtually(_measure(row, number))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        table.add_row(row.loop, str(number), f"{seconds:.1f}", f"{number / seconds:.0f}", str(memory), row.work)
    Console(width=120).print(table)
