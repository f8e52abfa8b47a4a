"""How much the control loops do in a second: 5,000 VMs' pods on the embedded cluster in virtual time, with memory.

Each loop has a row: objects are created first, then the time is measured until the loop has done its work on all of
them.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from rich.console import Console
from rich.table import Table

from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.api.resource_v1 import (
    FINALIZER,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourcePoolStatusRequest,
    ResourceSlice,
)
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import counted_suffixes
from virt_dra.simulator.control_plane import LOOPS, AmbientSources, LoopKind, control_plane
from virt_dra.simulator.virtual_time import run_virtually, virtual_now

NAMESPACE = "lab"
NewCluster = Callable[[Callable[[], datetime], Callable[[], str], Callable[[], str]], MemoryCluster]
"""Of a clock, suffixes and uids."""


@dataclass(frozen=True)
class LoopRow:
    """What is measured. ``given`` creates the objects, ``done`` says whether the loop is finished; ``work``: what a
    unit of work is."""

    loop: str
    work: str
    given: Callable[[MemoryCluster, int], Awaitable[None]]
    done: Callable[[MemoryCluster], Awaitable[bool]]
    gates: FeatureGates = PLAIN
    vms_per_unit: int = 1
    loops: tuple[LoopKind, ...] = ()
    """Empty: those of the control plane that have the row's name."""
    new_cluster: NewCluster = MemoryCluster


