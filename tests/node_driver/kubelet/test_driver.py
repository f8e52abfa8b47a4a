"""The driver's own preparing and releasing, on a node in memory, asked by Kubernetes' DRA manager; what it writes is
judged by the libraries that read it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devtools.node.faults import Fault
from devtools.node.kernel import Function
from devtools.node.world import CDI_FOLDER, DRIVER, NODE, PLUGIN_FOLDER, Node, claim
from devtools.upstream.kubelet.witness import CommandRefused
from node_driver.devices import DeviceKind, PassthroughDevice
from tests.node_driver.kubelet.node import KubeletFolder, registered
from virt_dra.api.resource_v1 import DeviceAttribute, ResourceClaim
from virt_dra.cluster.port import Unavailable

pytestmark = pytest.mark.go
NIC, NVME = "0000:01:00.0", "0000:02:00.0"
DEVICES = {"pci-nic": (NIC, 12, "e1000e"), "pci-nvme": (NVME, 13, "nvme")}
VM = {
    "metadata": {"namespace": "default", "name": "vm", "uid": "pod-1"},
    "spec": {
        "nodeName": NODE,
        "resourceClaims": [{"name": "io", "resourceClaimName": "io"}],
        "containers": [{"name": "compute", "resources": {"claims": [{"name": "io"}]}}],
    },
}
UNCHANGED = {NIC: ("e1000e", ""), NVME: ("nvme", "")}


def a_node() -> Node:
    node = Node()
    for name, (address, group, driver) in DEVICES.items():
        bus_id = {"resource.kubernetes.io/pciBusID": DeviceAttribute(string=address)}
        node.devices += (PassthroughDevice(name, DeviceKind.VFIO, address, (address,), attributes=bus_id),)
        node.kernel.add(Function(address, group, driver))
    return node


def bindings(node: Node) -> dict[str, tuple[str, str]]:
    return {function.address: (function.driver, function.override) for function in node.kernel.functions.values()}


async def test_a_pod_gets_its_devices_and_metadata_and_leaves_nothing(program: Path, folder: Path) -> None:
    (folder / "registry").mkdir()
    where, node, io = KubeletFolder(program, folder), a_node(), claim("io", *DEVICES, requests=("nic", "disk"))
    node.reader.claims["default", "io"] = io
    async with where.kubelet("-node", NODE) as kubelet, where.server(node.start().claims):
        await kubelet.ask("create", claims=[io.to_wire()])
        await registered(kubelet)
        await kubelet.ask("prepare", pod=VM)
        assert {driver for driver, _ in bindings(node).values()} == {"vfio-pci"}
        ids = await kubelet.ask("cdi-devices", pod=VM, container="compute")
        spec = await kubelet.ask("inject", folder=_copied(node, folder), devices=ids)
        mounted = {mount["destination"]: mount["source"] for mount in spec["mounts"]}
        addresses = [await _address(kubelet, node, source, folder) for _, source in sorted(mounted.items())]
        assert addresses == [NVME, NIC]  # of the requests disk and nic
        assert ids[0].startswith(f"{DRIVER}/device=")
        await kubelet.ask("prepare", pod=VM)
        await kubelet.ask("unprepare", pod=VM)
    assert bindings(node) == UNCHANGED
    assert list(node.disk.contents) == [f"{PLUGIN_FOLDER}/checkpoint.json"]


CHECKPOINT = f"{PLUGIN_FOLDER}/checkpoint.json"
PARAMETERS = "status.allocation.devices.config[0].opaque.parameters"


def _api_gone(node: Node) -> None:
    node.reader.error = Unavailable("connection refused")


def _replaced(node: Node) -> None:
    node.reader.claims["default", "io"] = claim("io", *DEVICES, uid="uid-later")


def _deleted(node: Node) -> None:
    node.reader.claims.clear()


def _of_another_driver(node: Node) -> None:
    wire = claim("io", *DEVICES).to_wire()
    for result in wire["status"]["allocation"]["devices"]["results"]:
        result["driver"] = "gpu.example.com"
    node.reader.claims["default", "io"] = ResourceClaim.from_wire(wire)


def _unknown_parameters(node: Node) -> None:
    parameters = {"apiVersion": "virt-dra.io/v1alpha1", "kind": "PassthroughConfig", "netwrok": {}}
    node.reader.claims["default", "io"] = claim("io", *DEVICES, parameters=parameters)


def _disk_full(written: str) -> Callable[[Node], None]:
    def full(node: Node) -> None:
        node.faults = lambda step: Fault.REFUSED if step.startswith(f"replace {written}") else Fault.NONE

    return full


def _corrupt(node: Node) -> None:
    node.disk.contents[CHECKPOINT] = '{"version": 1, "checksum": "0"}\n{}\n'


def _root_disk(node: Node) -> None:
    node.kernel.needed[NVME] = "has the disk nvme0n1p2, which is mounted at /"


FAULTS: list[tuple[Callable[[Node], None], str]] = [
    (
        _replaced,
        'ResourceClaim default/io was replaced: its UID is "uid-later", not uid-io; the pod must be created again',
    ),
    (_deleted, "ResourceClaim default/io doesn't exist (any more)"),
    (_of_another_driver, f"ResourceClaim default/io has no device of {DRIVER}"),
    (
        _api_gone,
        "ResourceClaim default/io can't be read from the API server: connection refused; it is tried again",
    ),
    (_unknown_parameters, f"{PARAMETERS}.netwrok: unknown field; did you mean network?"),
    (
        _disk_full(CHECKPOINT),
        f"the driver's checkpoint can't be written: [Errno 28] No space left on device: '{CHECKPOINT}'; free space on "
        "the node, then it is tried again",
    ),
    (
        _disk_full(CDI_FOLDER),
        f"the claim's files can't be written: [Errno 28] No space left on device: '{CDI_FOLDER}/{DRIVER}_uid-io.json'",
    ),
    (
        _corrupt,
        f"the driver's checkpoint was damaged and is kept as {CHECKPOINT}.bad; nothing is prepared or released on this "
        "node: drain it, reboot it, then delete that file",
    ),
    (
        _root_disk,
        f"device pci-nvme: {NVME} has the disk nvme0n1p2, which is mounted at /; let the node do without it first",
    ),
]


@pytest.mark.parametrize(
    ("befalls", "text"), FAULTS,
    ids=["replaced", "deleted", "foreign", "API server gone", "parameters", "disk full", "no CDI file", "corrupt",
         "root disk"],
)  # fmt: skip
async def test_the_pods_event_says_what_is_wrong_and_nothing_is_half_done(
    program: Path, folder: Path, befalls: Callable[[Node], None], text: str
) -> None:
    (folder / "registry").mkdir()
    where, node, io = KubeletFolder(program, folder), a_node(), claim("io", *DEVICES)
    node.reader.claims["default", "io"] = io
    befalls(node)
    async with where.kubelet("-node", NODE) as kubelet, where.server(node.start().claims):
        await kubelet.ask("create", claims=[io.to_wire()])
        await registered(kubelet)
        with pytest.raises(CommandRefused) as refused:
            await kubelet.ask("prepare", pod=VM)
    assert str(refused.value) == (
        f"prepare dynamic resources: NodePrepareResources failed for ResourceClaim io: {text}"
    )
    assert bindings(node) == UNCHANGED
    assert [path for path in node.disk.contents if not path.startswith(CHECKPOINT)] == []


def _copied(node: Node, folder: Path) -> str:
    """A folder with the node's CDI files. This machine needn't have the device nodes that they name."""
    cdi = folder / "cdi"
    cdi.mkdir()
    for path, text in node.disk.contents.items():
        if path.startswith(CDI_FOLDER):
            (cdi / Path(path).name).write_text(re.sub(r'"/dev/vfio[^"]*"', '"/dev/null"', text))
    return str(cdi)


async def _address(kubelet: Any, node: Node, source: str, folder: Path) -> str:
    """The address in a metadata file, as Kubernetes' decoder reads it."""
    file = folder / "metadata.json"
    file.write_text(node.disk.contents[source])
    (request,) = (await kubelet.ask("metadata", path=str(file)))["metadata"]["requests"]
    (device,) = request["devices"]
    return str(device["attributes"]["resource.kubernetes.io/pciBusID"]["string"])
