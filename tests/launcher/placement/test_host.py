"""The host's topology: of sysfs, and of a text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from launcher.placement.host import HostTopology, PciLocation
from launcher.placement.host_text import host_text, read_host_text
from launcher.placement.sysfs import read_host
from virt_dra.api.wire import WireError

TEXT = """
numaNodes:
- {id: 1, cpus: "2-3,6-7"}
- {id: 0, cpus: "0,1,4,5"}
cores: ["0,4", "1,5"]
pciFunctions:
  "0000:41:00.0": {numaNode: 0, pcieRoot: "pci0000:40"}
  "0000:C1:00.0": {pcieRoot: "pci0000:c0"}
  "0000:c2:00.0": {}
"""
TOPOLOGY = HostTopology(
    nodes={0: (0, 1, 4, 5), 1: (2, 3, 6, 7)},
    functions={
        "0000:41:00.0": PciLocation(0, "pci0000:40"),
        "0000:c1:00.0": PciLocation(None, "pci0000:c0"),
        "0000:c2:00.0": PciLocation(),
    },
    siblings={0: (0, 4), 4: (0, 4), 1: (1, 5), 5: (1, 5)},
)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_sysfs_is_read(tmp_path: Path) -> None:
    for function, node in (("pci0000:40/0000:40:01.0/0000:41:00.0", "0\n"), ("pci0000:c0/0000:c1:00.0", "-1\n")):
        folder = tmp_path / "devices" / function
        write(folder / "numa_node", node)
        (tmp_path / "bus/pci/devices").mkdir(parents=True, exist_ok=True)
        (tmp_path / "bus/pci/devices" / folder.name).symlink_to(folder)
    (tmp_path / "bus/pci/devices/0000:c2:00.0").mkdir()
    for number, cpus in ((0, "0-1,4-5\n"), (1, "2-3,6-7\n")):
        write(tmp_path / f"devices/system/node/node{number}/cpulist", cpus)
    write(tmp_path / "devices/system/node/possible", "0-1\n")
    for cpu, threads in ((0, "0,4"), (4, "0,4"), (1, "1,5"), (5, "1,5"), (2, "2"), (3, "garbage")):
        write(tmp_path / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", threads)

    assert read_host(tmp_path) == TOPOLOGY


def test_a_host_without_pci_and_numa_has_neither(tmp_path: Path) -> None:
    assert read_host(tmp_path / "missing") == HostTopology({}, {})


def test_a_text_is_read_and_written_again() -> None:
    assert read_host_text(TEXT) == TOPOLOGY
    assert read_host_text(json.dumps(host_text(TOPOLOGY))) == TOPOLOGY


def test_every_fault_of_a_text_is_named() -> None:
    with pytest.raises(WireError) as refusal:
        read_host_text(
            "numaNodes: [{id: 0, cpus: 0-x}, {id: 0, cpuss: '1'}]\ncores: ['', '0-1', '3,1']\n"
            "pciFunctions: {'41:00.0': {numaNode: -1}, '0000:41:00.0': {pcieRoot: x}}\n"
        )

    assert refusal.value.problems == (
        ("numaNodes[0].cpus", "'0-x' is no list of CPUs; write for example 0-3,8"),
        ("cores[2]", "CPU 1 is in cores[1], too"),
        ("numaNodes[1].id", "0 must be 0 or more, and each only once"),
        ("pciFunctions[41:00.0]", "failed to parse pci address 41:00.0"),
        ("pciFunctions[41:00.0].numaNode", "-1 must be 0 or more; leave it out where it is unknown"),
        ("pciFunctions[0000:41:00.0].pcieRoot", "'x' is no PCIe root; write for example pci0000:40"),
        ("numaNodes[1].cpuss", "isn't a field of a topology"),
    )


@pytest.mark.parametrize("text", ["", "a: {}\n---\nb: {}\n", "[1]", "numaNodes: {", "numaNodes: [{cpus: '1'}]"])
def test_a_text_that_is_no_topology_is_refused(text: str) -> None:
    with pytest.raises(WireError):
        read_host_text(text)
