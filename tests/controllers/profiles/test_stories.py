"""VMs with lines of profiles on the embedded cluster: from the VMI as it is admitted to its claims, and what is said
where these can't be made."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from devtools.agents.worlds import eventually
from tests.controllers.listed_sources import ListedSources
from tests.controllers.operator.ambient import ambient
from tests.controllers.operator.inline_explanations import InlineExplanations
from tests.controllers.profiles.asking_vms import NAMESPACE, by_name, profile, vm
from tests.controllers.standalone import world as standalone_world
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import Condition, ObjectMeta, ObjectT
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.instances import admitted_instance
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import Forbidden
from virt_dra.controllers.beside_kubevirt import reconcile as beside_kubevirt
from virt_dra.controllers.events import Event
from virt_dra.controllers.loops import claims
from virt_dra.controllers.loops.virtual_machines import instance_of
from virt_dra.controllers.operator.explanation_worker import ExplanationResult
from virt_dra.controllers.operator.instance_loop import InstanceLoop, LoopSettings
from virt_dra.controllers.operator.profile_fit import fit_in, with_status
from virt_dra.controllers.pods.launcher_pods import COMPUTE
from virt_dra.controllers.reconciled import Reconciled

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = "lab/vm"


class Quota(MemoryCluster):
    """Takes no template as long as a quota is exceeded."""

    exceeded = True

    async def create(self, obj: ObjectT) -> ObjectT:
        if isinstance(obj, ResourceClaimTemplate) and self.exceeded:
            raise Forbidden(f'"{obj.name}" is forbidden: exceeded quota: gpus')
        return await super().create(obj)


@dataclass
class Beside:
    """A cluster with a KubeVirt that does nothing by itself."""

    memory: MemoryCluster = field(default_factory=lambda: MemoryCluster.deterministic(NOW))
    events: list[tuple[str, str, str]] = field(default_factory=list)
    """Since they were last asked for: kind, reason and message."""

    async def prepared(self, *objects: Any) -> Beside:
        for obj in (NAMESPACE, *objects):
            await self.memory.create(obj.with_(metadata=ObjectMeta(name=obj.name, namespace=obj.namespace)))
        return self

    async def prepared_vms(self, *lines: str | None) -> None:
        """A VM without a VMI for each line."""
        for number, line in enumerate(lines):
            made = vm(line, f"vm-{number}", runStrategy="Halted")
            await self.memory.create(made.with_(metadata=ObjectMeta(name=made.name, namespace="lab")))

    async def start(self) -> VirtualMachineInstance:
        """The VM's VMI, as the webhook leaves it."""
        machine = await self.memory.get(VirtualMachine, "vm", "lab")
        profiles = by_name(*(await self.memory.list(DeviceProfile)).items)
        made = admitted_instance(instance_of(machine), profiles, NAMESPACE.metadata.labels)
        return await self.memory.create(made)

    async def look(self) -> Reconciled:
        sources = await ListedSources.read(self.memory)
        done = await beside_kubevirt.reconcile(sources, self.memory, KEY, NOW)
        self.events += [_said(event) for event in done.events]
        return done

    def told(self) -> list[tuple[str, str, str]]:
        told, self.events = self.events, []
        return told

    async def conditions(self) -> dict[str, tuple[str, str]]:
        """Status and reason by type, of the VMI's devices object."""
        devices = await self.memory.get(VirtualMachineInstanceDevices, "vm", "lab")
        return {condition.type: (condition.status, condition.reason) for condition in devices.status.conditions}

    async def templates(self) -> list[str]:
        return [template.name for template in (await self.memory.list(ResourceClaimTemplate, "lab")).items]


def _answer(status: str, reason: str, message: str, **rest: Any) -> ExplanationResult:
    return ExplanationResult(Condition(type="Allocatable", status=status, reason=reason, message=message), **rest)


def _said(event: Event) -> tuple[str, str, str]:
    return event.kind, event.reason, event.message


async def test_the_claims_of_a_line_are_made_for_its_launcher_pod() -> None:
    world = await Beside().prepared(vm(), profile())
    instance = await world.start()
    assert (await world.look()).written > 0
    assert await world.templates() == ["vm-gpu"]
    assert await world.conditions() == {
        "DevicesResolved": ("False", "PodMissing"),
        "DevicesHealthy": ("Unknown", "DevicesNotResolved"),
        "ProfilesApplied": ("True", "AsAsked"),
    }
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm", "controller": True}
    await world.memory.create(Pod.from_wire({
        "metadata": {"name": "virt-launcher-vm", "namespace": "lab", "labels": {"kubevirt.io": "virt-launcher"},
                     "ownerReferences": [owner | {"uid": instance.metadata.uid}]},
        "spec": {"containers": [{"name": COMPUTE, "image": "i"}],
                 "resourceClaims": [entry.to_wire() for entry in instance.spec.resource_claims]},
    }))  # fmt: skip
    await claims.reconcile(world.memory)
    (claim,) = (await world.memory.list(ResourceClaim, "lab")).items
    assert [request.name for request in claim.spec.devices.requests] == ["gpu"]
    await world.look()
    assert (await world.look()).written == 0
    assert world.told() == []


