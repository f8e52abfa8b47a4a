"""Alignments that a profile prefers, in the operator: asked for where a node can serve them, and what is given up is
said."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from devtools.agents.worlds import eventually
from tests.controllers.listed_sources import ListedSources
from tests.controllers.operator.ambient import ambient
from tests.controllers.operator.inline_explanations import InlineExplanations
from tests.controllers.profiles.asking_vms import NAMESPACE, by_name, profile, vm
from tests.controllers.profiles.test_stories import KEY, NOW, Beside, Silent
from tests.controllers.standalone.world import SETTINGS
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.keeping.claims import KEPT_LABEL
from virt_dra.api.keeping.instances import kept_instance
from virt_dra.api.keeping.terms import KEEP_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import controller_reference
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.api.wire import Json
from virt_dra.controllers.beside_kubevirt import reconcile as beside_kubevirt
from virt_dra.controllers.loops import claims
from virt_dra.controllers.loops.virtual_machines import instance_of
from virt_dra.controllers.operator.instance_loop import InstanceLoop, LoopSettings
from virt_dra.controllers.pods.launcher_pods import COMPUTE
from virt_dra.controllers.reconciled import Align, Reconciled
from virt_dra.controllers.standalone import reconcile as standalone
from virt_dra.model.feeds.stand_ins import labelled
from virt_dra.scheduling.alignment import AlignmentRequest, AlignmentResult

PAIR = profile(
    "pair",
    devices=[
        {"name": "gpu", "deviceClassName": "gpu"},
        {"name": "nic", "type": "HostDevice", "deviceClassName": "nic"},
    ],
    align=[{"attribute": "pcieRoot", "mode": "Preferred"}],
)
APART = "gpu and nic on different PCIe roots: no node has both free on one"
ALIGNED = [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]


def published(**roots: str) -> ResourceSlice:
    """Devices by their names, ``gpu1`` of class gpu, and PCIe roots."""
    devices = [
        {
            "name": name,
            "attributes": {
                "kind": {"string": name[:3]},
                "resource.kubernetes.io/pcieRoot": {"string": root},
            },
        }
        for name, root in roots.items()
    ]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n1", "pool": pool, "devices": devices}
    return ResourceSlice.from_wire({"metadata": {"name": "n1"}, "spec": spec})


def of_kind(kind: str) -> DeviceClass:
    expression = f'device.attributes["d.example.com"].kind == "{kind}"'
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return DeviceClass.from_wire({"metadata": {"name": kind}, "spec": spec})


OFFERED = {
    "cpu": "8",
    "memory": "8Gi",
    "pods": "9",
    **{f"devices.kubevirt.io/{name}": "9" for name in ("kvm", "tun", "vhost-net")},
}
NODE = labelled(Node.from_wire({"metadata": {"name": "n1"}, "status": {"allocatable": OFFERED}}))


async def constraints(world: Beside) -> dict[str, list[Any]]:
    """Of the templates, by name."""
    templates = (await world.memory.list(ResourceClaimTemplate, "lab")).items
    return {
        template.name: [constraint.to_wire() for constraint in template.spec.spec.devices.constraints]
        for template in templates
    }


@pytest.mark.parametrize(
    ("roots", "wanted", "reason"),
    [
        ({"gpu1": "a", "gpu2": "b", "nic1": "b"}, ALIGNED, "AsAsked"),
        ({"gpu1": "a", "nic1": "b"}, [], "DevicesNotAligned"),
        ({"gpu1": "a"}, [], "DevicesNotAligned"),  # it fits nowhere, and may start apart once it does
    ],
)
async def test_a_template_asks_for_what_some_node_can_serve(
    roots: dict[str, str], wanted: list[Any], reason: str
) -> None:
    world = await Beside().prepared(vm("pair"), PAIR)
    for obj in (NODE, of_kind("gpu"), of_kind("nic"), published(**roots)):
        await world.memory.create(obj)
    await world.start()
    loop = InstanceLoop(world.memory, LoopSettings(), ambient(lambda: NOW), Silent(), InlineExplanations())
    tasks = [asyncio.create_task(loop.run_informers()), asyncio.create_task(loop.run_workers())]
    made = await eventually(lambda: constraints(world), bool)
    assert made == {"vm-pair": wanted}
    await eventually(world.conditions, lambda conditions: conditions.get("ProfilesApplied") == ("True", reason))
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_what_is_given_up_is_said_once_of_vm_and_vmi() -> None:
    world = await Beside().prepared(vm("pair"), PAIR)
    await world.start()
    asked: list[AlignmentRequest] = []

    def align(key: str, request: AlignmentRequest) -> AlignmentResult | None:
        asked.append(request)
        return AlignmentResult() if len(asked) > 1 else None

    async def look() -> None:
        sources = await ListedSources.read(world.memory)
        done = await beside_kubevirt.reconcile(sources, world.memory, KEY, NOW, align=align)
        world.events += [(event.kind, event.reason, event.message) for event in done.events]

    await look()
    assert await constraints(world) == {}  # until it is known
    for _ in range(3):
        await look()
    assert await constraints(world) == {"vm-pair": []}
    assert world.told() == [
        ("VirtualMachine", "DevicesNotAligned", APART),
        ("VirtualMachineInstance", "DevicesNotAligned", APART),
    ]
    devices = await world.memory.get(VirtualMachineInstanceDevices, "vm", "lab")
    (applied,) = [condition for condition in devices.status.conditions if condition.type == "ProfilesApplied"]
    assert (applied.status, applied.reason, applied.message) == ("True", "DevicesNotAligned", APART)
    assert len(asked) == 2


def rigid(*held: int, fits: bool = True) -> tuple[list[AlignmentRequest], Align]:
    """An answer that is always the same, and what it was asked."""
    asked: list[AlignmentRequest] = []

    def align(key: str, request: AlignmentRequest) -> AlignmentResult | None:
        asked.append(request)
        return AlignmentResult(held, fits)

    return asked, align


async def look(world: Beside, align: Align, now: datetime = NOW) -> Reconciled:
    done = await beside_kubevirt.reconcile(await ListedSources.read(world.memory), world.memory, KEY, now, align=align)
    world.events += [(event.kind, event.reason, event.message) for event in done.events]
    return done


async def with_waiting_pod(world: Beside) -> None:
    """The VMI's pod, which no node can take, as its alignment's devices were taken."""
    _, align = rigid(0)
    await look(world, align)
    assert await constraints(world) == {"vm-pair": ALIGNED}
    instance = await world.memory.get(VirtualMachineInstance, "vm", "lab")
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm", "controller": True}
    metadata = {
        "name": "virt-launcher-vm", "namespace": "lab", "labels": {"kubevirt.io": "virt-launcher"},
        "ownerReferences": [owner | {"uid": instance.metadata.uid}],
    }  # fmt: skip
    entries = [entry.to_wire() for entry in instance.spec.resource_claims]
    spec = {"containers": [{"name": COMPUTE, "image": "i"}], "resourceClaims": entries}
    made = await world.memory.create(Pod.from_wire({"metadata": metadata, "spec": spec}))
    await claims.reconcile(world.memory)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    made = await world.memory.get(Pod, made.name, "lab")
    status = {**made.status.to_wire(), "phase": "Pending", "conditions": [condition]}
    await world.memory.update_status(made.with_(status=type(made.status).from_wire(status)))


async def pods(world: Beside) -> list[str]:
    return [pod.name for pod in (await world.memory.list(Pod, "lab")).items]


async def test_an_alignment_is_taken_back_where_another_pod_was_faster() -> None:
    world = await Beside().prepared(vm("pair"), PAIR)
    await world.start()
    await with_waiting_pod(world)
    asked, align = rigid()
    done = await look(world, align, NOW + timedelta(seconds=29))
    assert (asked, done.requeue_at) == ([], NOW + timedelta(seconds=30))
    await look(world, align, NOW + timedelta(seconds=30))
    assert await pods(world) == []
    text = f"no node has the devices of virt-launcher-vm together any more, so its VMI is made anew, with {APART}"
    assert world.told() == [("VirtualMachine", "AlignmentTakenBack", text)]
    (request,) = asked
    assert [claim.spec.devices.constraints for claim in request.claims] == [()]
    assert request.asked == request.preferences


@pytest.mark.parametrize(
    ("answer", "strategy"),
    [
        (rigid(0)[1], "Always"),  # the pod waits for something else
        (rigid(fits=False)[1], "Always"),  # no node could take it otherwise
        (lambda key, request: None, "Always"),  # not known yet
        (rigid()[1], "Manual"),  # nobody would make another
    ],
)
async def test_otherwise_the_pod_waits_on_and_is_asked_about_again(answer: Align, strategy: str) -> None:
    world = await Beside().prepared(vm("pair", runStrategy=strategy), PAIR)
    await world.start()
    await with_waiting_pod(world)
    done = await look(world, answer, NOW + timedelta(seconds=45))
    assert (await pods(world), world.told()) == (["virt-launcher-vm"], [])
    assert done.requeue_at == (NOW + timedelta(seconds=90) if strategy == "Always" else None)


async def test_each_minute_is_a_question_of_its_own() -> None:
    world = await Beside().prepared(vm("pair"), PAIR)
    await world.start()
    await with_waiting_pod(world)
    asked, align = rigid(0)
    for seconds in (30, 60, 89, 90, 151):
        await look(world, align, NOW + timedelta(seconds=seconds))
    assert [request.attempt for request in asked] == [1, 1, 1, 2, 3]


async def test_a_pod_whose_devices_are_allocated_is_left_alone() -> None:
    world = await Beside().prepared(vm("pair"), PAIR)
    await world.start()
    await with_waiting_pod(world)
    (claim,) = (await world.memory.list(ResourceClaim, "lab")).items
    result = {"request": "gpu", "driver": "d", "pool": "p", "device": "gpu1"}
    status = type(claim.status).from_wire({"allocation": {"devices": {"results": [result]}}})
    await world.memory.update_status(claim.with_(status=status))
    asked, align = rigid()
    await look(world, align, NOW + timedelta(minutes=5))
    assert (await pods(world), asked) == (["virt-launcher-vm"], [])


# --- of VMs that keep their devices ---


async def keeping(*held: Json) -> Beside:
    """A VM that starts with devices that it kept, which were asked for with these constraints."""
    world = await Beside().prepared(vm("pair"), PAIR)
    machine = await world.memory.get(VirtualMachine, "vm", "lab")
    instance = kept_instance(instance_of(machine), by_name(PAIR), NAMESPACE.metadata.labels, {KEEP_ANNOTATION: "true"})
    assert [entry.resource_claim_name for entry in instance.spec.resource_claims] == ["vm-pair"]
    await world.memory.create(instance)
    names = ("gpu", "nic")
    claim = ResourceClaim.from_wire({
        "metadata": {
            "name": "vm-pair", "namespace": "lab", "labels": {KEPT_LABEL: "true"},
            "ownerReferences": [controller_reference(machine).to_wire()],
        },
        "spec": {"devices": {
            "requests": [{"name": name, "exactly": {"deviceClassName": name}} for name in names],
            "constraints": list(held),
        }},
    })  # fmt: skip
    stored = await world.memory.create(claim)
    results = [{"request": name, "driver": "d", "pool": "p", "device": f"{name}1"} for name in names]
    status = type(stored.status).from_wire({"allocation": {"devices": {"results": results}}})
    await world.memory.update_status(stored.with_(status=status))
    return world


@pytest.mark.parametrize("held", [ALIGNED, []], ids=["aligned", "apart"])
async def test_what_a_vm_keeps_is_asked_for_as_it_is_kept(held: list[Json]) -> None:
    """Else the keeper would release the devices for a claim with another alignment."""
    world = await keeping(*held)
    asked, align = rigid(*([] if held else [0]))  # its own devices are in the way of the one, and the other would fit
    await look(world, align)
    assert (await constraints(world), asked) == ({"vm-pair": held}, [])
    done = await look(world, align)
    assert (done.stale, done.written) == (False, 0)


async def test_a_vm_that_keeps_nothing_yet_is_asked_for_with_its_claims() -> None:
    world = await keeping()
    (claim,) = (await world.memory.list(ResourceClaim, "lab")).items
    await world.memory.delete(ResourceClaim, claim.name, "lab")
    asked, align = rigid(0)
    await look(world, align)
    assert await constraints(world) == {"vm-pair": ALIGNED}
    (request,) = asked
    assert [[own.name for own in claim.spec.devices.requests] for claim in request.claims] == [["gpu", "nic"]]


@pytest.mark.parametrize("mode", [beside_kubevirt.reconcile, standalone.reconcile], ids=["beside", "standalone"])
async def test_a_pod_that_got_a_node_meanwhile_is_left_alone(mode: Any) -> None:
    """The informer is behind the scheduler."""
    world = await Beside().prepared(vm("pair"), PAIR)
    await world.start()
    await with_waiting_pod(world)
    sources = await ListedSources.read(world.memory)
    await world.memory.create(NODE)
    (pod,) = (await world.memory.list(Pod, "lab")).items
    await world.memory.bind(pod, "n1")
    settings = (SETTINGS,) if mode is standalone.reconcile else ()
    done = await mode(sources, world.memory, KEY, NOW + timedelta(minutes=1), *settings, align=rigid()[1])
    assert (done.events, done.stale) == ((), True)
    for kind in (Pod, VirtualMachineInstance):
        (obj,) = (await world.memory.list(kind, "lab")).items
        assert obj.metadata.deletion_timestamp is None


@pytest.mark.parametrize("left", [{"gpu2": "b", "nic1": "a"}, {"nic1": "a"}], ids=["others are free", "none is"])
async def test_the_operator_finds_out_by_itself(left: dict[str, str]) -> None:
    world = await Beside().prepared(vm("pair"), PAIR)
    for obj in (NODE, of_kind("gpu"), of_kind("nic"), published(gpu1="a", **left)):
        await world.memory.create(obj)
    await world.start()
    await with_waiting_pod(world)
    faster = ResourceClaim.from_wire({
        "metadata": {"name": "faster", "namespace": "lab"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    })  # fmt: skip
    stored = await world.memory.create(faster)
    result = {"request": "r", "driver": "d.example.com", "pool": "n1", "device": "gpu1"}
    status = type(stored.status).from_wire({"allocation": {"devices": {"results": [result]}}})
    await world.memory.update_status(stored.with_(status=status))
    worker = InlineExplanations()
    loop = InstanceLoop(world.memory, LoopSettings(), ambient(lambda: NOW + timedelta(minutes=1)), Silent(), worker)
    tasks = [asyncio.create_task(loop.run_informers()), asyncio.create_task(loop.run_workers())]
    if "gpu2" in left:
        assert await eventually(lambda: pods(world), lambda names: not names) == []
    else:
        await eventually(lambda: aligned_once(worker), bool)
        await asyncio.sleep(0.2)
        assert await pods(world) == ["virt-launcher-vm"]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def aligned_once(worker: InlineExplanations) -> int:
    return worker.aligned


async def test_without_kubevirt_the_instance_itself_is_made_anew() -> None:
    world = await Beside().prepared(vm("pair"), PAIR)
    await world.start()
    await with_waiting_pod(world)
    sources = await ListedSources.read(world.memory)
    done = await standalone.reconcile(
        sources, world.memory, KEY, NOW + timedelta(minutes=1), SETTINGS, align=rigid()[1]
    )
    assert [(event.kind, event.reason) for event in done.events] == [("VirtualMachine", "AlignmentTakenBack")]
    assert [
        vmi.name
        for vmi in (await world.memory.list(VirtualMachineInstance, "lab")).items
        if vmi.metadata.deletion_timestamp is None
    ] == []
