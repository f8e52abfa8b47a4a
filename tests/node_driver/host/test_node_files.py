"""The kernel's files in a real tree, through the helper process: refusals, stuck operations, restarts."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from node_driver.host.binding import DriverBinding
from node_driver.host.changes import HostBusy, HostError, HostProperty, TargetGone
from node_driver.host.child import AttributeHelper
from node_driver.host.file_locks import FileLocks
from node_driver.host.kernel_files import AttributeRead, AttributeWrite, KernelOperation
from node_driver.host.node_files import NodeFiles
from node_driver.host.node_host import NodeHost
from node_driver.host.node_programs import NodePrograms
from node_driver.host.sanitizing import Sanitizer

NIC = "0000:01:00.0"
PROBE = "sys/bus/pci/drivers_probe"


@pytest.fixture
async def helper() -> AsyncIterator[AttributeHelper]:
    helper = AttributeHelper()
    yield helper
    helper.close()


@pytest.fixture
def locks(tmp_path: Path) -> FileLocks:
    return FileLocks(str(tmp_path / "locks"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of what a node's sysfs has of one function that is bound to e1000e."""
    function = tmp_path / "sys/devices/pci0000:00" / NIC
    function.mkdir(parents=True)
    (function / "driver_override").write_text("(null)\n")
    for driver in ("e1000e", "vfio-pci"):
        (tmp_path / "sys/bus/pci/drivers" / driver).mkdir(parents=True)
        (tmp_path / "sys/bus/pci/drivers" / driver / "unbind").touch()
    (tmp_path / "sys/bus/pci/drivers_probe").touch()
    (tmp_path / "sys/bus/pci/devices").mkdir()
    (tmp_path / "sys/bus/pci/devices" / NIC).symlink_to(function)
    (function / "driver").symlink_to(tmp_path / "sys/bus/pci/drivers/e1000e")
    return tmp_path


async def test_attributes_are_read_and_written_in_order_until_one_is_refused(
    root: Path, locks: FileLocks, helper: AttributeHelper
) -> None:
    files = NodeFiles(locks, helper, root=str(root))
    folder = f"/sys/bus/pci/devices/{NIC}"

    texts = await files.operate(
        NIC,
        AttributeRead(f"{folder}/driver_override"),
        AttributeWrite(f"{folder}/driver_override", "vfio-pci"),
        AttributeRead(f"{folder}/driver_override"),
    )
    assert texts == ("(null)", "vfio-pci")

    with pytest.raises(OSError, match="No such file") as refused:
        await files.operate(
            NIC, AttributeRead(f"{folder}/missing"), AttributeWrite(f"{folder}/driver_override", "never written")
        )
    assert (refused.value.errno, refused.value.filename) == (errno.ENOENT, f"{folder}/missing")
    assert (root / f"sys/bus/pci/devices/{NIC}/driver_override").read_text() == "vfio-pci"


async def test_a_function_that_the_kernel_doesnt_rebind_is_said_to_be_where_it_is(
    root: Path, locks: FileLocks, helper: AttributeHelper
) -> None:
    binding = DriverBinding(NodeFiles(locks, helper, root=str(root)))

    assert await binding.value(NIC) == "e1000e/"
    with pytest.raises(HostError) as refused:
        await binding.set_value(NIC, "vfio-pci/vfio-pci")

    assert str(refused.value) == (
        f"{NIC} was to be bound to vfio-pci, but is bound to e1000e; the node's kernel log says why"
    )
    written = {
        path: (root / path).read_text()
        for path in (
            f"sys/bus/pci/devices/{NIC}/driver_override",
            "sys/bus/pci/drivers/e1000e/unbind",
            "sys/bus/pci/drivers_probe",
        )
    }
    assert list(written.values()) == ["vfio-pci", NIC, NIC]
    with pytest.raises(TargetGone):
        await binding.value("0000:09:00.0")


