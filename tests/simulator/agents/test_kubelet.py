"""A kubelet's life with claims, in virtual time: drivers that are slow, fail, vanish and come back, restarts, pods that
end (C-16)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from virt_dra.api.core_v1 import Pod
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import counted_suffixes
from virt_dra.simulator.agents.claim_manager import Prepared, PreparedClaim
from virt_dra.simulator.agents.containers import RunningContainer
from virt_dra.simulator.agents.driver import Driver
from virt_dra.simulator.agents.hardware import HardwarePool, pci_devices
from virt_dra.simulator.agents.kubelet import Kubelet
from virt_dra.simulator.virtual_time import run_virtually, virtual_now

NAME = "gpu.example.com"


@dataclass
class Node:
    cluster: MemoryCluster
    driver: Driver
    kubelet: Kubelet

    async def pod(self, name: str = "pod") -> Pod:
        return await self.cluster.get(Pod, name)

    async def start(self, name: str = "pod", device: str = "gpu-0") -> None:
        """A bound pod with an allocated claim, as claim controller and scheduler leave it."""
        self.cluster.load([bound_pod(name), allocated_claim(name, device)])

    async def events(self) -> list[tuple[str, int]]:
        events = (await self.cluster.list(unknown_kind("v1", "Event"))).items
        return [(event.to_wire()["message"], event.to_wire()["count"]) for event in events]


def bound_pod(name: str) -> Pod:
    spec = {
        "nodeName": "node-1",
        "restartPolicy": "Never",
        "containers": [{"name": "compute", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
    }
    return Pod.from_wire({"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": spec})


def allocated_claim(name: str, device: str) -> ResourceClaim:
    results = [{"request": "gpu", "driver": NAME, "pool": "node-1", "device": device}]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}],
    }
    return ResourceClaim.from_wire(
        {"metadata": {"name": name, "namespace": "default", "uid": f"uid-claim-{name}"}, "status": status}
    )


@asynccontextmanager
async def a_node(folder: Path, **options: Any) -> AsyncIterator[Node]:
    numbers = iter(range(1, 1000))
    cluster = MemoryCluster(virtual_now, counted_suffixes(), lambda: f"uid-{next(numbers)}")
    driver = Driver(cluster, (HardwarePool(NAME, "node-1", pci_devices(2), node="node-1"),))
    kubelet = Kubelet(cluster, ("node-1",), (driver,), folder, clock=virtual_now, **options)
    await kubelet.register()
    await driver.publish()
    async with kubelet.running():
        yield Node(cluster, driver, kubelet)


def virtually(folder: Path, body: Callable[[Node], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with a_node(folder, **options) as node:
            await body(node)

    run_virtually(run())


def test_a_claim_that_cannot_be_prepared_is_an_event_and_tried_again(tmp_path: Path) -> None:
    """C-16.1: the pod stays Pending."""

    async def body(node: Node) -> None:
        node.driver.failure = "no firmware"
        await node.start()
        await asyncio.sleep(1)
        problem = "prepare dynamic resources: NodePrepareResources failed for ResourceClaim pod: no firmware"
        ((message, count),) = await node.events()
        assert (message, count > 1) == (f"Failed to prepare dynamic resources: {problem}", True)
        assert (await node.pod()).status.phase == "Pending"
        node.driver.failure = ""
        await asyncio.sleep(1)
        assert (await node.pod()).status.phase == "Running"

    virtually(tmp_path, body)


def test_claims_are_given_back_before_anybody_hears_of_the_end_of_a_pod(tmp_path: Path) -> None:
    """C-16.7, C-22.12: a driver that refuses keeps the pod from ending, and its object from going."""

    async def short(container: RunningContainer) -> int:
        await asyncio.sleep(5)
        return 0

    async def body(node: Node) -> None:
        await node.start()
        node.driver.unprepare_failure = "busy"
        await asyncio.sleep(60)
        assert ((await node.pod()).status.phase, list(node.driver.prepared)) == ("Running", ["uid-claim-pod"])
        node.driver.unprepare_failure = ""
        await asyncio.sleep(1)
        assert ((await node.pod()).status.phase, list(node.driver.prepared)) == ("Succeeded", [])

    virtually(tmp_path, body, programs={"compute": short})


def test_a_restarted_kubelet_prepares_again_what_runs_and_gives_back_what_has_gone(tmp_path: Path) -> None:
    """C-22.11, C-22.16: of pods that were deleted by force meanwhile, within a minute."""

    async def run() -> None:
        async with a_node(tmp_path) as node:
            await node.start("stays", "gpu-0")
            await node.start("goes", "gpu-1")
            await asyncio.sleep(1)
        await node.cluster.delete(Pod, "goes")
        del node.driver.prepared["uid-claim-stays"]  # so that what is prepared again is seen
        async with node.kubelet.running():
            await asyncio.sleep(1)
            assert list(node.driver.prepared) == ["uid-claim-goes", "uid-claim-stays"]
            await asyncio.sleep(60)
            assert list(node.driver.prepared) == ["uid-claim-stays"]

    run_virtually(run())


def test_the_slices_of_a_driver_whose_plugin_is_gone_are_deleted_after_half_a_minute(tmp_path: Path) -> None:
    """C-16.9: not when it only restarts."""

    async def body(node: Node) -> None:
        async def published() -> int:
            return len((await node.cluster.list(ResourceSlice)).items)

        node.driver.registered = False
        await asyncio.sleep(25)
        node.driver.registered = True
        await asyncio.sleep(25)
        assert await published() == 1
        node.driver.registered = False
        await asyncio.sleep(32)
        assert await published() == 0
        await node.driver.come_back()
        assert await published() == 1

    virtually(tmp_path, body)


def test_a_driver_checks_what_it_is_asked_for_itself(tmp_path: Path) -> None:
    """C-16.8: it gets names and a UID only, reads the claim, and refuses one that was replaced, isn't allocated or
    isn't its own."""

    async def body(node: Node) -> None:
        await node.start()
        asked = [PreparedClaim("default", "pod", "other"), PreparedClaim("default", "gone", "uid-gone")]
        assert await node.driver.prepare_claims("node-1", asked) == {
            "other": "claim default/pod got replaced",
            "uid-gone": 'retrieve claim default/gone: resourceclaims.resource.k8s.io "gone" not found',
        }
        own = PreparedClaim("default", "pod", "uid-claim-pod")
        assert await node.driver.prepare_claims("node-2", [own]) == {
            own.uid: "device node-1/gpu-0 is not on node node-2"
        }
        first = (await node.driver.prepare_claims("node-1", [own]))[own.uid]
        assert isinstance(first, Prepared)
        assert await node.driver.prepare_claims("node-1", [own]) == {own.uid: first}
        assert await node.driver.unprepare_claims("node-1", [own, asked[1]]) == {own.uid: "", "uid-gone": ""}
        claim = await node.cluster.get(ResourceClaim, "pod")
        await node.cluster.update_status(claim.without("status"))
        assert await node.driver.prepare_claims("node-1", [own]) == {own.uid: "claim default/pod not allocated"}

    virtually(tmp_path, body, start_delay=1000.0)
