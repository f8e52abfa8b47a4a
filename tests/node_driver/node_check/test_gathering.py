"""What is read of a node's tree."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest

from node_driver.hardware import file_tree
from node_driver.node_check.facts import DeviceNode, FileKind, HugePages, KernelFacts, MemoryLock
from node_driver.node_check.gathering import device_node, gather, program_version
from tests.node_driver.machine_trees import described_machine

FILES = {
    "proc/sys/kernel/osrelease": "6.1.0-18-amd64",
    "proc/cmdline": "ro  quiet intel_iommu=on",
    "proc/cpuinfo": "vendor_id\t: GenuineIntel\nflags\t\t: fpu vmx\n\nvendor_id\t: other\n",
    "proc/31/comm": "containerd",
    "proc/31/limits": "Max locked memory         65536                131072               bytes",
    "proc/32/comm": "containerd-shim",
    "proc/32/limits": "Max locked memory         1                    1                    bytes",
    "proc/33/comm": "crio",
    "lib/modules/6.1.0-18-amd64/modules.dep": "a/vfio-pci.ko.zst: a/vfio.ko\nb/mlx5-vfio-pci.ko:\nb/vfio/dummy.ko:\n",
    "lib/modules/6.1.0-18-amd64/modules.builtin": "kernel/vfio.ko\n",
    "sys/bus/pci/drivers/vfio-pci/bind": "",
    "sys/firmware/acpi/tables/DMAR": "",
    "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "4",
    "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "3",
    "sys/kernel/mm/hugepages/garbage/nr_hugepages": "4",
    "sys/devices/pci0000:00/0000:00:01.0/reset_subordinate": "",
    "sys/devices/pci0000:00/0000:00:01.0/0000:02:00.0/reset": "",
    "dev/kvm": "",
}
FUNCTIONS = {
    "0000:00:01.0": {"class": "060400", "group": "1"},
    "0000:01:00.0": {"behind": "0000:00:01.0", "group": "14", "driver": "vfio-pci"},
    "0000:02:00.0": {"behind": "0000:00:01.0", "group": "15"},
}


def test_all_that_is_read_of_a_tree(tmp_path: Path) -> None:
    described_machine({"functions": FUNCTIONS}, tmp_path)
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    facts = gather(str(tmp_path))
    assert facts.kernel == KernelFacts(
        "6.1.0-18-amd64", ("ro", "quiet", "intel_iommu=on"), "GenuineIntel", True, frozenset(("DMAR",)), 3,
        frozenset(("vfio-pci",)), frozenset(("vfio_pci", "mlx5_vfio_pci", "vfio")),
    )  # fmt: skip
    port = ("0000:00:01.0",)
    assert facts.bridges == {"0000:00:01.0": (), "0000:01:00.0": port, "0000:02:00.0": port}
    assert facts.resettable == {"0000:02:00.0"}
    assert facts.resettable_buses == {"0000:00:01.0": {"0000:01:00.0", "0000:02:00.0"}}
    assert facts.huge_pages == (HugePages(2048, 4, 3),)
    assert facts.runtimes == (MemoryLock("containerd", 131072),)
    kvm = DeviceNode(FileKind.OTHER, stat.S_IMODE((tmp_path / "dev/kvm").stat().st_mode))
    assert facts.device_nodes == {"/dev/kvm": kvm, "/dev/vfio/vfio": DeviceNode(), "/dev/vfio/14": DeviceNode()}
    assert facts.programs is None, "programs of another machine aren't started"


def test_what_can_not_be_listed_or_counted_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described_machine({"functions": {"0000:01:00.0": {"group": "1"}}}, tmp_path)
    huge = tmp_path / "sys/kernel/mm/hugepages/hugepages-2048kB"
    huge.mkdir(parents=True)
    for name in ("nr_hugepages", "free_hugepages"):
        (huge / name).write_text("9" * 5000)
    for pid in range(40):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
    (tmp_path / "proc/1/comm").write_text("containerd")
    (tmp_path / "proc/1/limits").write_text("Max locked memory 1 1 bytes")
    assert gather(str(tmp_path)).runtimes == (MemoryLock("containerd", 1),)
    monkeypatch.setattr(file_tree, "ENTRIES_MAX", 30)
    facts = gather(str(tmp_path))
    assert (facts.runtimes, facts.huge_pages, facts.kernel.iommu_groups) == ((), (), 1)


def test_a_link_is_no_device_node(tmp_path: Path) -> None:
    (tmp_path / "kvm").symlink_to("/dev/null")
    assert device_node(str(tmp_path / "kvm")).kind is FileKind.OTHER
    assert device_node("/dev/null") == DeviceNode(FileKind.CHARACTER, stat.S_IMODE(Path("/dev/null").stat().st_mode))


@pytest.mark.parametrize(
    ("script", "version"),
    [
        ("echo QEMU emulator version 7.2.22 '(Debian 1:7.2+dfsg)'", "7.2.22"),
        ("echo libvirtd '(libvirt)' 10.0.0", "10.0.0"),
        ("echo containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b71", "2.1.4"),
        ("echo containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1", "1.6.20"),
        ("echo none; exit 3", ""),
        ("yes 1 | head -c 9000; echo 2.0", ""),
    ],
)
def test_the_version_that_a_program_says(script: str, version: str, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    assert program_version(str(program)) == version


def test_a_large_machine_is_read_in_a_second(tmp_path: Path) -> None:
    vfs = {"count": "256", "total": "256", "first": "0000:41:00.2", "group": "40"}
    functions = {"0000:40:01.0": {"class": "060400"}, "0000:41:00.0": {"behind": "0000:40:01.0", "vfs": vfs}}
    described_machine({"functions": functions}, tmp_path)
    for pid in range(2000):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/comm").write_text("sh\n")
    start = time.process_time()
    assert len(gather(str(tmp_path)).bridges) == 258
    assert time.process_time() - start < 1.0
