"""Networks from claims beside KubeVirt: reported like devices, but never in deviceStatus (K-5.12, K-5.32, K-7.21)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from launcher import AddressSources, hostdevs
from tests.controllers.published_world import POD, World, objects
from virt_dra.api.integration.paths import DEVICE_STATUS_ANNOTATION, INTEGRATION_ANNOTATION, metadata_annotation
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.controllers.devices.networks import network_devices
from virt_dra.controllers.transforms import trimmed

PCI: Json = {"resource.kubernetes.io/pciBusID": {"string": "0000:3b:02.1"}}
MDEV: Json = {"resource.kubernetes.io/mdevUUID": {"string": "12345678-9abc-def0-1234-56789abcdef0"}}


def with_network(
    interface: Json | None = None, attributes: Json | None = None, more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The base's VMI with a network besides its GPU, from a claim of another driver."""
    nic = {"name": "vf-7", "attributes": PCI if attributes is None else attributes}
    pool = {"name": "node-a", "generation": 1, "resourceSliceCount": 1}
    result = {"request": "vf", "driver": "nic.example.com", "pool": "node-a", "device": "vf-7"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": POD, "uid": "pod-1", "controller": True}
    consumer = {"resource": "pods", "name": POD, "uid": "pod-1"}
    entry = {"name": "nics", "resourceClaimTemplateName": "one-vf"}
    return {
        "vmi.spec.resourceClaims.1": entry,
        "vmi.spec.networks": [{"name": "fast", "resourceClaim": {"claimName": "nics", "requestName": "vf"}}],
        "vmi.spec.domain.devices.interfaces": [{"name": "fast", **({"sriov": {}} if interface is None else interface)}],
        "pod.spec.resourceClaims.1": entry,
        "pod.spec.containers.0.resources.claims.1": {"name": "nics", "request": "vf"},
        "pod.status.resourceClaimStatuses.1": {"name": "nics", "resourceClaimName": "fedora-nics-abcde"},
        "claims.1": {
            "metadata": {"name": "fedora-nics-abcde", "namespace": "lab", "uid": "claim-2", "ownerReferences": [owner]},
            "spec": {"devices": {"requests": [{"name": "vf", "exactly": {"deviceClassName": "nic.example.com"}}]}},
            "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]},
        },
        "slices.1": {
            "metadata": {"name": "node-a-nics"},
            "spec": {"driver": "nic.example.com", "nodeName": "node-a", "pool": pool, "devices": [nic]},
        },
        **(more or {}),
    }  # fmt: skip


async def run(life: Callable[[World], Awaitable[None]], changes: Mapping[str, Any]) -> None:
    await _lived(life, World.with_changes(changes))


async def _lived(life: Callable[[World], Awaitable[None]], world: World) -> None:
    await life(world)


async def test_a_network_is_reported_after_the_devices_and_not_in_device_status() -> None:
    async def life(world: World) -> None:
        resolved = "on node node-a: gpus/g0 0000:01:00.0, networks/fast 0000:3b:02.1"
        assert await world.told() == [("Normal", "DevicesResolved", resolved)]
        status = await world.status()
        assert (status["ready"], [device["kind"] for device in status["devices"]]) == ("2/2", ["gpus", "networks"])
        assert status["devices"][1] == {
            "name": "fast", "kind": "networks", "claimName": "nics", "requestName": "vf", "integrationPath": "native",
            "resourceClaimName": "fedora-nics-abcde", "driver": "nic.example.com", "pool": "node-a", "device": "vf-7",
            "pciAddress": "0000:3b:02.1", "state": "Resolved",
        }  # fmt: skip
        assert list(status["deviceStatus"]) == ["gpuStatuses"]
        assert list(json.loads((await world.vmi()).metadata.annotations[DEVICE_STATUS_ANNOTATION])) == ["gpuStatuses"]
        version = world.memory.resource_version
        await world.reconcile()
        assert world.memory.resource_version == version

    await run(life, with_network())


async def test_a_vmi_with_a_network_only_has_an_object_and_no_annotation() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        status = await world.status()
        assert (status["ready"], "deviceStatus" in status) == ("1/1", False)
        assert DEVICE_STATUS_ANNOTATION not in (await world.vmi()).metadata.annotations

    await run(life, {**with_network(), "vmi.spec.domain.devices.gpus": []})


async def test_a_network_counts_in_conditions_and_ready() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        status = await world.status()
        message = (
            "networks/fast: ResourceClaim fedora-nics-abcde is not allocated yet; if "
            "this lasts, the pod's condition PodScheduled says why"
        )
        assert status["ready"] == "1/2"
        assert [
            (condition["type"], condition["reason"], condition["message"]) for condition in status["conditions"]
        ] == [
            ("DevicesResolved", "NotAllocated", message),
            ("DevicesHealthy", "DevicesNotResolved", ""),
        ]

    await run(life, {**with_network(), "claims.1.status": None})


@pytest.mark.parametrize(
    ("interface", "attributes", "state", "address", "message"),
    [
        pytest.param({"sriov": {}}, PCI | MDEV, "Resolved", "0000:3b:02.1", None, id="the PCI address of a function "
"counts"),
        pytest.param(
            {"sriov": {}}, MDEV, "Error", None,
            "device nic.example.com/node-a/vf-7: only an mdev UUID is published; an "
"SR-IOV interface needs the PCI address of its function",
            id="an mdev is no function",
        ),
        pytest.param(
            {"sriov": {}}, MDEV | {"resource.kubernetes.io/pciBusID": {"string": "3b:02.1"}}, "Error", None,
            "device nic.example.com/node-a/vf-7: attribute resource.kubernetes.io/pciBusID "
"is '3b:02.1', which is no PCI address like "
            "0000:01:00.0; an SR-IOV interface needs the PCI address of its function",
            id="nor does it stand in for one that is malformed",
        ),
        pytest.param({"binding": {"name": "macvtap"}}, {}, "Resolved", None, None, id="a binding plugin needs no "
"address"),
        pytest.param({"binding": {"name": "x"}}, PCI, "Resolved", "0000:3b:02.1", None, id="one that is there is "
"told all "
"the same"),
    ],
)  # fmt: skip
async def test_which_address_an_interface_needs(
    interface: Json, attributes: Json, state: str, address: str | None, message: str | None
) -> None:
    async def life(world: World) -> None:
        told = await world.told()
        device = (await world.status())["devices"][1]
        assert (device["state"], device.get("pciAddress"), device.get("message"), "mdevUUID" in device) == (
            state,
            address,
            message,
            False,
        )
        assert [reason for _, reason, _ in told] == (["DevicesResolved"] if state == "Resolved" else ["NoAddress"])

    await run(life, with_network(interface, attributes))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            {"vmi.spec.domain.devices.interfaces": [{"name": "fast", "bridge": {}}]},
            id="neither SR-IOV nor a binding plugin",
        ),
        pytest.param({"vmi.spec.domain.devices.interfaces": []}, id="no interface"),
        pytest.param(
            {"pod.spec.containers.0.resources.claims.1": {"name": "nics", "request": "x"}},
            id="KubeVirt leaves it out: too old, or its gate is off",
        ),
        pytest.param({"vmi.spec.networks": [{"name": "fast", "multus": {"networkName": "x"}}]}, id="no claim"),
    ],
)
async def test_what_no_interface_takes_is_not_reported(changes: dict[str, Any]) -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        assert [device["kind"] for device in (await world.status())["devices"]] == ["gpus"]

    await run(life, {**with_network(), **changes})