async def test_a_refused_template_is_said_of_vm_and_vmi_and_made_once_it_is_allowed() -> None:
    memory = Quota.deterministic(NOW)
    world = await Beside(memory).prepared(vm(), profile())
    await world.start()
    await world.look()
    text = 'creating ResourceClaimTemplate lab/vm-gpu: "vm-gpu" is forbidden: exceeded quota: gpus'
    assert world.told() == [
        ("VirtualMachineInstance", "WriteRefused", text),
        ("VirtualMachine", "WriteRefused", text),
    ]
    assert await world.conditions() == {
        "DevicesResolved": ("False", "ClaimTemplateRefused"),
        "DevicesHealthy": ("Unknown", "DevicesNotResolved"),
        "ProfilesApplied": ("False", "ClaimTemplateRefused"),
    }
    devices = await memory.get(VirtualMachineInstanceDevices, "vm", "lab")
    assert [(device.name, device.state, device.message) for device in devices.status.devices] == [
        ("gpu", "Pending", text)
    ]

    memory.exceeded = False
    await world.look()
    solved = "the VM has the devices that its line of profiles stands for"
    assert world.told() == [
        ("VirtualMachine", "ProfilesApplied", solved),
        ("VirtualMachineInstance", "ProfilesApplied", solved),
    ]
    assert (await world.conditions())["ProfilesApplied"] == ("True", "AsAsked")
    assert await world.templates() == ["vm-gpu"]


async def test_a_restarted_vm_waits_until_the_template_of_its_last_run_is_gone() -> None:
    world = await Beside().prepared(vm(), profile())
    second = await world.start()
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm", "uid": "of the first run"}
    held = {"finalizers": ["example.com/slow"], "labels": {"virt-dra.io/device-profile": "h100"}}
    await world.memory.create(ResourceClaimTemplate.from_wire({
        "metadata": {"name": "vm-gpu", "namespace": "lab", "ownerReferences": [owner | {"controller": True}], **held},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
    }))  # fmt: skip
    await world.look()
    assert (await world.conditions())["ProfilesApplied"] == ("False", "ClaimTemplateBeingDeleted")
    stored = await world.memory.get(ResourceClaimTemplate, "vm-gpu", "lab")
    assert stored.metadata.deletion_timestamp is not None  # nobody waits for the garbage collector
    assert (await world.look()).written == 0
    await world.memory.patch(ResourceClaimTemplate, "vm-gpu", "lab", merge={"metadata": {"finalizers": None}})
    await world.look()
    (again,) = (await world.memory.list(ResourceClaimTemplate, "lab")).items
    assert [owner.uid for owner in again.metadata.owner_references] == [second.metadata.uid]
    assert (await world.conditions())["ProfilesApplied"] == ("True", "AsAsked")


async def test_a_late_watch_of_vmis_deletes_no_template_of_the_vmi_that_there_is() -> None:
    world = await Beside().prepared(vm(), profile())
    first = await world.start()
    await world.memory.delete(VirtualMachineInstance, "vm", "lab")
    await world.start()
    await world.look()
    before = await world.memory.get(ResourceClaimTemplate, "vm-gpu", "lab")
    assert not before.is_controlled_by(first)
    late = ListedSources([first], profiles=[profile()], namespaces=[NAMESPACE], templates=[before])
    await beside_kubevirt.reconcile(late, world.memory, KEY, NOW)
    assert await world.memory.get(ResourceClaimTemplate, "vm-gpu", "lab") == before


@pytest.mark.parametrize("labels", [{}, {"virt-dra.io/device-profile": "h100"}])
async def test_a_template_of_somebody_else_is_left_alone_and_said(labels: Json) -> None:
    """Without our label it isn't watched, and is found only as the creation fails."""
    request = {"name": "other", "exactly": {"deviceClassName": "gpu"}}
    other = ResourceClaimTemplate.from_wire({
        "metadata": {"name": "vm-gpu", "namespace": "lab", "labels": labels},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    })  # fmt: skip
    world = await Beside().prepared(vm(), profile())
    stored = await world.memory.create(other)
    await world.start()
    done = await world.look()
    text = (
        "ResourceClaimTemplate lab/vm-gpu exists and isn't the VMI's; delete it, or give the item of "
        "virt-dra.io/devices another name"
    )
    assert world.told() == [
        ("VirtualMachine", "ClaimTemplateNameTaken", text),
        ("VirtualMachineInstance", "ClaimTemplateNameTaken", text),
    ]
    assert (done.stale, done.requeue_at) == (False, NOW.replace(second=30))
    assert (await world.conditions())["DevicesResolved"] == ("False", "ClaimTemplateNameTaken")
    await world.look()
    assert world.told() == []
    (kept,) = (await world.memory.list(ResourceClaimTemplate, "lab")).items
    assert kept == stored


