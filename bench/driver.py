"""The node driver: how long it takes to see, decide and publish a node's devices, and the memory of its process."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from devtools.cluster.control_plane import ControlPlane
from node_driver.hardware.reading import HardwareRoots, read_hardware
from node_driver.policy.deciding import published_set
from node_driver.publishing import Publisher
from node_driver.slices import slice_contents
from virt_dra.api.core_v1 import Node
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.policies.node_policy_v1alpha1 import NodePolicySpec, VirtDraNodePolicy
from virt_dra.cluster.memory.embedded import embedded_cluster

COUNTS: Final = (8, 64, 256, 1024)
GOAL_SECONDS: Final = 1.0
"""256 functions seen and published; from the start of the process to its first slice, too."""
GOAL_MIB: Final = 60
_ATTRIBUTES: Final = {
    "vendor": "0x8086", "device": "0x10d3", "class": "0x020000", "subsystem_vendor": "0x8086",
    "subsystem_device": "0x10d3", "numa_node": "0", "driver_override": "(null)", "reset_method": "flr",
    "modalias": "pci:v00008086d000010D3sv00008086sd000010D3bc02sc00i00",
}  # fmt: skip
DRIVER, NODE = "passthrough.virt-dra.io", "node-1"
_SPEC: Final = {"deviceSets": [{"name": "all", "select": [{"class": "02"}]}]}
_POLICY: Final = (
    '{"apiVersion": "virt-dra.io/v1alpha1", "kind": "VirtDraNodePolicy", "metadata": {"name": "all"}, '
    '"spec": {"deviceSets": [{"name": "all", "select": [{"class": "02"}]}]}}'
)


def main(*, quick: bool = False) -> None:
    table = Table(title="Node driver: PCI functions, each in a group of its own")
    for column in ("functions", "read, ms", "decide, ms", "publish, ms", "start to published, s", "resident, MiB"):
        table.add_column(column, justify="right")
    counts = COUNTS[:2] if quick else COUNTS
    with ControlPlane() as plane:
        plane.request("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
        for count in counts:
            with tempfile.TemporaryDirectory(prefix="driver-") as folder:
                host = Path(folder) / "host"
                _tree(count, host)
                steps = asyncio.run(_steps(host, count))
                seconds, mebibytes = _process(plane, Path(folder), count)
            table.add_row(str(count), *(f"{step * 1000:.0f}" for step in steps), f"{seconds:.2f}", f"{mebibytes:.0f}")
    console = Console()
    console.print(table)
    console.print(
        f"Goals: 256 functions read, decided and published within {GOAL_SECONDS:g} s, start to published within "
        f"{GOAL_SECONDS:g} s, {GOAL_MIB} MiB resident. Published to the embedded cluster; the process to a real one."
    )


def _tree(count: int, host: Path) -> None:
    """What /sys and /proc hold on a node with so many functions."""
    (host / "sys" / "bus" / "pci" / "devices").mkdir(parents=True)
    for number in range(count):
        address = f"0000:{number // 32 + 1:02x}:{number % 32:02x}.0"
        function = host / "sys" / "devices" / "pci0000:00" / address
        group = host / "sys" / "kernel" / "iommu_groups" / str(number)
        for folder in (function, group / "devices"):
            folder.mkdir(parents=True)
        for name, text in _ATTRIBUTES.items():
            (function / name).write_text(f"{text}\n")
        (function / "iommu_group").symlink_to(os.path.relpath(group, function))
        for link in (group / "devices" / address, host / "sys" / "bus" / "pci" / "devices" / address):
            link.symlink_to(os.path.relpath(function, link.parent))
    boot_id = host / "proc" / "sys" / "kernel" / "random" / "boot_id"
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text("6b0d8f0a\n")


async def _steps(host: Path, count: int) -> tuple[float, float, float]:
    """Seconds to read, to decide and to publish."""
    cluster = embedded_cluster()
    await cluster.create(Node(metadata=ObjectMeta(name=NODE)))
    policy = VirtDraNodePolicy(metadata=ObjectMeta(name="all"), spec=NodePolicySpec.from_wire(_SPEC))
    began = time.perf_counter()
    hardware = read_hardware(HardwareRoots(str(host / "sys"), str(host / "proc")))
    read = time.perf_counter()
    published = published_set(hardware, (policy,))
    decided = time.perf_counter()
    assert len(published.devices) == count
    publisher = Publisher(cluster, DRIVER, NODE)
    publisher.publish(slice_contents(published, {}))
    task = asyncio.create_task(publisher.run())
    await publisher.published()
    ended = time.perf_counter()
    task.cancel()
    return read - began, decided - read, ended - decided


def _process(plane: ControlPlane, folder: Path, count: int) -> tuple[float, float]:
    """Seconds from the start of the process until all devices are published, and its memory a second later."""
    slices = f"/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3D{NODE}"
    plane.request("DELETE", slices)
    policy = folder / "policy.json"
    policy.write_text(_POLICY)
    arguments = [
        "node-driver", "--node", NODE, "--policy", str(policy), "--kubelet-root", str(folder / "k"),
        "--cdi-dir", str(folder / "cdi"), "--host-root", str(folder / "host"), "--kubeconfig", str(plane.kubeconfig),
    ]  # fmt: skip
    began = time.perf_counter()
    command = [sys.executable, "-c", "from virt_dra.cli.main import cli; cli()", *arguments]
    with subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL) as process:
        try:
            while sum(len(item["spec"].get("devices", ())) for item in plane.request("GET", slices)["items"]) < count:
                assert process.poll() is None, "the driver ended"
                time.sleep(0.01)
            seconds = time.perf_counter() - began
            time.sleep(1)
            status = Path(f"/proc/{process.pid}/status").read_text()
        finally:
            process.kill()
    resident = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert resident is not None
    return seconds, int(resident[1]) / 1024
