"""A node's hardware as read of trees that are as the kernel makes them, of this machine's own, and of broken ones."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from node_driver.hardware.file_tree import FileTree, UnreadableFile
from node_driver.hardware.inventory import Hardware, NumaNode, PciFunction, VfioAlias
from node_driver.hardware.reading import HardwareRoots, read_again, read_hardware
from tests.node_driver.machine_trees import MACHINES, described_machine, machine


def read(name: str, folder: Path) -> Hardware:
    return read_hardware(machine(name, folder).roots)


def test_a_function_is_what_its_folder_says(tmp_path: Path) -> None:
    hardware = read("gpu-workstation", tmp_path)
    assert hardware.functions["0000:01:00.0"] == PciFunction(
        "0000:01:00.0",
        vendor="10de",
        device="2684",
        class_code="030000",
        subsystem_vendor="1043",
        subsystem_device="88e2",
        driver="nvidia",
        iommu_group=14,
        numa_node=0,
        pcie_root="pci0000:00",
        modalias="pci:v000010DEd00002684sv00001043sd000088E2bc03sc00i00",
        reset_methods=("bus",),
    )
    assert [function.address for function in hardware.group_members(16)] == [
        "0000:03:00.0", "0000:03:00.1", "0000:04:00.0", "0000:04:00.1",
    ]  # fmt: skip
    assert hardware.unreadable == ()


def test_virtual_functions_know_their_pf_and_index(tmp_path: Path) -> None:
    functions = read("sriov-nic", tmp_path).functions
    pf = functions["0000:41:00.0"]
    assert (pf.virtual_functions, pf.total_vfs) == (tuple(f"0000:41:00.{number}" for number in range(2, 6)), 64)
    assert [(functions[vf].physical_function, functions[vf].vf_index) for vf in pf.virtual_functions] == [
        ("0000:41:00.0", index) for index in range(4)
    ]
    assert (functions["0000:41:00.1"].virtual_functions, functions["0000:41:00.1"].total_vfs) == ((), 64)
    assert functions["0000:41:00.5"].pcie_root == "pci0000:40"


def test_numa_nodes_have_distances_and_sockets(tmp_path: Path) -> None:
    hardware = read("sriov-nic", tmp_path)
    assert hardware.numa_nodes[1] == NumaNode((12, 10, 21, 21), 0)
    assert hardware.functions["0000:41:00.0"].numa_node == 1
    assert read("pci-bridge", tmp_path / "other").functions["0000:00:03.0"].numa_node is None, "the kernel says -1"


def test_mdevs_and_what_their_parents_can_still_make(tmp_path: Path) -> None:
    hardware = read("mdev-card", tmp_path)
    assert {item.type_id: item.available for item in hardware.mdev_types["0000:3b:00.0"]} == {
        "nvidia-222": 0,
        "nvidia-231": 6,
        "nvidia-232": 4,
        "nvidia-233": 1,
    }
    assert [(item.name, item.device_api) for item in hardware.mdev_types["mtty"]] == [
        ("Single port serial", "vfio-pci")
    ]
    assert {mdev.iommu_group: (mdev.parent, mdev.type_id) for mdev in hardware.mdevs.values()} == {
        50: ("0000:3b:00.0", "nvidia-231"),
        51: ("0000:3b:00.0", "nvidia-231"),
    }


def test_vgpu_functions_have_what_their_driver_offers(tmp_path: Path) -> None:
    hardware = read("vgpu-card", tmp_path)
    assert list(hardware.vgpus) == [f"0000:61:00.{number}" for number in range(4, 8)]
    assert hardware.vgpus["0000:61:00.4"].current_type == "0"
    assert hardware.vgpus["0000:61:00.4"].creatable == {
        "1155": "NVIDIA L40S-24Q",
        "1159": "NVIDIA L40S-12Q",
        "1157": "NVIDIA L40S-48Q",
    }
    assert hardware.functions["0000:61:00.4"].vfio_device == "vfio0"


def test_variant_drivers_come_from_the_kernels_table(tmp_path: Path) -> None:
    assert read("sriov-nic", tmp_path).vfio_aliases == (
        VfioAlias("vfio_pci:v00008086d0000E20Bsv*sd*bc03sc*i*", "xe-vfio-pci"),
        VfioAlias("vfio_pci:v000015B3d0000101Esv*sd*bc*sc*i*", "mlx5_vfio_pci"),
        VfioAlias("vfio_pci:v*d*sv*sd*bc*sc*i*", "vfio-pci"),
    )


def test_a_loaded_module_says_what_its_driver_is_called(tmp_path: Path) -> None:
    tree = machine("sriov-nic", tmp_path)
    (tree.sysfs / "module/mlx5_vfio_pci/drivers/pci:mlx5-of-tomorrow").mkdir(parents=True)
    assert "mlx5-of-tomorrow" in [alias.driver for alias in read_hardware(tree.roots).vfio_aliases]


MALFORMED = {
    "0000:01:00.0": "devices/pci0000:01/0000:01:00.0/vendor has '8086' instead of 0x and 4 hexadecimal digits",
    "0000:02:00.0": "devices/pci0000:02/0000:02:00.0/class has '0x02' instead of 0x and 6 hexadecimal digits",
    "0000:03:00.0": "devices/pci0000:03/0000:03:00.0/numa_node has 'many' instead of a number",
    "0000:04:00.0": "devices/pci0000:04/0000:04:00.0/device is missing",
    "0000:05:00.0": "devices/pci0000:05/0000:05:00.0/numa_node has '1024' instead of -1 or a node below 1024",
    "0000:06:00.0": "devices/pci0000:06/0000:06:00.0/physfn has 'nowhere' instead of a link to a PCI function",
    "0000:08:00.0": "bus/pci/devices/0000:08:00.0 isn't a folder inside of the tree",
    "0000:09:00.0": "bus/pci/devices/0000:09:00.0 isn't a folder inside of the tree",
    "0000:0a:00.0": "bus/pci/devices/0000:0a:00.0 leads to devices/pci0000:07/0000:07:00.0, which is another device",
    "10000:e1:00.0": "bus/pci/devices/10000:e1:00.0 has a PCI domain of more than four digits, which pciBusID can't "
    "express",
    "garbage": "bus/pci/devices/garbage isn't named as a PCI address (dddd:bb:dd.f)",
}


def test_malformed_entries_are_named_and_the_others_read(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    hardware = read("malformed", tmp_path / "tree")
    assert {device.subject: device.message for device in hardware.unreadable} == MALFORMED
    assert list(hardware.functions) == ["0000:01:00.1", "0000:07:00.0"]


@pytest.mark.parametrize("group", ["-5", "12345678901234567890", "seven"])
def test_a_group_that_is_no_number_of_one_is_refused(group: str, tmp_path: Path) -> None:
    tree = machine("sriov-nic", tmp_path)
    address, function = next(iter(read_hardware(tree.roots).functions.items()))
    assert function.iommu_group is not None
    link = tree.sysfs / f"bus/pci/devices/{address}/iommu_group"
    link.unlink()
    link.symlink_to(f"../../kernel/iommu_groups/{group}")
    (unreadable,) = [device for device in read_hardware(tree.roots).unreadable if device.subject == address]
    assert unreadable.message.endswith(f"/iommu_group has '{group}' instead of the number of a group")


def test_a_group_that_the_kernel_does_not_have_is_refused(tmp_path: Path) -> None:
    """Whatever the device's link says, nothing can be opened there."""
    tree = machine("mdev-card", tmp_path)
    hardware = read_hardware(tree.roots)
    address, function = next(item for item in hardware.functions.items() if item[1].iommu_group is not None)
    uuid, mdev = next(iter(hardware.mdevs.items()))
    for group in (function.iommu_group, mdev.iommu_group):
        shutil.rmtree(tree.sysfs / f"kernel/iommu_groups/{group}")
    after = read_hardware(tree.roots)
    (card,) = (device for device in after.unreadable if device.subject == address)
    assert card.message.endswith(
        f"/{address}/iommu_group leads to the group {function.iommu_group}, which isn't in kernel/iommu_groups"
    )
    assert (address in after.functions, uuid in after.mdevs) == (False, False)