async def test_a_changed_and_a_deleted_profile_are_said_once_and_change_nothing() -> None:
    world = await Beside().prepared(vm(), profile())
    await world.start()
    await world.look()
    (before,) = (await world.memory.list(ResourceClaimTemplate, "lab")).items
    changed = {"spec": {"devices": [{"name": "card", "deviceClassName": "gpu", "count": 2}]}}
    await world.memory.patch(DeviceProfile, "h100", merge=changed)
    for _ in range(2):
        await world.look()
    text = "DeviceProfile h100 was changed since the VM was started; restart the VM to get what it asks for now"
    assert world.told() == [
        ("VirtualMachine", "DeviceProfileChanged", text),
        ("VirtualMachineInstance", "DeviceProfileChanged", text),
    ]
    await world.memory.delete(DeviceProfile, "h100")
    for _ in range(2):
        await world.look()
    assert [(kind, reason) for kind, reason, _ in world.told()] == [
        ("VirtualMachine", "DeviceProfileDeleted"),
        ("VirtualMachineInstance", "DeviceProfileDeleted"),
    ]
    assert await world.conditions() == {
        "DevicesResolved": ("False", "PodMissing"),
        "DevicesHealthy": ("Unknown", "DevicesNotResolved"),
        "ProfilesApplied": ("False", "DeviceProfileDeleted"),
    }
    (after,) = (await world.memory.list(ResourceClaimTemplate, "lab")).items
    assert after == before


async def test_a_vmi_that_lacks_its_devices_has_an_object_that_says_so() -> None:
    world = await Beside().prepared(vm(), profile())
    machine = await world.memory.get(VirtualMachine, "vm", "lab")
    await world.memory.create(instance_of(machine))
    await world.look()
    assert await world.conditions() == {
        "DevicesResolved": ("False", "DevicesNotWritten"),
        "DevicesHealthy": ("True", "AllDevicesHealthy"),
        "ProfilesApplied": ("False", "DevicesNotWritten"),
    }
    assert [(kind, reason) for kind, reason, _ in world.told()] == [
        ("VirtualMachine", "DevicesNotWritten"),
        ("VirtualMachineInstance", "DevicesNotWritten"),
    ]
    assert await world.templates() == []


