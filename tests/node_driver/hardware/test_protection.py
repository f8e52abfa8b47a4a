"""What the node itself needs is found through partitions, RAID, LVM and encryption, bonds, bridges and VLANs (D-39)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node_driver.hardware.file_tree import FileTree
from node_driver.hardware.protection import needed_functions
from node_driver.hardware.reading import read_hardware
from tests.node_driver.machine_trees import described_machine, machine

NO_ROUTES = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
DEFAULT_ROUTE = NO_ROUTES + "{} 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n"
CONNECTED_ROUTE = NO_ROUTES + "{} 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n"
DISK, SECOND, NIC = "0000:05:00.0", "0000:06:00.0", "0000:07:00.0"
FUNCTIONS = {
    DISK: {"class": "010802", "block": {"nvme0n1": ["nvme0n1p1", "nvme0n1p2"]}},
    SECOND: {"class": "010601", "block": {"sda": ["sda1"]}},
    NIC: {"class": "020000", "net": ["eth0"]},
}


def needed(
    folder: Path, mountinfo: str = "", *, route: str = NO_ROUTES, addressed: tuple[str, ...] = (), **more: Any
) -> dict[str, str]:
    proc = {"self/mountinfo": mountinfo, "net/route": route, **more.pop("proc", {})}
    tree = described_machine({"functions": FUNCTIONS, "proc": proc, **more}, folder)
    return dict(needed_functions(FileTree(tree.sysfs), FileTree(folder / "proc"), addressed))


def virtual_disk(name: str, number: str, *slaves: str, **files: str) -> dict[str, Any]:
    folder = f"devices/virtual/block/{name}"
    return {
        "files": {
            f"{folder}/dev": number,
            **{f"{folder}/slaves/{slave}/x": "" for slave in slaves},
            **{f"{folder}/{path}": text for path, text in files.items()},
        },
        "links": {f"class/block/{name}": f"../../{folder}"},
    }


def test_a_mounted_partition_protects_its_controller(tmp_path: Path) -> None:
    assert needed(tmp_path, "22 1 259:2 / /var\\040lib rw - ext4 /dev/nvme0n1p2 rw") == {
        DISK: "has the disk nvme0n1p2, which is mounted at /var lib"
    }


def test_a_file_system_without_a_device_number_is_known_by_its_source(tmp_path: Path) -> None:
    assert needed(tmp_path, "22 1 0:40 / /data rw - btrfs /dev/sda1 rw") == {
        SECOND: "has the disk sda1, which is mounted at /data"
    }


def test_an_external_log_of_xfs_is_needed(tmp_path: Path) -> None:
    options = "rw,attr2,logbufs=8,logdev=/dev/sda1,noquota"
    assert needed(tmp_path, f"22 1 259:2 / / rw - xfs /dev/nvme0n1p2 {options}") == {
        DISK: "has the disk nvme0n1p2, which is mounted at /",
        SECOND: "has the disk sda1, which is the logdev of what is mounted at /",
    }


def test_an_external_journal_of_ext4_is_needed(tmp_path: Path) -> None:
    """The list of mounts doesn't name it: the kernel names journals by their devices, and files by their inode."""
    journals: dict[str, Any] = {"proc": {"fs/jbd2/sda1/info": "", "fs/jbd2/nvme0n1p2-8/info": ""}}
    assert needed(tmp_path, **journals) == {
        DISK: "has the disk nvme0n1p2, which has the journal of a mounted file system",
        SECOND: "has the disk sda1, which has the journal of a mounted file system",
    }


def test_an_external_journal_on_a_logical_volume_protects_its_disk(tmp_path: Path) -> None:
    volume = virtual_disk("dm-0", "253:0", "sda1")
    assert needed(tmp_path, proc={"fs/jbd2/dm-0/info": ""}, **volume) == {
        SECOND: "has the disk dm-0, which has the journal of a mounted file system"
    }


def test_a_mirror_protects_all_its_disks(tmp_path: Path) -> None:
    mirror = virtual_disk("md0", "9:0", "nvme0n1p1", "sda1")
    assert needed(tmp_path, "22 1 9:0 / / rw - xfs /dev/md0 rw", **mirror) == {
        DISK: "has the disk md0, which is mounted at /",
        SECOND: "has the disk md0, which is mounted at /",
    }


def test_encryption_on_lvm_on_a_partition_protects_the_disk(tmp_path: Path) -> None:
    lower, upper = virtual_disk("dm-0", "253:0", "sda1"), virtual_disk("dm-1", "253:1", "dm-0", **{"dm/name": "crypt"})
    both: dict[str, Any] = {part: lower[part] | upper[part] for part in ("files", "links")}
    assert needed(tmp_path, "22 1 0:41 / / rw - btrfs /dev/mapper/crypt rw", **both) == {
        SECOND: "has the disk dm-1, which is mounted at /"
    }


