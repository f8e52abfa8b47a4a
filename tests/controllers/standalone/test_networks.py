"""SR-IOV networks from claims where there is no KubeVirt: from the claim to the domain's XML (K-5.32, K-7.21)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher import Conversion
from launcher.addresses.metadata_files import overlaid, read_base
from launcher.process.waiting import Waiting, decide, read_device_status, read_vmi
from tests.controllers.listed_sources import ListedSources
from tests.controllers.standalone.world import SETTINGS, World, slice_of
from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration import standalone as meeting
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.kubevirt_versions import NETWORK_DEVICES_WITH_DRA
from virt_dra.api.resource_v1 import ResourceClaimTemplate, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.controllers.standalone import reconcile as standalone
from virt_dra.controllers.standalone.networks import started_with

WITH_NETWORKS = replace(SETTINGS, gates=replace(SETTINGS.gates, on=SETTINGS.gates.on | {NETWORK_DEVICES_WITH_DRA}))


def vmi(*, gpus: int = 1, interface: Json | None = None) -> VirtualMachineInstance:
    claims = [
        {"name": "nics", "resourceClaimTemplateName": "one-vf"},
        {"name": "gpus", "resourceClaimTemplateName": "one-gpu"},
    ]
    devices: Json = {"interfaces": [{"name": "fast", **(interface or {"sriov": {}})}]}
    if gpus:
        devices["gpus"] = [{"name": "g", "claimName": "gpus", "requestName": "gpu"}]
    return VirtualMachineInstance.from_wire({
        "metadata": {"name": "fedora", "namespace": "lab"},
        "spec": {
            "resourceClaims": claims[: 1 + gpus],
            "networks": [{"name": "fast", "resourceClaim": {"claimName": "nics", "requestName": "vf"}}],
            "domain": {"devices": devices},
        },
    })  # fmt: skip


def vf(name: str = "vf-7", address: str = "0000:3b:02.1") -> Json:
    return {"name": name, "attributes": {"resource.kubernetes.io/pciBusID": {"string": address}}}


async def world_with(*functions: Json) -> World:
    world = await World.made(devices=1)
    await world.memory.delete(ResourceClaimTemplate, "one-gpu", "lab")
    for name, request, sign in (("one-vf", "vf", ""), ("one-gpu", "gpu", "!")):
        selectors = [{"cel": {"expression": f"{sign}device.attributes['gpu.example.com'].nic"}}]
        requests = [{"name": request, "exactly": {"deviceClassName": "gpu", "selectors": selectors}}]
        template = {
            "metadata": {"name": name, "namespace": "lab"},
            "spec": {"spec": {"devices": {"requests": requests}}},
        }
        await world.memory.create(ResourceClaimTemplate.from_wire(template))
    await publish(world, *functions)
    return world


async def publish(world: World, *functions: Json) -> None:
    raw = (await world.memory.get(ResourceSlice, "node-0-gpus")).to_wire()
    devices = slice_of("node-0", 1).to_wire()["spec"]["devices"]
    kinds = [*((device, False) for device in devices), *((device, True) for device in functions)]
    raw["spec"]["devices"] = [
        {**device, "attributes": {**device["attributes"], "nic": {"bool": nic}}} for device, nic in kinds
    ]
    await world.memory.update(ResourceSlice.from_wire(raw))


async def settle(world: World) -> None:
    """As the world does, with the gate on."""
    for _ in range(20):
        version = world.memory.resource_version
        for vmi in (await world.memory.list(VirtualMachineInstance)).items:
            done = await standalone.reconcile(
                await ListedSources.read(world.memory), world.memory, vmi.key, world.now, WITH_NETWORKS
            )
            world.events += done.events
        await world.others()
        if world.memory.resource_version == version:
            return
    raise AssertionError("nothing settles")


def shown(pod: Pod, folder: Path) -> Path:
    """The downwardAPI volume as a kubelet shows it: files behind links in a hidden folder."""
    (volume,) = [volume for volume in pod.spec.volumes if volume.name == meeting.INFO_VOLUME]
    content = folder / "..2026_11_21"
    for item in (volume.downward_api or {})["items"]:
        key = item["fieldRef"]["fieldPath"].removeprefix("metadata.annotations['").removesuffix("']")
        assert ".." not in item["path"].split("/")
        file = content / item["path"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(pod.metadata.annotations.get(key, ""))
    (folder / "..data").symlink_to(content.name)
    for path in content.iterdir():
        (folder / path.name).symlink_to(f"..data/{path.name}")
    return folder


def launched(pod: Pod, folder: Path, files: Mapping[str, str] | None = None) -> Conversion | Waiting:
    """What the launcher makes of its pod."""
    folder.mkdir()
    info = shown(pod, folder)
    made = read_vmi((info / meeting.VMI_FILE).read_text(), "vmi.json")
    assert not isinstance(made, Waiting)
    status = read_device_status((info / meeting.DEVICE_STATUS_FILE).read_text(), "device-status.json")
    return decide(made, status, overlaid(files or {}, read_base(info / meeting.METADATA_FOLDER)), {})


@pytest.mark.parametrize("gpus", [0, 1])
async def test_from_the_claim_to_the_domain(gpus: int, tmp_path: Path) -> None:
    world = await world_with()
    await world.memory.create(vmi(gpus=gpus))
    await settle(world)
    waiting = launched(await world.pod("fedora"), tmp_path / "before")
    assert isinstance(waiting, Waiting)
    await publish(world, vf())
    await settle(world)
    conversion = launched(await world.pod("fedora"), tmp_path / "after")
    assert isinstance(conversion, Conversion)
    hostdevs = [(hostdev.device, hostdev.source, str(hostdev.address)) for hostdev in conversion.hostdevs]
    assert hostdevs[gpus:] == [("interfaces/fast", "metadata", "0000:3b:02.1")]
    assert '<alias name="ua-sriov-fast"/>' in conversion.domain_xml
    assert '<address domain="0x0000" bus="0x3b" slot="0x02" function="0x1"/>' in conversion.domain_xml
    made = await world.vmi("fedora")
    assert made is not None
    assert [
        (condition["type"], condition["status"]) for condition in made.status.conditions if condition["type"] != "Ready"
    ] == [("DevicesResolved", "True")]
    assert (made.status.device_status is None) == (gpus == 0)
    assert "deviceStatus" in made.to_wire()["status"] or gpus == 0


async def test_a_running_vmi_keeps_its_network_and_tells_what_befalls_it(tmp_path: Path) -> None:
    world = await world_with(vf())
    await world.memory.create(vmi())
    await settle(world)
    await world.pod_says("fedora", "Running", ready=True)
    await settle(world)
    before = (await world.pod("fedora")).metadata.annotations
    world.told()
    await publish(world, vf(address="0000:3b:02.7"))
    await settle(world)
    ((_, reason, message),) = world.told()
    assert reason == "DeviceChanged"
    assert message.startswith(
        "networks/fast: the VMI runs with device vf-7 at 0000:3b:02.1, its claim now leads to device vf-7 at "
    )
    await world.memory.delete(ResourceSlice, "node-0-gpus")
    world.pass_time(300)
    await settle(world)
    made = await world.vmi("fedora")
    assert made is not None
    conditions = {condition["type"]: (condition["status"], condition["reason"]) for condition in made.status.conditions}
    assert (conditions["DevicesResolved"], conditions["DevicesHealthy"][0]) == (("True", "AllDevicesResolved"), "False")
    assert (await world.pod("fedora")).metadata.annotations == before


async def test_with_the_gate_off_nothing_is_said_of_networks() -> None:
    world = await world_with(vf())
    await world.memory.create(vmi())
    await world.settle()
    pod = await world.pod("fedora")
    assert [key for key in pod.metadata.annotations if key.startswith("metadata.")] == []
    assert len((pod.spec.volumes[0].downward_api or {})["items"]) == 2
    made = await world.vmi("fedora")
    assert made is not None
    assert [condition["status"] for condition in made.status.conditions if condition["type"] == "DevicesResolved"] == [
        "True"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{",
        '{"requests": 1}',
        '{"requests": []}',
        '{"requests": [{"name": "vf", "devices": []}]}',
        "[" * 100_000,
    ],
)
async def test_a_file_that_is_not_ours_says_nothing(text: str) -> None:
    world = await world_with(vf())
    await world.memory.create(vmi())
    await settle(world)
    pod, made = await world.pod("fedora"), await world.vmi("fedora")
    assert made is not None
    assert list(started_with(made, pod)) == [("networks", "fast")]
    annotations = {**pod.metadata.annotations, "metadata.virt-dra.io/nics.vf": text}
    assert started_with(made, pod.with_(metadata=pod.metadata.with_(annotations=annotations))) == {}


def file_with(address: str) -> str:
    attributes = {"resource.kubernetes.io/pciBusID": {"string": address}}
    content: dict[str, Any] = {"apiVersion": "metadata.resource.k8s.io/v1alpha1", "kind": "DeviceMetadata"}
    return json.dumps({**content, "requests": [{"name": "vf", "devices": [{"attributes": attributes}]}]})


async def test_what_the_operator_supplies_takes_the_place_of_a_drivers_own_file(tmp_path: Path) -> None:
    folder = "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/nics/vf"
    drivers = {f"{folder}/gpu.example.com-metadata.json": file_with("0000:99:00.0")}

    world = await world_with()
    await world.memory.create(vmi(gpus=0))
    await settle(world)
    by_driver = launched(await world.pod("fedora"), tmp_path / "before", drivers)
    assert isinstance(by_driver, Conversion)
    assert [str(hostdev.address) for hostdev in by_driver.hostdevs] == ["0000:99:00.0"]
    await publish(world, vf())
    await settle(world)
    by_us = launched(await world.pod("fedora"), tmp_path / "after", drivers)
    assert isinstance(by_us, Conversion)
    assert [str(hostdev.address) for hostdev in by_us.hostdevs] == ["0000:3b:02.1"]
