"""The extender beside the real kube-scheduler: pods go where the simulator says that the policy puts them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from devtools.cluster.control_plane import ControlPlane
from tests.extender.objects import GPU_CLASS, claim, gpus, node, template
from virt_dra.allocator import Features
from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.feature_gates import PLAIN
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.cluster.kube.cluster import KubeCluster, connect
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.extender.advising_process import AdvisorSettings
from virt_dra.extender.configuration import scheduler_configuration
from virt_dra.extender.following import FollowedCluster
from virt_dra.extender.metrics import ExtenderMetrics
from virt_dra.extender.server import ExtenderPorts, ExtenderServer
from virt_dra.model.cluster import ClusterModel
from virt_dra.scheduling.policies.placer import VmShape
from virt_dra.simulator.experiment.engine import Simulation
from virt_dra.simulator.experiment.model import Arrival, Experiment

pytestmark = [pytest.mark.control_plane, pytest.mark.slow]

NODES = [f"n{number:02}" for number in range(10)]
GPUS = 4
SIZES = tuple(Random(5).choice((1, 1, 1, 2, 2, 4)) for _ in range(24))


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as running:
        running.start_controllers("resourceclaim-controller")
        yield running


def experiment() -> Experiment:
    """The same cluster and VMs, one after the other."""
    shapes = {count: VmShape(f"vm-{count}", _pod("p", count), (claim("c", count),)) for count in set(SIZES)}
    arrivals = [Arrival(float(number), shapes[count], f"vm-{number:02}") for number, count in enumerate(SIZES)]
    nodes = tuple(map(node, NODES))
    cluster = ClusterModel([*nodes, *(gpus(name, GPUS) for name in NODES), GPU_CLASS])
    return Experiment(cluster, nodes, arrivals, features=Features.from_gates(PLAIN), nodes_only=True)


def _pod(name: str, count: int) -> Pod:
    spec: dict[str, Any] = {
        "schedulingGates": [{"name": "example.com/turn"}],
        "containers": [{"name": "compute", "image": "i", "resources": {"requests": {"cpu": "2"}}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": f"gpus-{count}"}],
    }
    return Pod.from_wire({"metadata": {"name": name, "namespace": "vms"}, "spec": spec})


async def prepare(cluster: KubeCluster) -> None:
    """The pods wait for their turn, so that the workload is known, as it is to the simulator."""
    await cluster.create(Namespace.from_wire({"metadata": {"name": "vms"}}))
    await cluster.create(GPU_CLASS)
    for name in NODES:
        await cluster.create(node(name))
        await cluster.patch(Node, name, merge={"spec": {"taints": None}})
        await cluster.create(gpus(name, GPUS))
    for count in sorted(set(SIZES)):
        await cluster.create(template(count))
    for number, count in enumerate(SIZES):
        await cluster.create(_pod(f"vm-{number:02}", count))
    async with asyncio.timeout(60):
        while len((await cluster.list(ResourceClaim, "vms")).items) < len(SIZES):
            await asyncio.sleep(0.1)


async def released(cluster: KubeCluster) -> dict[str, str]:
    """Let one after the other be scheduled; where each is. One that fits nowhere is left waiting."""
    nodes: dict[str, str] = {}
    for number in range(len(SIZES)):
        name = f"vm-{number:02}"
        await cluster.patch(Pod, name, "vms", merge={"spec": {"schedulingGates": None}})
        async with asyncio.timeout(60):
            while True:
                pod = await cluster.get(Pod, name, "vms")
                if pod.spec.node_name:
                    nodes[name] = pod.spec.node_name
                if pod.spec.node_name or any(
                    condition.reason == "Unschedulable" for condition in pod.status.conditions
                ):
                    break
                await asyncio.sleep(0.02)
    return nodes


@asynccontextmanager
async def extender(cluster: KubeCluster, policy: str) -> AsyncIterator[tuple[int, ExtenderMetrics]]:
    followed = FollowedCluster(cluster, AdvisorSettings(policy, Features.from_gates(PLAIN)))
    metrics = ExtenderMetrics()
    async with (
        ExtenderServer(followed, metrics).serving(ExtenderPorts(port=0, plain_port=0)) as ports,
        followed.following(),
    ):
        async with asyncio.timeout(60):
            while not followed.process.ready:
                await asyncio.sleep(0.05)
        yield ports[0], metrics


@pytest.mark.parametrize("policy", ["pack", "spread", "least-fragmentation"])
async def test_pods_go_where_the_simulator_says(plane: ControlPlane, policy: str) -> None:
    simulation = Simulation(experiment(), policy)
    simulation.run()
    async with connect(str(plane.kubeconfig), limits=ClientLimits(qps=0, attempts=1)) as cluster:
        await prepare(cluster)
        async with extender(cluster, policy) as (port, metrics):
            plane.start_scheduler(scheduler_configuration(f"http://127.0.0.1:{port}"))
            pods = await released(cluster)
            assert b'virt_dra_extender_answers_total{verb="prioritize",verdict="scored"}' in metrics.text()
    assert pods == simulation.placements


async def test_without_an_extender_that_answers_pods_are_scheduled_as_before(plane: ControlPlane) -> None:
    async with connect(str(plane.kubeconfig), limits=ClientLimits(qps=0, attempts=1)) as cluster:
        await prepare(cluster)
        plane.start_scheduler(scheduler_configuration("http://127.0.0.1:9"))
        pods = await released(cluster)
        used = sum(SIZES[int(name.removeprefix("vm-"))] for name in pods)
        assert used > 0.75 * GPUS * len(NODES)
        assert {
            slice_.node_name for slice_ in (slice_.spec for slice_ in (await cluster.list(ResourceSlice)).items)
        } == set(NODES)
