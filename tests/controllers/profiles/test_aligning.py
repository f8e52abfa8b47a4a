"""Alignments that a profile prefers, in the operator: asked for where a node can serve them, and what is given up is
said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from devtools.agents.worlds import eventually
from tests.controllers.listed_sources import ListedSources
from tests.controllers.operator.ambient import ambient
from tests.controllers.operator.inline_explanations import InlineExplanations
from tests.controllers.profiles.asking_vms import profile, vm
from tests.controllers.profiles.test_stories import KEY, NOW, Beside, Silent
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.controllers.beside_kubevirt import reconcile as beside_kubevirt
from virt_dra.controllers.operator.instance_loop import InstanceLoop, LoopSettings
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
