"""The row of the classic control plane among those of the loops. Goes with ``virt_dra.classic``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.loops import NAMESPACE, LoopRow, all_bound
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.classic.driver import AllocationRefused, PendingClaim, on_node
from virt_dra.classic.driver_controller import DriverController
from virt_dra.classic.objects import ClassicAllocation, ClassicClaim
from virt_dra.classic.rules import classic_cluster
from virt_dra.classic.versions import read_classic
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.simulator.control_plane import CLASSIC_LOOPS, LoopKind


class _Everywhere:
    """A classic driver that always has a device on the node that is asked for."""

    name = "gpu.example.com"

    async def allocate(
        self, claims: Sequence[PendingClaim], node: str
    ) -> Sequence[ClassicAllocation | AllocationRefused]:
        return [on_node(self.name, data="gpu", node=node) for _ in claims]

    async def deallocate(self, claim: ClassicClaim) -> None:
        """Nothing to free."""

    async def unsuitable_nodes(
        self, pod: Pod, claims: Sequence[PendingClaim], nodes: Sequence[str]
    ) -> Sequence[Sequence[str]]:
        return [[] for _ in claims]


async def _classic_pods(cluster: MemoryCluster, number: int) -> None:
    """Each VM's pod has a claim of a template, on a hundredth as many nodes."""
    v1alpha2, named = "resource.k8s.io/v1alpha2", {"name": "gpu", "namespace": NAMESPACE}
    await cluster.create(
        read_classic(
            {
                "apiVersion": v1alpha2,
                "kind": "ResourceClass",
                "metadata": {"name": "gpu"},
                "driverName": _Everywhere.name,
            }
        )
    )
    template = {
        "apiVersion": v1alpha2,
        "kind": "ResourceClaimTemplate",
        "metadata": named,
        "spec": {"spec": {"resourceClassName": "gpu"}},
    }
    await cluster.create(read_classic(template))
    for index in range(max(number // 100, 1)):
        status = {"allocatable": {"pods": "250"}}
        await cluster.create(Node.from_wire({"metadata": {"name": f"node-{index:05d}"}, "status": status}))
    for index in range(number):
        spec = {
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
            "containers": [{"name": "compute", "image": "launcher"}],
        }
        raw = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"vm-{index}", "namespace": NAMESPACE},
            "spec": spec,
        }
        await cluster.create(read_classic(raw))


def classic_rows() -> Iterator[LoopRow]:
    """Measured with the controller of a driver, whose work is part of it."""
    loops = (*CLASSIC_LOOPS, LoopKind("driver", lambda context: DriverController(context, _Everywhere())))
    work = "VMs scheduled, a claim of a driver each"
    yield LoopRow("classic DRA", work, _classic_pods, all_bound, loops=loops, new_cluster=classic_cluster)
