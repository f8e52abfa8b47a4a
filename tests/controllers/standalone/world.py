"""A cluster in memory without KubeVirt, and what else lives on it: the claim controller, the scheduler, and a kubelet
played by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.controllers.listed_sources import ListedSources
from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import GPUS_WITH_DRA, HOST_DEVICES_WITH_DRA, NEWEST, Gates
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import Cluster, NotFound
from virt_dra.controllers.events import Event
from virt_dra.controllers.loops import claims
from virt_dra.controllers.loops.scheduler import batch as scheduler
from virt_dra.controllers.standalone import reconcile as standalone
from virt_dra.controllers.standalone import vm_lifecycle
from virt_dra.controllers.standalone.pod import StandaloneOptions

START = datetime(2026, 11, 21, 9, tzinfo=UTC)
SETTINGS = standalone.StandaloneSettings(
    Gates.for_version(NEWEST, {GPUS_WITH_DRA: True, HOST_DEVICES_WITH_DRA: True}),
    StandaloneOptions("registry.example.com/virt-dra-launcher:1"),
)


def slice_of(node: str, devices: int) -> ResourceSlice:
    return ResourceSlice.from_wire({
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"d{number}",
                    "attributes": {"resource.kubernetes.io/pciBusID": {"string": f"0000:{number + 1:02x}:00.0"}}}
                for number in range(devices)
            ],
        },
    })  # fmt: skip


def vmi_spec(gpus: int = 1) -> Json:
    return {
        "resourceClaims": [{"name": f"claim{n}", "resourceClaimTemplateName": "one-gpu"} for n in range(gpus)],
        "domain": {
            "devices": {
                "gpus": [{"name": f"gpu{n}", "claimName": f"claim{n}", "requestName": "gpu"} for n in range(gpus)]
            }
        },
    }


def vm(name: str, strategy: str = "Always", gpus: int = 1) -> VirtualMachine:
    return VirtualMachine.from_wire(
        {
            "metadata": {"name": name, "namespace": "lab"},
            "spec": {"runStrategy": strategy, "template": {"spec": vmi_spec(gpus)}},
        }
    )


@dataclass
class World:
    memory: MemoryCluster
    now: datetime = START
    events: list[Event] = field(default_factory=list)

    @classmethod
    async def made(cls, nodes: int = 1, devices: int = 2) -> World:
        world = cls(MemoryCluster.deterministic(START))
        await world.memory.create(Namespace(metadata=ObjectMeta(name="lab")))
        for number in range(nodes):
            name = f"node-{number}"
            labels = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64"}
            await world.memory.create(Node(metadata=ObjectMeta(name=name, labels=labels)))
            await world.memory.create(slice_of(name, devices))
        device_class = {
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
        }
        await world.memory.create(DeviceClass.from_wire(device_class))
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
        template = {
            "metadata": {"name": "one-gpu", "namespace": "lab"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
        await world.memory.create(ResourceClaimTemplate.from_wire(template))
        return world

    async def operator(self, cluster: Cluster | None = None) -> int:
        """One look at every VM and VMI, written to ``cluster`` if given. How many writes that took."""
        written, cluster = 0, cluster or self.memory
        for vm in (await self.memory.list(VirtualMachine)).items:
            done = await vm_lifecycle.reconcile(vm, await ListedSources.read(self.memory), cluster, self.now)
            self.events += done.events
            written += done.written
        for vmi in (await self.memory.list(VirtualMachineInstance)).items:
            sources = await ListedSources.read(self.memory)
            reconciled = await standalone.reconcile(sources, cluster, vmi.key, self.now, SETTINGS)
            self.events += reconciled.events
            written += reconciled.written
        return written

    async def others(self) -> None:
        """The claim controller and the scheduler."""
        await claims.reconcile(self.memory)
        await scheduler.apply(self.memory, scheduler.plan(await scheduler.gather(self.memory, "")), self.now)

    async def settle(self) -> None:
        """Everybody, until nobody has anything to do."""
        for _ in range(20):
            version = self.memory.resource_version
            await self.operator()
            await self.others()
            if self.memory.resource_version == version:
                return
        raise AssertionError("nothing settles")

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    async def pod(self, name: str) -> Pod:
        """The only pod of a VMI."""
        (pod,) = [
            pod
            for pod in (await self.memory.list(Pod, "lab")).items
            if any(o.name == name for o in pod.metadata.owner_references)
        ]
        return pod

    async def vmi(self, name: str) -> VirtualMachineInstance | None:
        try:
            return await self.memory.get(VirtualMachineInstance, name, "lab")
        except NotFound:
            return None

    async def pod_says(self, name: str, phase: str, *, ready: bool = False, ended: Json | None = None) -> None:
        """What the kubelet writes into the pod's status."""
        state: Json = {"terminated": ended} if ended else {"running": {}}
        status = {"phase": phase, "containerStatuses": [{"name": "compute", "ready": ready, "state": state}]}
        await self.memory.patch(Pod, (await self.pod(name)).name, "lab", merge={"status": status}, subresource="status")

    def told(self) -> list[tuple[str, str, str]]:
        """The events since the last time: on what, reason, message."""
        told = [(f"{event.kind} {event.name}", event.reason, event.message) for event in self.events]
        self.events.clear()
        return told
