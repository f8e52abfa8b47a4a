"""What the driver writes, judged by the Go libraries that read it: messages made of a table of fields (D-56), CDI files
their version and devices (D-27, D-28, D-29, D-31), metadata."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from devtools.upstream.kubelet.witness import CommandRefused, GoKubelet, running_kubelet
from node_driver.cdi import CdiDevice, CdiMount, cdi_document, cdi_id
from node_driver.devices import DeviceKind
from node_driver.metadata import metadata_document
from node_driver.state.records import ClaimRecord, DeviceRecord, Stage
from node_driver.wire.messages import DRA_V1, DRA_V1BETA1, HEALTH_V1, HEALTH_V1ALPHA1, REGISTRATION
from node_driver.wire.sockets import instance_sockets
from virt_dra.protobuf.messages import MessagePackage

pytestmark = pytest.mark.go
DRIVER = "passthrough.virt-dra.io"
UID = "7c1f4a9e-1111-4222-8333-944444444444"


@pytest.fixture
async def judge(program: Path, folder: Path) -> AsyncIterator[GoKubelet]:
    async with running_kubelet(program, folder / "log") as kubelet:
        yield kubelet


CLAIMS = {"claims": [{"namespace": "lab", "uid": "u-1", "name": "a"}, {"uid": "ü"}]}
DEVICE = {"request_names": ["gpu", "nic"], "pool_name": "n", "device_name": "d", "cdi_device_ids": ["v/c=1", "v/c=2"]}
PREPARED = {"claims": {"u-1": {"devices": [DEVICE, {}]}, "u-2": {"error": "no"}, "u-3": {}}}
RELEASED = {"claims": {"u-1": {}, "u-2": {"error": "no"}}}
HEALTH = {
    "devices": [
        {"device": {"pool_name": "n", "device_name": "d"}, "health": "UNHEALTHY", "last_updated_time": "1790000000",
         "health_check_timeout_seconds": "30", "message": "gone"},
        {"health": "HEALTHY"}, {},
    ]
}  # fmt: skip
MESSAGES: list[tuple[str, MessagePackage, dict[str, Any]]] = [
    ("InfoRequest", REGISTRATION, {}),
    ("PluginInfo", REGISTRATION, {"type": "t", "name": "n", "endpoint": "e", "supported_versions": ["a", "b"]}),
    ("RegistrationStatus", REGISTRATION, {"plugin_registered": True, "error": "e"}),
    ("RegistrationStatusResponse", REGISTRATION, {}),
    *[
        (f"{version}/{name}", package, value)
        for version, package in (("v1", DRA_V1), ("v1beta1", DRA_V1BETA1))
        for name, value in (
            ("NodePrepareResourcesRequest", CLAIMS),
            ("NodePrepareResourcesResponse", PREPARED),
            ("NodeUnprepareResourcesRequest", CLAIMS),
            ("NodeUnprepareResourcesResponse", RELEASED),
        )
    ],
    *[
        (f"health/{version}/{name}", package, value)
        for version, package in (("v1", HEALTH_V1), ("v1alpha1", HEALTH_V1ALPHA1))
        for name, value in (("NodeWatchResourcesRequest", {}), ("NodeWatchResourcesResponse", HEALTH))
    ],
    ("v1/NodePrepareResourcesResponse", DRA_V1, {"claims": {"u": {"devices": [{"share_id": "s"}]}}}),
    ("v1/NodePrepareResourcesResponse", DRA_V1, {"claims": {"u": {"devices": [{"share_id": ""}]}}}),
]


async def test_messages_have_the_bytes_of_kubernetes_own_code(judge: GoKubelet) -> None:
    for name, package, value in MESSAGES:
        message = ParseDict(value, package[name.rpartition("/")[2]]())
        ours = message.SerializeToString(deterministic=True)
        theirs = base64.b64decode(await judge.ask("encode", message=name, value=value) or "")
        assert ours == theirs, name
        again = await judge.ask("decode", message=name, value=base64.b64encode(ours).decode())
        assert ParseDict(again, type(message)()) == message, name


async def test_registration_sockets_are_named_as_by_the_helper(judge: GoKubelet) -> None:
    """But for paths of 108 bytes, which Go binds and gRPC's C library doesn't."""
    registry = "/var/lib/kubelet/plugins_registry"
    for length in range(1, 64):
        for uid in (UID, "s" * 32, "1"):
            driver = "d" * length
            theirs = await judge.ask("registration-socket", folder=registry, driver=driver, uid=uid)
            if len(path := f"{registry}/{theirs}") <= 107:
                assert instance_sockets(driver, "/p", registry, uid).registration == path


async def test_cdi_files_give_a_container_nodes_and_mounts(judge: GoKubelet, folder: Path) -> None:
    cdi = folder / "cdi"
    cdi.mkdir()
    devices = [CdiDevice(f"{UID}-nic", nodes=("/dev/null", "/dev/zero")), CdiDevice("0-more", nodes=("/dev/full",))]
    (cdi / f"{DRIVER}_{UID}.json").write_text(cdi_document(DRIVER, "device", devices))
    mounts = [CdiDevice(f"{UID}_gpu", mounts=(CdiMount("/host/metadata.json", "/var/run/metadata.json"),))]
    (cdi / f"{DRIVER}_metadata_{UID}_gpu.json").write_text(cdi_document(DRIVER, "metadata", mounts))
    ids = [cdi_id(DRIVER, "device", f"{UID}-nic"), cdi_id(DRIVER, "metadata", f"{UID}_gpu")]
    spec = await judge.ask("inject", folder=str(cdi), devices=ids)
    assert [device["path"] for device in spec["linux"]["devices"]] == ["/dev/null", "/dev/zero"]
    assert [rule["access"] for rule in spec["linux"]["resources"]["devices"]] == ["rw", "rw"]
    assert spec["mounts"] == [
        {"source": "/host/metadata.json", "destination": "/var/run/metadata.json", "options": ["ro", "bind"]}
    ]
    with pytest.raises(CommandRefused, match="unresolvable"):
        await judge.ask("inject", folder=str(cdi), devices=[cdi_id(DRIVER, "device", "other")])


async def test_a_cdi_file_below_its_lowest_version_is_refused(judge: GoKubelet, folder: Path) -> None:
    document = json.loads(cdi_document(DRIVER, "device", [CdiDevice("0-a", nodes=("/dev/null",))]))
    (folder / "a.json").write_text(json.dumps({**document, "cdiVersion": "0.3.0"}))
    with pytest.raises(CommandRefused, match=r"a\.json.*version"):
        await judge.ask("inject", folder=str(folder), devices=[])


def record(pod_claim_name: str = "") -> ClaimRecord:
    nic = DeviceRecord(
        "pci-0000-41-00-1", DeviceKind.SRIOV, "nic/big", "0000:41:00.1", hardware_address="02:00:00:00:00:01",
        attributes={"resource.kubernetes.io/pciBusID": {"string": "0000:41:00.1"}, "vfIndex": {"int": 1}},
    )  # fmt: skip
    return ClaimRecord(UID, "lab", "vm-nic", Stage.DONE, ("pod-uid",), pod_claim_name, (nic,), generation=3)


@pytest.mark.parametrize("pod_claim_name", ["", "net"])
async def test_metadata_is_read_by_kubernetes_decoder_in_each_version(
    judge: GoKubelet, folder: Path, pod_claim_name: str
) -> None:
    file = folder / "metadata.json"
    file.write_text(metadata_document(DRIVER, "node-a", record(pod_claim_name), "nic"))
    decoded = await judge.ask("metadata", path=str(file))
    device = {
        "driver": DRIVER,
        "pool": "node-a",
        "name": "pci-0000-41-00-1",
        "attributes": {"resource.kubernetes.io/pciBusID": {"string": "0000:41:00.1"}, "vfIndex": {"int": 1}},
        "networkData": {"hardwareAddress": "02:00:00:00:00:01"},
    }
    assert decoded["versions"] == ["metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1"]
    assert decoded["metadata"]["metadata"] == {"name": "vm-nic", "namespace": "lab", "uid": UID, "generation": 3}
    assert decoded["metadata"].get("podClaimName") == (pod_claim_name or None)
    assert decoded["metadata"]["requests"] == [{"name": "nic/big", "devices": [device]}]


async def test_metadata_with_an_invalid_attribute_is_refused(judge: GoKubelet, folder: Path) -> None:
    text = metadata_document(DRIVER, "node-a", record(), "nic").replace('{"int": 1}', '{"int": 1, "bool": true}')
    (folder / "metadata.json").write_text(text)
    with pytest.raises(CommandRefused, match=r"attributes.*must specify exactly one|attributes.*one of"):
        await judge.ask("metadata", path=str(folder / "metadata.json"))
