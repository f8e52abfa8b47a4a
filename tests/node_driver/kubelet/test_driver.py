"""The driver's own preparing and releasing, on a node in memory, asked by Kubernetes' DRA manager; what it writes is
judged by the libraries that read it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from devtools.node.kernel import Function
from devtools.node.world import CDI_FOLDER, DRIVER, NODE, PLUGIN_FOLDER, Node, claim
from devtools.upstream.kubelet.witness import CommandRefused
from node_driver.devices import DeviceKind, PassthroughDevice
from tests.node_driver.kubelet.node import KubeletFolder, registered
from virt_dra.api.resource_v1 import DeviceAttribute

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


async def test_a_claim_that_was_replaced_is_refused_and_changes_nothing(program: Path, folder: Path) -> None:
    (folder / "registry").mkdir()
    where, node, io = KubeletFolder(program, folder), a_node(), claim("io", *DEVICES)
    node.reader.claims["default", "io"] = claim("io", *DEVICES, uid="uid-later")
    async with where.kubelet("-node", NODE) as kubelet, where.server(node.start().claims):
        await kubelet.ask("create", claims=[io.to_wire()])
        await registered(kubelet)
        with pytest.raises(CommandRefused) as refused:
            await kubelet.ask("prepare", pod=VM)
    assert str(refused.value) == (
        "prepare dynamic resources: NodePrepareResources failed for ResourceClaim io: ResourceClaim default/io was "
        'replaced: its UID is "uid-later", not uid-io; the pod must be created again'
    )
    assert bindings(node) == UNCHANGED
    assert [path for path in node.disk.contents if path.startswith(CDI_FOLDER)] == []


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
