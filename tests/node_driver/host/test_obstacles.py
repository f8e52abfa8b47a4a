"""What keeps a function from being unbound, in trees as the kernel shows them: what isn't published for the node's sake
is refused for the same reason, and so is what a process has open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from node_driver.hardware.file_tree import FileTree
from node_driver.hardware.protection import needed_functions
from node_driver.host.child import AttributeHelper
from node_driver.host.file_locks import FileLocks
from node_driver.host.node_files import NodeFiles
from node_driver.host.node_host import NodeHost
from node_driver.host.node_programs import NodePrograms
from tests.node_driver.machine_trees import described_machine

DISK, NIC = "0000:05:00.0", "0000:07:00.0"
FUNCTIONS: dict[str, Any] = {
    DISK: {"class": "010802", "group": 5, "driver": "nvme"},
    NIC: {"class": "020000", "group": 7, "driver": "e1000e"},
}
NVME = "devices/pci0000:05/0000:05:00.0/nvme"
SUBSYSTEM = "devices/virtual/nvme-subsystem/nvme-subsys0"
MULTIPATH: dict[str, Any] = {
    "files": {
        f"{SUBSYSTEM}/nvme0n1/dev": "259:0",
        f"{SUBSYSTEM}/nvme0n1/nvme0n1p1/dev": "259:1",
        f"{SUBSYSTEM}/nvme0n1/nvme0n1p1/uevent": "DEVNAME=nvme0n1p1",
        f"{NVME}/nvme0/nvme0c0n1/size": "100",
        f"{NVME}/nvme0/dev": "244:0",
    },
    "links": {
        "class/nvme-subsystem/nvme-subsys0": f"../../{SUBSYSTEM}",
        f"{SUBSYSTEM}/nvme0": f"../../../../{NVME}/nvme0",
        "class/block/nvme0n1": f"../../{SUBSYSTEM}/nvme0n1",
        "class/block/nvme0n1p1": f"../../{SUBSYSTEM}/nvme0n1/nvme0n1p1",
    },
}
NO_ROUTES = {"1/net/route": "Iface Destination\n", "1/mountinfo": "22 1 0:30 / / rw - overlay overlay rw"}
SUBSYSTEM_MOUNT = {"1/mountinfo": "22 1 259:1 / /var rw - ext4 /dev/root rw"}
SWAP = {"swaps": "Filename\n/dev/nvme0n1 partition 1 0 -2"}
ETH0 = {"class": "020000", "group": 7, "driver": "e1000e", "net": ["eth0"]}
DEFAULT = "eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NodeHost]:
    helper, locks = AttributeHelper(), FileLocks(str(tmp_path / "locks"))
    yield NodeHost(NodeFiles(locks, helper, root=str(tmp_path)), NodePrograms(locks))
    helper.close()


def tree(folder: Path, **described: Any) -> dict[str, str]:
    """Makes the tree, and returns what isn't published for the node's sake."""
    proc = NO_ROUTES | described.pop("proc", {})
    machine = described_machine({"functions": FUNCTIONS, **described, "proc": proc}, folder)
    (machine.sysfs / "bus/pci/drivers/vfio-pci").mkdir(parents=True, exist_ok=True)
    return dict(needed_functions(FileTree(machine.sysfs), FileTree(folder / "proc")))


@pytest.mark.parametrize(
    ("described", "address", "reason"),
    [
        (MULTIPATH | {"proc": SUBSYSTEM_MOUNT}, DISK, "has the disk nvme0n1p1, which is mounted at /var"),
        (MULTIPATH | {"proc": SWAP}, DISK, "has the disk nvme0n1, which is swap"),
        (
            {"functions": {**FUNCTIONS, NIC: ETH0}, "proc": {"1/net/route": f"Iface\n{DEFAULT}"}},
            NIC,
            "carries the node's default route, through the interface eth0",
        ),
        (
            {"links": {"class/graphics/fb0": "../../devices/pci0000:07/0000:07:00.0"}},
            NIC,
            "is the node's console: it has the framebuffer fb0",
        ),
    ],
    ids=["mount over several paths", "swap over several paths", "route", "console"],
)  # fmt: skip
async def test_what_the_node_needs_is_neither_published_nor_unbound(
    node: NodeHost, tmp_path: Path, described: dict[str, Any], address: str, reason: str
) -> None:
    assert tree(tmp_path, **described) == {address: reason}
    assert await node.obstacle((address,), "vfio-pci") == f"{address} {reason}; let the node do without it first"


async def test_a_process_that_has_a_namespace_over_several_paths_open_is_named(node: NodeHost, tmp_path: Path) -> None:
    assert tree(tmp_path, **MULTIPATH, proc={"4711/comm": "fio"}) == {}
    assert await node.obstacle((DISK,), "vfio-pci") == ""
    (tmp_path / "proc/4711/fd").mkdir()
    (tmp_path / "proc/4711/fd/3").symlink_to("/dev/nvme0n1p1")
    assert await node.obstacle((DISK,), "vfio-pci") == f"{DISK} is held by fio (4711); end the process first"


async def test_what_is_free_or_on_the_target_already_is_no_obstacle(node: NodeHost, tmp_path: Path) -> None:
    eth0 = {**ETH0, "driver": "vfio-pci"}
    needed = tree(tmp_path, functions={**FUNCTIONS, NIC: eth0}, proc={"1/net/route": f"Iface\n{DEFAULT}"})
    assert needed.keys() == {NIC}
    assert (await node.obstacle((NIC,), "vfio-pci"), await node.obstacle((DISK,), "vfio-pci")) == ("", "")