def test_disks_that_are_part_of_something_or_swap_are_needed(tmp_path: Path) -> None:
    holder: dict[str, Any] = {"files": {"devices/pci0000:06/0000:06:00.0/block/sda/sda1/holders/dm-5/x": ""}}
    swaps = {"swaps": "Filename Type Size Used Priority\n/dev/nvme0n1p1 partition 1 0 -2\n"}
    assert needed(tmp_path, proc=swaps, **holder) == {
        DISK: "has the disk nvme0n1p1, which is swap",
        SECOND: "has the disk sda1, which is part of dm-5",
    }


def test_a_namespace_with_several_paths_protects_all_its_controllers(tmp_path: Path) -> None:
    subsystem = "devices/virtual/nvme-subsystem/nvme-subsys0"
    more: dict[str, Any] = {
        "files": {
            f"{subsystem}/nvme0n1/dev": "259:7",
            "devices/pci0000:05/0000:05:00.0/nvme/nvme0/x": "",
            "devices/pci0000:06/0000:06:00.0/nvme/nvme1/x": "",
        },
        "links": {
            "class/block/nvme9n1": f"../../{subsystem}/nvme0n1",
            "class/nvme-subsystem/nvme-subsys0": f"../../{subsystem}",
            f"{subsystem}/nvme0": "../../../pci0000:05/0000:05:00.0/nvme/nvme0",
            f"{subsystem}/nvme1": "../../../pci0000:06/0000:06:00.0/nvme/nvme1",
        },
    }
    assert set(needed(tmp_path, "22 1 259:7 / / rw - ext4 /dev/root rw", **more)) == {DISK, SECOND}


def test_the_disks_of_a_btrfs_on_several_are_all_needed(tmp_path: Path) -> None:
    filesystem: dict[str, Any] = {
        "files": {"fs/btrfs/0b2d/label": ""},
        "links": {
            "fs/btrfs/0b2d/devices/sda1": "../../../../devices/pci0000:06/0000:06:00.0/block/sda/sda1",
            "fs/btrfs/0b2d/devices/nvme0n1p1": "../../../../devices/pci0000:05/0000:05:00.0/block/nvme0n1/nvme0n1p1",
        },
    }
    assert set(needed(tmp_path, "22 1 0:40 / /data rw - btrfs /dev/sda1 rw", **filesystem)) == {DISK, SECOND}


def test_where_a_pool_doesnt_name_its_disks_all_are_needed(tmp_path: Path) -> None:
    assert set(needed(tmp_path, "22 1 0:40 / / rw - zfs rpool/root rw")) == {DISK, SECOND}


@pytest.mark.parametrize(
    ("route", "text"), [(DEFAULT_ROUTE, "default route"), (CONNECTED_ROUTE, "route")], ids=["default", "connected"]
)
def test_an_interface_with_a_route_protects_its_function(tmp_path: Path, route: str, text: str) -> None:
    assert needed(tmp_path, route=route.format("eth0")) == {
        NIC: f"carries the node's {text}, through the interface eth0"
    }


def test_an_ipv6_route_counts_and_a_link_local_one_doesnt(tmp_path: Path) -> None:
    zero, row = "0" * 32, "{} {} {} 00 {} 00000064 00000001 00000000 00000001 eth0\n"
    local = row.format("fe80" + "0" * 28, "40", zero, zero)
    assert needed(tmp_path / "a", proc={"net/ipv6_route": local}) == {}
    default = row.format(zero, "00", zero, "fe80" + "0" * 27 + "1")
    assert needed(tmp_path / "b", proc={"net/ipv6_route": local + default}) == {
        NIC: "carries the node's default route, through the interface eth0"
    }


GLOBAL6 = "20010db8000000000000000000000001 02 40 00 80 eth0\n"
LOCAL6 = "fe800000000000000000000000000001 02 40 20 80 eth0\n"


@pytest.mark.parametrize(
    ("addressed", "addresses6", "flags", "is_needed"),
    [
        (("eth0", "lo"), "", "0x1003", True),
        ((), LOCAL6 + GLOBAL6, "0x1003", True),
        ((), LOCAL6, "0x1003", False),
        (("lo",), "", "0x1003", False),
        (("eth0",), "", "0x1002", False),
        (("eth0",), "", "up", False),
    ],
    ids=["ipv4", "ipv6", "link-local", "loopback", "down", "malformed"],
)
def test_an_address_without_a_route_counts_while_its_interface_is_up(
    tmp_path: Path, addressed: tuple[str, ...], addresses6: str, flags: str, is_needed: bool
) -> None:
    functions = {**FUNCTIONS, NIC: {"class": "020000", "files": {"net/eth0/flags": flags}}}
    links = {"class/net/eth0": "../../devices/pci0000:07/0000:07:00.0/net/eth0"}
    proc = {"net/if_inet6": addresses6}
    assert needed(tmp_path, addressed=addressed, functions=functions, links=links, proc=proc) == (
        {NIC: "has an address of the node's, at the interface eth0"} if is_needed else {}
    )