async def _devices_and_pods(cluster: MemoryCluster, number: int) -> None:
    driver = "gpu.example.com"
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    await cluster.create(DeviceClass.from_wire({"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}))
    for index in range(number):
        name = f"node-{index:05d}"
        await cluster.create(
            Node.from_wire(
                {
                    "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                    "status": {"allocatable": {"pods": "110"}},
                }
            )
        )
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": name, "pool": pool, "devices": [{"name": "gpu-0"}]}
        await cluster.create(ResourceSlice.from_wire({"metadata": {"name": name}, "spec": spec}))
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
        named = {"name": f"vm-{index}", "namespace": NAMESPACE}
        await cluster.create(ResourceClaim.from_wire({"metadata": named, "spec": {"devices": {"requests": [request]}}}))
        entry = {"name": "gpu", "resourceClaimName": f"vm-{index}"}
        containers = [{"name": "compute", "image": "launcher", "resources": {"claims": [{"name": "gpu"}]}}]
        await cluster.create(
            Pod.from_wire({"metadata": named, "spec": {"resourceClaims": [entry], "containers": containers}})
        )


async def all_bound(cluster: MemoryCluster) -> bool:
    return all(pod.spec.node_name for pod in (await cluster.list(Pod, NAMESPACE)).items)


async def _running_vms(cluster: MemoryCluster, number: int) -> None:
    """Each VM's pod is on its node and has the node's device."""
    await _devices_and_pods(cluster, number)
    for index in range(number):
        name, node = f"vm-{index}", f"node-{index:05d}"
        pod = await cluster.patch(Pod, name, NAMESPACE, merge={"spec": {"nodeName": node}})
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": node, "device": "gpu-0"}
        consumer = {"resource": "pods", "name": name, "uid": pod.metadata.uid}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
        await cluster.patch(ResourceClaim, name, NAMESPACE, merge={"status": status}, subresource="status")


async def _rule(cluster: MemoryCluster, name: str, selector: dict[str, str]) -> None:
    spec = {"deviceSelector": selector, "taint": {"key": "broken", "effect": "NoExecute"}}
    await cluster.create(DeviceTaintRule.from_wire({"metadata": {"name": name}, "spec": spec}))


async def _one_rule_for_all(cluster: MemoryCluster, number: int) -> None:
    await _running_vms(cluster, number)
    await _rule(cluster, "all", {"driver": "gpu.example.com"})


async def _a_rule_for_each(cluster: MemoryCluster, number: int) -> None:
    await _running_vms(cluster, number)
    for index in range(number):
        await _rule(cluster, f"rule-{index:05d}", {"driver": "gpu.example.com", "pool": f"node-{index:05d}"})


async def _all_evicted(cluster: MemoryCluster) -> bool:
    return not (await cluster.list(Pod, NAMESPACE)).items


async def _completed(cluster: MemoryCluster) -> bool:
    """Every rule says that it is done, which takes 10 s of the cluster's time."""
    rules = (await cluster.list(DeviceTaintRule)).items
    return all(
        condition.reason == "Completed" for rule in rules for condition in rule.status.conditions
    ) and await _all_evicted(cluster)


async def _request(cluster: MemoryCluster, name: str, pool: dict[str, str]) -> None:
    spec = {"driver": "gpu.example.com", **pool}
    await cluster.create(ResourcePoolStatusRequest.from_wire({"metadata": {"name": name}, "spec": spec}))


async def _requests_for_all_pools(cluster: MemoryCluster, number: int) -> None:
    await _running_vms(cluster, number)
    for index in range(number // 100):
        await _request(cluster, f"request-{index:05d}", {})


async def _a_request_for_each_pool(cluster: MemoryCluster, number: int) -> None:
    await _running_vms(cluster, number)
    for index in range(number):
        await _request(cluster, f"request-{index:05d}", {"poolName": f"node-{index:05d}"})


async def _all_answered(cluster: MemoryCluster) -> bool:
    return all(request.status is not None for request in (await cluster.list(ResourcePoolStatusRequest)).items)


async def _pods_of_a_template(cluster: MemoryCluster, number: int) -> None:
    """Each VM's pod has a claim of a template, which doesn't exist yet."""
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    template = {
        "metadata": {"name": "gpu", "namespace": NAMESPACE},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }
    await cluster.create(ResourceClaimTemplate.from_wire(template))
    for index in range(number):
        spec = {
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
            "containers": [{"name": "compute", "image": "launcher"}],
        }
        await cluster.create(Pod.from_wire({"metadata": {"name": f"vm-{index}", "namespace": NAMESPACE}, "spec": spec}))


async def _all_recorded(cluster: MemoryCluster) -> bool:
    return all(pod.status.resource_claim_statuses for pod in (await cluster.list(Pod, NAMESPACE)).items)


async def _finished_vms(cluster: MemoryCluster, number: int) -> None:
    """Each VM's pod has finished, and its claim is still allocated and reserved for it."""
    await _running_vms(cluster, number)
    for claim in (await cluster.list(ResourceClaim, NAMESPACE)).items:
        await cluster.patch(ResourceClaim, claim.name, NAMESPACE, merge={"metadata": {"finalizers": [FINALIZER]}})
        await cluster.patch(Pod, claim.name, NAMESPACE, merge={"status": {"phase": "Succeeded"}}, subresource="status")


async def _all_freed(cluster: MemoryCluster) -> bool:
    return not any(
        claim.status.allocation or claim.metadata.finalizers
        for claim in (await cluster.list(ResourceClaim, NAMESPACE)).items
    )


_POOL_STATUS = FeatureGates(resource_pool_status=True)

ROWS = (
    LoopRow("scheduler", "VMs scheduled, a GPU each, as many nodes", _devices_and_pods, all_bound),
    LoopRow("resource claims", "claims made of a template and recorded", _pods_of_a_template, _all_recorded),
    LoopRow("resource claims", "claims of finished VMs released", _finished_vms, _all_freed),
    LoopRow("device taint eviction", "VMs evicted by one rule", _one_rule_for_all, _all_evicted),
    LoopRow(
        "device taint eviction",
        "VMs evicted, each by a rule of its own, conditions included",
        _a_rule_for_each,
        _completed,
    ),
    LoopRow("pool status", "answers about one pool", _a_request_for_each_pool, _all_answered, _POOL_STATUS),
    LoopRow("pool status", "answers about all pools", _requests_for_all_pools, _all_answered, _POOL_STATUS, 100),
)


async def _measure(row: LoopRow, number: int) -> float:
    """Seconds."""
    uids = count(1)
    cluster = row.new_cluster(virtual_now, counted_suffixes(), lambda: f"00000000-0000-4000-8000-{next(uids):012x}")
    await cluster.create(Namespace.from_wire({"metadata": {"name": NAMESPACE}}))
    await row.given(cluster, number)
    loops = row.loops or tuple(loop for loop in LOOPS if loop.name == row.loop)
    began = time.perf_counter()
    async with control_plane(
        cluster, AmbientSources(virtual_now, counted_suffixes(), lambda: 0.5), gates=row.gates, loops=loops
    ):
        while not await row.done(cluster):
            await asyncio.sleep(1)
    return time.perf_counter() - began


def main(*, quick: bool = False) -> None:
    """Print a row for each loop."""
    from bench.classic import classic_rows  # which needs what is above

    number = 500 if quick else 5000
    table = Table(
        "loop", "number", "seconds", "a second", "MiB", "of what", title="control loops, embedded, in virtual time"
    )
    for row in (*ROWS, *classic_rows()):
        seconds = run_virtually(_measure(row, number))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        units = number // row.vms_per_unit
        table.add_row(row.loop, str(units), f"{seconds:.1f}", f"{units / seconds:.0f}", str(memory), row.work)
    Console(width=120).print(table)