async def test_one_function_for_two_is_an_error_and_two_networks_without_address_are_not() -> None:
    async def life(world: World) -> None:
        assert [(reason, message.partition(":")[0]) for _, reason, message in await world.told()] == [
            ("DuplicateAddress", "networks/fast")
        ]

    await run(life, with_network(attributes={"resource.kubernetes.io/pciBusID": {"string": "0000:01:00.0"}}))
    two = with_network({"binding": {"name": "x"}}, {})
    two["vmi.spec.networks"] = [
        *two["vmi.spec.networks"],
        {"name": "more", "resourceClaim": {"claimName": "nics", "requestName": "other"}},
    ]
    two["vmi.spec.domain.devices.interfaces"] = [{"name": name, "binding": {"name": "x"}} for name in ("fast", "more")]
    two["pod.spec.containers.0.resources.claims.2"] = {"name": "nics", "request": "other"}
    result = {"request": "other", "driver": "nic.example.com", "pool": "node-a", "device": "vf-8"}
    two["claims.1"]["status"]["allocation"]["devices"]["results"].append(result)
    two["slices.1"]["spec"]["devices"].append({"name": "vf-8"})

    async def both(world: World) -> None:
        await world.reconcile()
        assert [device["state"] for device in (await world.status())["devices"]] == ["Resolved"] * 3

    await run(both, two)