def test_a_port_of_a_bond_or_bridge_is_needed_whatever_that_has(tmp_path: Path) -> None:
    more: dict[str, Any] = {
        "files": {"devices/virtual/net/br0/flags": "0x1002"},
        "links": {"devices/pci0000:07/0000:07:00.0/net/eth0/master": "../../../../virtual/net/br0"},
    }
    assert needed(tmp_path, **more) == {NIC: "has the interface eth0, which is a port of br0"}


def test_a_disk_that_only_another_mount_namespace_has_mounted_is_needed(tmp_path: Path) -> None:
    proc = {
        "1/mountinfo": "22 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw",
        **dict.fromkeys(
            ("70/mountinfo", "71/mountinfo"), "9 1 0:30 / / rw - overlay o rw\n10 9 259:1 / /d rw - xfs s rw"
        ),
        "72/mountinfo": "22 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw",
        "net/route": NO_ROUTES,
    }
    functions = {**FUNCTIONS, SECOND: {"class": "010601", "files": {"block/sdb/dev": "259:1"}}}
    tree = described_machine(
        {
            "functions": functions,
            "proc": proc,
            "links": {"class/block/sdb": "../../devices/pci0000:06/0000:06:00.0/block/sdb"},
        },
        tmp_path,
    )
    for process, namespace in (("1", 1), ("70", 2), ("71", 2), ("72", 1)):
        (tmp_path / "proc" / process / "ns").mkdir()
        (tmp_path / "proc" / process / "ns/mnt").symlink_to(f"mnt:[{namespace}]")
    (tree.sysfs / "devices/pci0000:05/0000:05:00.0/block/nvme0n1/nvme0n1p1/dev").write_text("259:9\n")
    assert needed_functions(FileTree(tree.sysfs), FileTree(tmp_path / "proc")) == {
        DISK: "has the disk nvme0n1p2, which is mounted at /",
        SECOND: "has the disk sdb, which is mounted at /d in the mount namespace of process 70",
    }


def test_a_bridge_over_a_vlan_over_a_bond_leads_to_the_nic(tmp_path: Path) -> None:
    virtual = "devices/virtual/net"
    more: dict[str, Any] = {
        "files": {f"{virtual}/{name}/flags": "0x1" for name in ("br0", "bond0.5", "bond0")},
        "links": {
            **{f"class/net/{name}": f"../../{virtual}/{name}" for name in ("br0", "bond0.5", "bond0")},
            f"{virtual}/br0/brif/bond0.5": "../../bond0.5/brport",
            f"{virtual}/bond0.5/lower_bond0": "../bond0",
            f"{virtual}/bond0/lower_eth0": "../../../pci0000:07/0000:07:00.0/net/eth0",
        },
    }
    assert needed(tmp_path, route=DEFAULT_ROUTE.format("br0"), **more) == {
        NIC: "carries the node's default route, through the interface br0"
    }


def test_a_route_over_a_virtual_function_protects_the_pf_whose_driver_it_needs(tmp_path: Path) -> None:
    tree = machine("sriov-nic", tmp_path)
    (tree.sysfs / "class/net/vf2").symlink_to("../../devices/pci0000:40/0000:40:01.0/0000:41:00.4")
    (tree.folder / "proc/net/route").write_text(DEFAULT_ROUTE.format("vf2"))
    assert {"0000:41:00.0", "0000:41:00.4"} <= read_hardware(tree.roots).protected.keys()
    assert "0000:41:00.2" not in read_hardware(tree.roots).protected


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"files": {"devices/pci0000:06/0000:06:00.0/boot_vga": "1"}}, "the firmware's boot display"),
        ({"links": {"class/graphics/fb0": "../../devices/pci0000:06/0000:06:00.0"}}, "it has the framebuffer fb0"),
        ({
            "links": {"class/tty/ttyS4": "../../devices/pci0000:06/0000:06:00.0"},
            "proc": {"consoles": "ttyS4  -W- (EC p a)  4:68\n"},
        }, "it has ttyS4"),
    ],
    ids=["boot display", "framebuffer", "serial"],
)  # fmt: skip
def test_the_console_is_needed(tmp_path: Path, more: dict[str, Any], reason: str) -> None:
    assert needed(tmp_path, **more) == {SECOND: f"is the node's console: {reason}"}


def test_where_mounts_or_routes_arent_known_every_disk_and_interface_is_needed(tmp_path: Path) -> None:
    tree = described_machine({"functions": FUNCTIONS}, tmp_path)
    assert read_hardware(tree.roots).protected == {
        DISK: "has the disk nvme0n1, and which disks the node uses isn't known: its mounts can't be read",
        SECOND: "has the disk sda, and which disks the node uses isn't known: its mounts can't be read",
        NIC: "has the interface eth0, and which interfaces the node uses isn't known: its routes can't be read",
    }


def test_the_first_process_knows_more_mounts_than_a_container(tmp_path: Path) -> None:
    host = {"1/mountinfo": "22 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw"}
    assert needed(tmp_path, "22 1 0:30 / / rw - overlay overlay rw", proc=host) == {
        DISK: "has the disk nvme0n1p2, which is mounted at /"
    }