async def test_a_stuck_operation_holds_up_its_target_alone_and_the_next_instance_waits(
    root: Path, locks: FileLocks, helper: AttributeHelper
) -> None:
    """Opening a FIFO for writing waits for a reader, as a write to sysfs may wait for a driver."""
    files = NodeFiles(locks, helper, root=str(root))
    os.mkfifo(root / "stuck")
    (root / "log").touch()
    with pytest.raises(HostBusy):
        await files.operate(NIC, AttributeWrite("/stuck", "1"), AttributeWrite("/log", "went through"), limit=0.2)

    assert await files.operate("another", AttributeRead("/log"), limit=5.0) == ("",)
    helper.close()  # the daemon ends
    other = AttributeHelper()
    try:
        next_files = NodeFiles(FileLocks(str(root / "locks")), other, root=str(root))
        with pytest.raises(HostBusy):
            await next_files.operate(NIC, AttributeRead("/log"), limit=0.2)
        with pytest.raises(HostBusy):
            await next_files.operate(NIC, limit=0.2)

        reader = os.open(root / "stuck", os.O_RDONLY | os.O_NONBLOCK)
        assert await next_files.operate(NIC, AttributeRead("/log"), limit=20.0) == ("went through",)
        assert await next_files.operate(NIC) == (), "waiting alone is an operation, too"
        os.close(reader)
    finally:
        other.close()


async def test_the_helper_is_started_again_after_it_died(root: Path, locks: FileLocks, helper: AttributeHelper) -> None:
    files = NodeFiles(locks, helper, root=str(root))
    path = f"/sys/bus/pci/devices/{NIC}/driver_override"
    await files.operate(NIC, AttributeRead(path))
    os.kill(helper.pid, 9)
    os.waitid(os.P_PID, helper.pid, os.WEXITED | os.WNOWAIT)

    assert await files.operate(NIC, AttributeRead(path)) == ("(null)",)


async def test_who_holds_a_node_is_found_by_its_open_files(
    root: Path, locks: FileLocks, helper: AttributeHelper
) -> None:
    descriptors = root / "proc/4711/fd"
    descriptors.mkdir(parents=True)
    (root / "proc/4711/comm").write_text("qemu-kvm\n")
    (descriptors / "7").symlink_to("/dev/vfio/12")
    (descriptors / "8").symlink_to("socket:[99]")
    (root / "proc/self").symlink_to("4711")
    files = NodeFiles(locks, helper, root=str(root))

    assert await files.holders(frozenset({"/dev/vfio/12"})) == ("qemu-kvm (4711)",)
    assert await files.holders(frozenset({"/dev/vfio/13"})) == ()


NVME = """#!/bin/sh
echo "$@" >> {log}
{action}
"""