def test_a_copy_without_the_list_of_groups_has_the_links(tmp_path: Path) -> None:
    tree = machine("mdev-card", tmp_path)
    hardware = read_hardware(tree.roots)
    shutil.rmtree(tree.sysfs / "kernel/iommu_groups")
    assert read_hardware(tree.roots) == hardware


def test_a_tree_without_sysfs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="holds nothing of what /sys holds"):
        read_hardware(HardwareRoots(str(tmp_path / "nowhere")))


# --- what a hostile copy of a tree can't do -----------------------------------------------------------------------


def test_links_out_of_the_root_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/vendor").write_text("0x8086\n")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/folder").symlink_to("../secret")
    (tmp_path / "root/file").symlink_to("../secret/vendor")
    (tmp_path / "root/loop").symlink_to("loop")
    tree = FileTree(tmp_path / "root")
    assert (tree.resolved("folder"), tree.text("folder/vendor"), tree.text("file"), tree.names("folder")) == (
        None, None, None, ()
    )  # fmt: skip
    assert (tree.resolved("loop"), tree.text("loop"), tree.text("../secret/vendor")) == (None, None, None)


def test_a_root_beside_another_with_a_longer_name_is_not_left(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root-two").mkdir()
    (tmp_path / "root/next").symlink_to("../root-two")
    assert FileTree(tmp_path / "root").resolved("next") is None


def test_large_files_and_pipes_are_refused_without_waiting(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 100_000)
    os.mkfifo(tmp_path / "pipe")
    tree = FileTree(tmp_path)
    for name, message in (("large", "has more than 65536 bytes"), ("pipe", "isn't a regular file")):
        with pytest.raises(UnreadableFile, match=f"{name} {message}"):
            tree.text(name)


def test_bytes_that_are_no_text_are_read_as_escapes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff\x00ok\n")
    assert FileTree(tmp_path).text("file") == "\\xff\0ok"


# --- against others -----------------------------------------------------------------------------------------------


def test_this_machine_is_read_as_its_files_say() -> None:
    """The witness reads each attribute by its own name, without any of our code."""
    devices = Path("/sys/bus/pci/devices")
    addresses = sorted(path.name for path in devices.iterdir()) if devices.is_dir() else []
    if not addresses:
        pytest.skip("this machine shows no PCI devices")
    hardware = read_hardware(HardwareRoots())
    assert sorted(hardware.functions) == addresses
    for address, function in hardware.functions.items():
        folder = devices / address
        assert (f"0x{function.vendor}", f"0x{function.class_code}") == (
            (folder / "vendor").read_text().strip(),
            (folder / "class").read_text().strip(),
        )
        assert function.driver == ((folder / "driver").resolve().name if (folder / "driver").exists() else "")
        assert function.pcie_root == folder.resolve().parts[3]
        assert function.modalias == (folder / "modalias").read_text().strip()


def test_every_machine_can_be_read_anew_with_the_same_outcome(tmp_path: Path) -> None:
    for path in MACHINES.glob("*.yaml"):
        tree = machine(path.stem, tmp_path / path.stem)
        assert read_hardware(tree.roots) == read_hardware(tree.roots)
        assert len(fields(read_hardware(tree.roots))) == 8


def test_256_virtual_functions_are_read_in_far_less_than_a_second(tmp_path: Path) -> None:
    pf = yaml.load(
        """
        0000:41:00.0: {vendor: "15b3", device: "101d", class: "020000", driver: mlx5_core, group: 21,
          vfs: {count: 256, total: 256, first: 0000:41:01.0, device: "101e", driver: mlx5_core, group: 100}}
        """,
        yaml.BaseLoader,
    )
    tree = described_machine({"functions": pf}, tmp_path)
    started = time.process_time()
    hardware = read_hardware(tree.roots)
    assert time.process_time() - started < 0.5
    assert len(hardware.functions) == 257
    assert hardware.functions["0000:42:00.7"].vf_index == 255


def rebound(address: str, driver: str) -> Callable[[Path], frozenset[str]]:
    """Binds a function to another driver, and names it."""

    def change(sysfs: Path) -> frozenset[str]:
        link = (sysfs / "bus/pci/devices" / address).resolve() / "driver"
        link.unlink(missing_ok=True)
        (sysfs / "bus/pci/drivers" / driver).mkdir(exist_ok=True)
        link.symlink_to(os.path.relpath(sysfs / "bus/pci/drivers" / driver, link.parent))
        return frozenset({address, "group-5"})

    return change


def unplugged(address: str) -> Callable[[Path], frozenset[str]]:
    """Takes a function away; nothing reports it."""

    def change(sysfs: Path) -> frozenset[str]:
        (sysfs / "bus/pci/devices" / address).unlink()
        return frozenset()

    return change


def written(path: str, text: str, *touched: str) -> Callable[[Path], frozenset[str]]:
    def change(sysfs: Path) -> frozenset[str]:
        (sysfs / path).parent.mkdir(parents=True, exist_ok=True)
        (sysfs / path).write_text(f"{text}\n")
        return frozenset(touched)

    return change


def without_mdev(sysfs: Path) -> frozenset[str]:
    (sysfs / "bus/mdev/devices/8d1f2c3a-0d4e-4a56-9b7c-1e2f3a4b5c6d").unlink()
    return frozenset()


VGPU_VF = "bus/pci/devices/0000:ca:00.4"
CARD = "bus/pci/devices/0000:3b:00.0"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gpu-workstation", rebound("0000:01:00.0", "vfio-pci")),
        ("sriov-nic", rebound("0000:41:00.3", "vfio-pci")),
        ("sriov-nic", unplugged("0000:41:00.5")),
        ("gpu-workstation", written("bus/pci/devices/0000:01:00.0/vendor", "nonsense", "0000:01:00.0")),
        ("mdev-card", without_mdev),
        ("mdev-card", written(f"{CARD}/mdev_supported_types/nvidia-231/available_instances", "3", "0000:3b:00.0")),
        ("sriov-nic", written("bus/pci/devices/0000:41:00.3/nvidia/current_vgpu_type", "0", "0000:41:00.3")),
        ("malformed", lambda sysfs: frozenset()),
    ],
    ids=["bound", "VF bound", "unplugged", "broken", "mdev removed", "mdev type", "vGPU", "malformed"],
)
def test_what_changed_is_read_anew_as_the_whole_would_be(
    name: str, change: Callable[[Path], frozenset[str]], tmp_path: Path
) -> None:
    tree = machine(name, tmp_path)
    earlier = read_hardware(tree.roots)
    touched = change(tree.sysfs)
    assert read_again(tree.roots, earlier, touched) == read_hardware(tree.roots)


def test_a_function_that_couldnt_be_read_is_read_once_it_is_whole(tmp_path: Path) -> None:
    tree = machine("sriov-nic", tmp_path)
    vendor = tree.sysfs / "bus/pci/devices/0000:41:00.3/vendor"
    whole = vendor.read_text()
    vendor.unlink()
    earlier = read_hardware(tree.roots)
    assert [device.subject for device in earlier.unreadable] == ["0000:41:00.3"]
    vendor.write_text(whole)
    assert read_again(tree.roots, earlier, frozenset()) == earlier
    assert read_again(tree.roots, earlier, frozenset({"0000:41:00.3"})) == read_hardware(tree.roots) != earlier


def test_what_isnt_touched_isnt_read_anew(tmp_path: Path) -> None:
    tree = machine("sriov-nic", tmp_path)
    earlier = read_hardware(tree.roots)
    rebound("0000:41:00.3", "vfio-pci")(tree.sysfs)
    rebound("0000:41:00.2", "vfio-pci")(tree.sysfs)
    again = read_again(tree.roots, earlier, frozenset({"0000:41:00.3"}))
    assert again.functions["0000:41:00.3"].driver == "vfio-pci"
    assert again.functions["0000:41:00.2"] is earlier.functions["0000:41:00.2"]
