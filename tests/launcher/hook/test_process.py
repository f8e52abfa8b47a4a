"""``virt-dra-hook`` as a container's process: from the files of a node to the domain, asked as KubeVirt asks."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from lxml import etree

from tests.launcher.hook.kubevirt_side import Callback, collect, mutate_domain

PATIENCE = 60.0
DOMAIN = (Path(__file__).parent.parent / "cases" / "hook" / "domain.xml").read_bytes()
METADATA = "var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/c/n/nvme.example.com-metadata.json"


class Sidecar:
    """The container's folders and its process. ``root`` stands for its ``/``."""

    def __init__(self, folder: Path) -> None:
        self.sockets, self.root = folder / "hooks", folder / "root"
        self.socket = self.sockets / "hook-sidecar-0" / "virt-dra.sock"
        self.socket.parent.mkdir(parents=True)
        self.root.mkdir()

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def add_function(self, address: str, pcie_root: str, numa_node: int) -> None:
        folder = f"sys/devices/{pcie_root}/{address}"
        self.write(f"{folder}/numa_node", f"{numa_node}\n")
        link = self.root / "sys/bus/pci/devices" / address
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(self.root / folder)

    @asynccontextmanager
    async def running(self, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
        command = (sys.executable, "-m", "launcher.hook.entry", "--socket", str(self.socket), "--root", str(self.root))
        process = await asyncio.create_subprocess_exec(*command, *options, stderr=asyncio.subprocess.PIPE)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def collected(self) -> Callback:
        """As KubeVirt waits for it: the folder is looked at until the socket is there."""
        async with asyncio.timeout(PATIENCE):
            while not self.socket.exists():
                await asyncio.sleep(0.05)
        (callback,) = await collect(self.sockets)
        return callback


@pytest.fixture
def sidecar() -> Iterator[Sidecar]:
    """In a short folder: a socket's path has at most 107 bytes."""
    with TemporaryDirectory() as folder:
        yield Sidecar(Path(folder))


def vmi(annotations: dict[str, str]) -> bytes:
    devices = {"hostDevices": [{"name": "nvme", "claimName": "c", "requestName": "n"}]}
    claims = [{"name": "c", "resourceClaimTemplateName": "t"}]
    metadata = {"name": "trainer", "annotations": annotations}
    return json.dumps(
        {"metadata": metadata, "spec": {"resourceClaims": claims, "domain": {"devices": devices}}}
    ).encode()


async def test_a_domain_is_completed_from_the_files_of_its_node_until_the_vm_ends(sidecar: Sidecar) -> None:
    device = {
        "driver": "d",
        "pool": "p",
        "name": "n",
        "attributes": {"resource.kubernetes.io/pciBusID": {"string": "0000:05:00.0"}},
    }
    document = {
        "apiVersion": "metadata.resource.k8s.io/v1alpha1",
        "metadata": {"name": "o"},
        "requests": [{"name": "n", "devices": [device]}],
    }
    sidecar.write(METADATA, json.dumps(document))
    for node, cpus in enumerate(("0-31", "32-63")):
        sidecar.write(f"sys/devices/system/node/node{node}/cpulist", f"{cpus}\n")
    sidecar.add_function("0000:05:00.0", "pci0000:00", 0)
    sidecar.add_function("0000:41:00.0", "pci0000:40", 0)
    sidecar.add_function("0000:81:00.0", "pci0000:80", 1)
    options = json.dumps({"hostDevices/nvme": {"bootOrder": 2, "romBar": "off"}})
    annotations = {"virt-dra.io/pci-placement": "pcie-root", "virt-dra.io/hostdev-options": options}
    asked = vmi({**annotations, "note": "x" * 1_000_000})

    async with sidecar.running() as process:
        callback = await sidecar.collected()
        assert await callback.on_define_domain(DOMAIN, vmi({})) == DOMAIN
        text = await callback.on_define_domain(DOMAIN, asked)
        assert await callback.on_define_domain(text, asked) == text
        await callback.call("Shutdown", {})
        _, log = await asyncio.wait_for(process.communicate(), PATIENCE)

    places = {
        alias.get("name"): [address.get("bus") for address in hostdev.findall("address")]
        for hostdev in etree.fromstring(text).iterfind("devices/hostdev")
        for alias in hostdev.findall("alias")
    }
    assert places == {
        "ua-dra-hostdevice-nvme": ["2"],
        "ua-gpu-plugin": ["4"],
        "ua-dra-gpu-left": ["6"],
        "ua-dra-gpu-right": [],
    }
    assert process.returncode == 0
    warning = (
        "warning: device 0000:82:00.0 cannot be placed on a NUMA-aware PCIe topology: "
        "failed to read host NUMA affinity: open /sys/bus/pci/devices/0000:82:00.0/numa_node: no such file or directory"
    )
    assert log.decode().splitlines() == [
        f"serving {sidecar.socket}",
        "hostDevices/nvme: added with address 0000:05:00.0, from metadata",
        "hostDevices/nvme: romBar, bootOrder",
        "device 0000:05:00.0: placed behind root port 2",
        "device 0000:41:00.0: placed behind root port 4",
        "device 0000:81:00.0: placed behind root port 6",
        warning,
        warning,
    ]


async def test_a_plugin_of_kubevirt_1_9_gives_options_to_a_domain_that_boots(sidecar: Sidecar) -> None:
    """K-11.19, as K-11.8 asks."""
    options = json.dumps({"gpus/plugin": {"bootOrder": 2, "romBar": "off"}})
    metadata = {"name": "trainer", "annotations": {"virt-dra.io/hostdev-options": options}}
    devices = {"gpus": [{"name": "plugin", "deviceName": "v.com/gpu"}]}
    asked = json.dumps({"metadata": metadata, "spec": {"domain": {"devices": devices}}}).encode()

    async with sidecar.running():
        await sidecar.collected()
        booted = await mutate_domain(sidecar.socket, DOMAIN, asked, "Boot")
        migrated = await mutate_domain(sidecar.socket, DOMAIN, asked, "MigrationTarget")

    gpu = etree.fromstring(booted).findall("devices/hostdev")[0]
    assert [(child.tag, dict(child.attrib)) for child in gpu][1:] == [
        ("alias", {"name": "ua-gpu-plugin"}),
        ("boot", {"order": "2"}),
        ("rom", {"bar": "off"}),
    ]
    assert migrated == DOMAIN


async def test_a_sidecar_that_is_stopped_ends_with_0_and_one_without_its_folder_with_1(sidecar: Sidecar) -> None:
    async with sidecar.running("--pci-placement", "none") as process:
        await sidecar.collected()
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    sidecar.socket = sidecar.socket.parent / "nowhere" / "virt-dra.sock"
    async with sidecar.running() as process:
        _, log = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 1
    assert log.decode().splitlines()[-1].startswith(f"error: {sidecar.socket} can't be bound: ")