class Silent:
    """An observer that records nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


async def test_the_operator_follows_profiles_namespaces_and_templates() -> None:
    """A profile that comes late, for a namespace that gets its label later; a template that somebody deletes."""
    restricted = profile(namespaceSelector={"matchLabels": {"allowed": "yes"}})
    world = await Beside().prepared(vm(), profile())
    await world.start()
    await world.memory.delete(DeviceProfile, "h100")
    loop = InstanceLoop(world.memory, LoopSettings(), ambient(lambda: NOW), Silent(), InlineExplanations())
    tasks = [asyncio.create_task(loop.run_informers()), asyncio.create_task(loop.run_workers())]

    async def says(reason: str) -> None:
        await eventually(world.conditions, lambda conditions: conditions["ProfilesApplied"][1] == reason)

    await says("DeviceProfileDeleted")
    assert await world.templates() == []
    await world.memory.create(restricted.with_(metadata=ObjectMeta(name="h100")))
    await says("DeviceProfileChanged")
    assert await world.templates() == []
    await world.memory.patch(type(NAMESPACE), "lab", merge={"metadata": {"labels": {"allowed": "yes"}}})
    await eventually(world.templates, lambda templates: templates == ["vm-gpu"])
    await world.memory.delete(ResourceClaimTemplate, "vm-gpu", "lab")
    await eventually(world.templates, lambda templates: templates == ["vm-gpu"])
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _gpus(node: str, number: int) -> ResourceSlice:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{index}"} for index in range(number)]
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices}
    return ResourceSlice.from_wire({"metadata": {"name": node}, "spec": spec})


async def test_a_profile_says_who_asks_for_it_and_where_it_fits() -> None:
    two = profile("pair", devices=[{"name": "card", "deviceClassName": "gpu", "count": 2}])
    selectors = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
    gpu = DeviceClass.from_wire({"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}})
    nodes = [Node.from_wire({"metadata": {"name": name}}) for name in ("a", "b", "c")]
    world = await Beside().prepared(two, gpu, *nodes, _gpus("a", 2), _gpus("b", 3), _gpus("c", 1))
    await world.prepared_vms("pair", "gpu=pair x 2, pair", None)
    loop = InstanceLoop(world.memory, LoopSettings(), ambient(lambda: NOW), Silent(), InlineExplanations())
    tasks = [asyncio.create_task(loop.run_informers()), asyncio.create_task(loop.run_workers())]

    async def status() -> Json:
        return (await world.memory.get(DeviceProfile, "pair")).status.to_wire()

    assert await eventually(status, lambda status: "vms" in status) == {"vms": 2, "fittingNodes": 2}
    many = {"spec": {"devices": [{"name": "card", "deviceClassName": "gpu", "count": 4}]}}
    await world.memory.patch(DeviceProfile, "pair", merge=many)
    assert await eventually(status, lambda status: status.get("fittingNodes") == 0) == {
        "vms": 2,
        "fittingNodes": 0,
        "reason": "NoNodeFits",
        "message": "0 of 3 nodes can take the pod: 1 node (b), claim DeviceProfile/pair, request card-4: 3 devices: "
        "taken by another request of the same pod; 1 node (a), claim DeviceProfile/pair, request card-3: 2 devices: "
        "taken by another request of the same pod; 1 node (c), claim DeviceProfile/pair, request card-2: 1 device: "
        "taken by another request of the same pod",
    }
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (_answer("True", "ClaimsFit", "fits", fitting=3, tried=64), {"fittingNodes": 3}),
        (
            _answer("True", "ClaimsFit", "fits", fitting=3, tried=60),
            {"fittingNodes": 3, "message": "of 60 of the cluster's 64 nodes"},
        ),
        (
            _answer("False", "NoNodeFits", "in use", fitting=0, tried=64),
            {"fittingNodes": 0, "reason": "NoNodeFits", "message": "in use"},
        ),
        (
            _answer("Unknown", "NotDecided", "invalid slices"),
            {"reason": "NotDecided", "message": "invalid slices"},
        ),
        (
            _answer("Unknown", "NotDecided", "why the pod waits", too_slow=True),
            {"reason": "NotDecided", "message": "evaluating the profile's devices took too long"},
        ),
    ],
)
def test_a_profiles_status_is_what_the_worker_answered(answer: ExplanationResult, status: Json) -> None:
    condition = {"type": "Another", "status": "True"}
    before = profile(status={"vms": 1, "fittingNodes": 9, "reason": "Old", "message": "old", "conditions": [condition]})
    after = with_status(before, 2, fit_in(answer, 64))
    assert after.status.to_wire() == {"vms": 2, "conditions": [condition], **status}


async def test_without_kubevirt_a_vms_line_is_written_out_as_its_vmi_is_made() -> None:
    world = await standalone_world.World.made()
    await world.memory.create(profile().with_(metadata=ObjectMeta(name="h100")))
    await world.memory.create(vm().with_(metadata=ObjectMeta(name="vm", namespace="lab")))
    await world.settle()
    instance = await world.vmi("vm")
    assert instance is not None
    assert [gpu.to_wire() for gpu in instance.spec.domain.devices.gpus] == [
        {"name": "gpu", "claimName": "gpu", "requestName": "gpu"}
    ]
    conditions = {condition["type"]: condition["status"] for condition in instance.status.conditions}
    assert (conditions["ProfilesApplied"], conditions["DevicesResolved"]) == ("True", "True")
    (claim,) = (await world.memory.list(ResourceClaim, "lab")).items
    assert claim.status.allocation is not None


async def test_without_kubevirt_a_vm_with_a_refused_line_starts_once_it_is_put_right() -> None:
    world = await standalone_world.World.made()
    await world.memory.create(vm().with_(metadata=ObjectMeta(name="vm", namespace="lab")))
    await world.settle()
    text = 'metadata.annotations[virt-dra.io/devices]: Not found: "h100": there is no DeviceProfile of this name'
    assert world.told() == [("VirtualMachine vm", "DevicesLineRefused", text)]
    assert await world.vmi("vm") is None
    machine = await world.memory.get(VirtualMachine, "vm", "lab")
    failures = [condition for condition in machine.status["conditions"] if condition["type"] == "Failure"]
    assert [(failure["status"], failure["reason"], failure["message"]) for failure in failures] == [
        ("True", "DevicesLineRefused", text)
    ]
    await world.memory.create(profile().with_(metadata=ObjectMeta(name="h100")))
    await world.settle()
    assert await world.vmi("vm") is not None
    machine = await world.memory.get(VirtualMachine, "vm", "lab")
    assert [c["type"] for c in machine.status["conditions"] if c["type"] == "Failure"] == []