@pytest.mark.parametrize("interface", [{"sriov": {}}, {"binding": {"name": "x"}}], ids=["sriov", "binding"])
async def test_what_befalls_the_network_of_a_running_vmi_is_told_and_its_entry_stays(interface: Json) -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        await world.runs()
        before = (await world.status())["devices"][1]
        published = await world.memory.get(ResourceSlice, "node-a-nics")
        taint = {"key": "broken", "effect": "NoExecute"}
        raw = published.to_wire()
        raw["spec"]["devices"][0]["taints"] = [taint]
        await world.memory.update(ResourceSlice.from_wire(raw))
        ((kind, reason, message),) = await world.told()
        assert (kind, reason, message.startswith("networks/fast: device vf-7 has taint broken=")) == (
            "Warning",
            "DeviceTainted",
            True,
        )
        await world.memory.delete(ResourceSlice, "node-a-nics")
        await world.reconcile()
        after = (await world.status())["devices"][1]
        assert {key: value for key, value in after.items() if key not in ("reason", "message", "taints")} == before
        assert (await world.conditions())["DevicesResolved"] == ("True", "AllDevicesResolved")

    await run(life, with_network(interface))


async def test_the_kubelets_word_on_its_health_is_told() -> None:
    health = [
        {"name": "claim:nics/vf", "resources": [{"resourceID": "nic.example.com/node-a/vf-7", "health": "Unhealthy"}]}
    ]

    async def life(world: World) -> None:
        await world.reconcile()
        status = await world.status()
        assert status["devices"][1]["health"] == {"status": "Unhealthy"}
        assert (await world.conditions())["DevicesHealthy"] == ("False", "DeviceUnhealthy")

    await run(
        life,
        with_network(more={"pod.status.containerStatuses": [{"name": "compute", "allocatedResourcesStatus": health}]}),
    )


async def test_the_shims_file_gives_the_domain_its_function() -> None:
    record = {"format": 1, "pairs": [{"claim": "nics", "request": "vf", "path": "metadata-shim", "layout": "KEP-5304"}]}
    changes = with_network(
        attributes=PCI | MDEV, more={"pod.metadata.annotations": {INTEGRATION_ANNOTATION: json.dumps(record)}}
    )

    async def life(world: World) -> None:
        await world.reconcile()
        text = (await world.pod()).metadata.annotations[metadata_annotation("nics", "vf")]
        attributes_root = "/var/run/kubernetes.io/dra-device-attributes"
        files = {f"{attributes_root}/resourceclaimtemplates/nics/vf/virt-dra.io-metadata.json": text}
        vmi = await world.vmi()
        status = vmi.status.with_(device_status=(await world.devices()).status.device_status)
        devices = hostdevs(vmi.with_(status=status), AddressSources(files=files))
        assert [(device.device, device.source, str(device.address)) for device in devices] == [
            ("gpus/g0", "status", "0000:01:00.0"),
            ("interfaces/fast", "metadata", "0000:3b:02.1"),
        ]
        assert [device["integrationPath"] for device in (await world.status())["devices"]] == ["none", "metadata-shim"]

    await run(life, changes)


def test_what_the_operator_keeps_of_a_vmi_is_enough() -> None:
    vmi = next(
        obj
        for obj in objects(with_network({"sriov": {}, "macAddress": "02:00:00:00:00:01"}))
        if isinstance(obj, VirtualMachineInstance)
    )
    assert network_devices(trimmed(vmi), None) == network_devices(vmi, None) != ()
    assert trimmed(vmi).spec.domain.devices.interfaces[0].mac_address is None