@pytest.mark.parametrize(
    ("action", "outcome"),
    [
        ("cp /dev/null {disk}; truncate -s 4194304 {disk}", None),
        ("true", "nvme format said that {disk} was erased, but it has the same contents"),
        (
            "echo 'NVMe status: Access Denied'; exit 1",
            "{disk} can't be erased: nvme format: NVMe status: Access Denied",
        ),
    ],
    ids=["erased", "pretended", "refused"],
)
async def test_a_namespace_counts_as_erased_when_its_contents_are_gone(
    action: str,
    outcome: str | None,
    root: Path,
    locks: FileLocks,
    helper: AttributeHelper,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function = root / "sys/devices/pci0000:00" / NIC
    (function / "nvme/nvme0/nvme0n1").mkdir(parents=True)
    (function / "class").write_text("0x010802\n")
    disk = root / "nvme0n1"
    disk.write_bytes(b"secret of tenant A" * 300_000)
    programs = root / "bin"
    programs.mkdir()
    (programs / "nvme").write_text(NVME.format(log=root / "log", action=action.format(disk=disk)))
    (programs / "nvme").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    sanitizer = Sanitizer(NodeFiles(locks, helper, root=str(root)), NodePrograms(locks), dev=str(root))

    error = None
    try:
        await sanitizer.erase(NIC)
    except HostError as raised:
        error = str(raised)

    assert error == (outcome and outcome.format(disk=disk))
    assert (root / "log").read_text() == f"format {disk} --ses=1 --force\n"


async def test_a_namespace_with_several_paths_is_erased_by_the_node_of_its_subsystem(
    root: Path, locks: FileLocks, helper: AttributeHelper, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, subsystem = root / "sys/devices/pci0000:00" / NIC, root / "sys/class/nvme-subsystem/nvme-subsys0"
    (function / "nvme/nvme3/nvme0c3n1").mkdir(parents=True)
    (function / "class").write_text("0x010802\n")
    (subsystem / "nvme0n1/nvme0n1p1").mkdir(parents=True)
    (subsystem / "nvme3").symlink_to(function / "nvme/nvme3")
    (root / "nvme0n1").write_bytes(b"secret")
    programs = root / "bin"
    programs.mkdir()
    (programs / "nvme").write_text(NVME.format(log=root / "log", action=f"cp /dev/null {root}/nvme0n1"))
    (programs / "nvme").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    await Sanitizer(NodeFiles(locks, helper, root=str(root)), NodePrograms(locks), dev=str(root)).erase(NIC)

    assert (root / "log").read_text() == f"format {root}/nvme0n1 --ses=1 --force\n"


class ImpatientFiles(NodeFiles):
    async def operate(self, target: str, *operations: KernelOperation, limit: float = 0.2) -> tuple[str, ...]:
        return await super().operate(target, *operations, limit=limit)


async def test_a_change_that_the_kernel_does_not_finish_is_counted(
    root: Path, locks: FileLocks, helper: AttributeHelper
) -> None:
    override = root / "sys/bus/pci/devices" / NIC / "driver_override"
    override.unlink()
    os.mkfifo(override)  # opening it for writing waits for a reader
    hung: list[HostProperty] = []
    host = NodeHost(ImpatientFiles(locks, helper, root=str(root)), NodePrograms(locks), hung.append)
    with pytest.raises(HostBusy):
        await host.set_value(HostProperty.DRIVER, NIC, "vfio-pci/vfio-pci")
    assert hung == [HostProperty.DRIVER]
    os.close(os.open(override, os.O_RDONLY | os.O_NONBLOCK))


async def test_operations_are_quick_beside_each_other(root: Path, locks: FileLocks, helper: AttributeHelper) -> None:
    files = NodeFiles(locks, helper, root=str(root))
    path = f"/sys/bus/pci/devices/{NIC}/driver_override"
    await files.operate(NIC, AttributeRead(path))

    began = time.monotonic()
    await asyncio.gather(*(files.operate(f"target-{index}", AttributeRead(path)) for index in range(64)))
    assert time.monotonic() - began < 10  # tenths of a second on an idle machine


async def test_vfs_are_made_without_drivers_where_none_were(
    root: Path, locks: FileLocks, helper: AttributeHelper
) -> None:
    function = root / "sys/devices/pci0000:00" / NIC
    (function / "sriov_numvfs").write_text("0\n")
    (function / "sriov_drivers_autoprobe").write_text("1\n")
    host = NodeHost(NodeFiles(locks, helper, root=str(root)), NodePrograms(locks))

    assert await host.value(HostProperty.VF_COUNT, NIC) == "0/1"
    await host.set_value(HostProperty.VF_COUNT, NIC, "4/0")
    assert await host.value(HostProperty.VF_COUNT, NIC) == "4/0"
    with pytest.raises(TargetGone):
        await host.value(HostProperty.VF_COUNT, "0000:09:00.0")
    (function / "sriov_numvfs").unlink()
    with pytest.raises(HostError, match=f"{NIC} has no virtual functions to make: .*sriov_numvfs: No such file"):
        await host.value(HostProperty.VF_COUNT, NIC)
