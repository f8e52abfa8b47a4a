"""The base of the device_status cases on a cluster in memory beside a KubeVirt, and one reconcile of all its VMIs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.controllers.changed_objects import base_of, changed
from tests.controllers.listed_sources import ListedSources
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import Condition, TypedObject
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.controllers.beside_kubevirt import reconcile as beside_kubevirt
from virt_dra.controllers.reconciled import Reconciled
from virt_dra.inventory.vm_rows import vm_rows
from virt_dra.model.cluster import ClusterModel

CASES = Path(__file__).parent / "devices" / "cases" / "device_status"
BASE = base_of(CASES)
NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
POD = "virt-launcher-fedora-x7k2p"
CLAIM = "fedora-gpus-abcde"


def objects(
    changes: Mapping[str, object] | None = None,
) -> tuple[TypedObject, ...]:
    """What the base has, changed."""
    raw = changed(BASE, dict(changes or {}))
    return (
        VirtualMachineInstance.from_wire(raw["vmi"]),
        *(VirtualMachine.from_wire(raw[name]) for name in ("vm",) if name in raw),
        *(Pod.from_wire(raw[name]) for name in ("pod", "pod2") if name in raw),
        *(ResourceClaim.from_wire(claim) for claim in raw.get("claims", [])),
        *(ResourceSlice.from_wire(slice_) for slice_ in raw.get("slices", [])),
        *(DeviceTaintRule.from_wire(rule) for rule in raw.get("rules", [])),
        *(DeviceClass.from_wire(class_) for class_ in raw.get("classes", [])),
    )


@dataclass
class World:
    memory: MemoryCluster
    now: datetime = NOW

    @classmethod
    def with_changes(cls, changes: Mapping[str, object] | None = None) -> World:
        memory = MemoryCluster.deterministic(NOW)
        memory.load(objects(changes))
        return cls(memory)

    async def reconcile(self, key: str = "lab/fedora", explained: Condition | None = None) -> Reconciled:
        """``explained``: the new condition Allocatable."""
        sources = await ListedSources.read(self.memory)
        reconciled = await beside_kubevirt.reconcile(
            sources, self.memory, key, self.now, explain=lambda inputs, previous: explained
        )
        await self._shown_alike(key)
        return reconciled

    async def _shown_alike(self, key: str) -> None:
        """``virt-dra get vms`` shows the devices as the operator's object does."""
        kinds = (VirtualMachineInstance, Pod, ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule)
        shown = [
            obj for kind in (*kinds, VirtualMachineInstanceDevices) for obj in (await self.memory.list(kind)).items
        ]
        model = ClusterModel(shown)
        stored = model.by_key(VirtualMachineInstanceDevices).get(key)
        vmi = model.by_key(VirtualMachineInstance).get(key)
        if stored is None or vmi is None or not stored.is_controlled_by(vmi):
            return
        if stored.status.pod_uid and stored.status.pod_uid not in {pod.metadata.uid for pod in model.of(Pod)}:
            return  # the operator deleted the pod just now
        (row,) = [row for row in vm_rows(model, self.now) if row.identity == key]
        assert row.ready == stored.status.ready
        if any(device.reason == "NotAllocated" for device in stored.status.devices):
            return  # the row has the reason of the condition Allocatable
        reasons = {(device.kind, device.name): device.reason for device in row.devices}
        assert reasons == {(device.kind, device.name): device.reason or "" for device in stored.status.devices}

    async def told(self, key: str = "lab/fedora") -> list[tuple[str, str, str]]:
        """Type, reason and message of the events of one reconcile."""
        return [(event.type, event.reason, event.message) for event in (await self.reconcile(key)).events]

    async def vmi(self, name: str = "fedora") -> VirtualMachineInstance:
        return await self.memory.get(VirtualMachineInstance, name, "lab")

    async def pod(self, name: str = POD) -> Pod:
        return await self.memory.get(Pod, name, "lab")

    async def devices(self, name: str = "fedora") -> VirtualMachineInstanceDevices:
        return await self.memory.get(VirtualMachineInstanceDevices, name, "lab")

    async def status(self, name: str = "fedora") -> Json:
        status: Json = (await self.devices(name)).to_wire()["status"]
        return status

    async def conditions(self, name: str = "fedora") -> dict[str, tuple[str, str]]:
        """Type -> status and reason."""
        return {
            condition.type: (condition.status, condition.reason)
            for condition in (await self.devices(name)).status.conditions
        }

    async def runs(self) -> None:
        """KubeVirt says that the VMI runs."""
        vmi = await self.vmi()
        await self.memory.update(vmi.with_(status=vmi.status.with_(phase="Running", node_name="node-a")))

    async def allocate(self) -> None:
        """The scheduler allocates and reserves the claim as in the base."""
        claim = await self.memory.get(ResourceClaim, CLAIM, "lab")
        await self.memory.update_status(
            ResourceClaim.from_wire(claim.to_wire() | {"status": BASE["claims"][0]["status"]})
        )
