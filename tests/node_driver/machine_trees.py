"""Trees as ``/sys`` and ``/proc`` are, made of the short descriptions in ``tests/node_driver/machines``.

A description (YAML)::

    functions:
      0000:01:00.0:               # behind: the bridge that it is below; root: pciDDDD:BB of its address
        {vendor: 10de, device: 2684, class: "030000", behind: 0000:00:01.0, driver: nvidia, group: 14, numa: 0,
         reset: [flr, bus], files: {boot_vga: 1}, block: {nvme0n1: [nvme0n1p1]}, net: [eth0], links: {name: target},
         vfs: {count: 4, total: 64, first: 0000:41:02.0, device: "101e", driver: mlx5_core, group: 40, files: {}},
         mdev_types: {nvidia-35: {name: GRID T4-1Q, available: 16}}}
    mdevs: {UUID: {parent: 0000:41:00.0, type: nvidia-35, group: 50}}
    files: {devices/system/node/node0/distance: "10 21"}    # beside the functions
    links: {class/net/bond0: ../../devices/virtual/net/bond0}
    proc: {self/mountinfo: ..., net/route: ...}
    modules: modules.alias as text

Links are relative, as the kernel's are.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from node_driver.hardware.reading import HardwareRoots

MACHINES = Path(__file__).parent / "machines"
DEFAULTS = {"vendor": "8086", "device": "1234", "class": "088000"}


@dataclass(frozen=True)
class MachineTree:
    """The folders of a machine."""

    folder: Path

    @property
    def sysfs(self) -> Path:
        return self.folder / "sys"

    @property
    def roots(self) -> HardwareRoots:
        return HardwareRoots(str(self.sysfs), str(self.folder / "proc"), str(self.folder / "modules"))


def machine(name: str, folder: Path) -> MachineTree:
    """The tree of ``machines/NAME.yaml`` below a folder."""
    # All scalars are texts: 0000:01:00.0 would be a number.
    return described_machine(yaml.load((MACHINES / f"{name}.yaml").read_text(), yaml.BaseLoader), folder)


def described_machine(description: dict[str, Any], folder: Path) -> MachineTree:
    tree = MachineTree(folder)
    builder = _Builder(tree.sysfs, description["functions"])
    for address, function in description["functions"].items():
        builder.function(address, function)
    for uuid, mdev in description.get("mdevs", {}).items():
        builder.mdev(uuid, mdev)
    for path, text in description.get("files", {}).items():
        builder.file(path, text)
    for path, target in description.get("links", {}).items():
        builder.raw_link(path, target)
    for path, text in description.get("proc", {}).items():
        _write(folder / "proc" / path, text)
    if "modules" in description:
        _write(folder / "modules" / "modules.alias", description["modules"])
    return tree


class _Builder:
    def __init__(self, root: Path, functions: dict[str, Any]) -> None:
        self._root = root
        self._functions = functions

    def path(self, address: str) -> str:
        function = self._functions[address]
        if "behind" in function:
            return f"{self.path(function['behind'])}/{address}"
        return f"devices/{function.get('root', 'pci' + address[:7])}/{address}"

    def function(self, address: str, described: dict[str, Any]) -> None:
        path = self.path(address)
        self._entry(address, path, {**DEFAULTS, **described})
        if vfs := described.get("vfs"):
            self._vfs(path, address, {**DEFAULTS, **described, "reset": ["flr"]}, vfs)

    def _entry(self, address: str, path: str, function: dict[str, Any]) -> None:
        ids = {name: str(function[name]) for name in ("vendor", "device", "class")}
        subsystem = str(function.get("subsystem", f"{ids['vendor']}:{ids['device']}")).split(":")
        files = {
            "vendor": f"0x{ids['vendor']}", "device": f"0x{ids['device']}", "class": f"0x{ids['class']}",
            "subsystem_vendor": f"0x{subsystem[0]}", "subsystem_device": f"0x{subsystem[1]}",
            "numa_node": function.get("numa", -1), "driver_override": "(null)",
            "modalias": _modalias(ids, subsystem),
            "uevent": f"PCI_SLOT_NAME={address}",
        }  # fmt: skip
        if "reset" in function:
            files["reset_method"] = " ".join(function["reset"])
        for name, text in {**files, **function.get("files", {})}.items():
            if text != "null":
                self.file(f"{path}/{name}", text)
        self.link(f"bus/pci/devices/{address}", path)
        if driver := function.get("driver"):
            self.link(f"{path}/driver", f"bus/pci/drivers/{driver}")
            self.link(f"bus/pci/drivers/{driver}/{address}", path)
        if "group" in function:
            group = f"kernel/iommu_groups/{function['group']}"
            self.link(f"{path}/iommu_group", group)
            self.link(f"{group}/devices/{address}", path)
        for name, target in function.get("links", {}).items():
            self.raw_link(f"{path}/{name}", target)
        self._children(address, path, function)

    def _children(self, address: str, path: str, function: dict[str, Any]) -> None:
        for number, (disk, partitions) in enumerate(function.get("block", {}).items()):
            for minor, name in enumerate((disk, *partitions)):
                folder = f"{path}/block/{disk}" + (f"/{name}" if minor else "")
                self.file(f"{folder}/dev", f"259:{16 * number + minor}")
                self.link(f"class/block/{name}", folder)
        for name in function.get("net", ()):
            self.file(f"{path}/net/{name}/flags", "0x1003")
            self.link(f"class/net/{name}", f"{path}/net/{name}")
        for type_id, described in function.get("mdev_types", {}).items():
            folder = f"{path}/mdev_supported_types/{type_id}"
            self.file(f"{folder}/available_instances", described["available"])
            self.file(f"{folder}/device_api", "vfio-pci")
            for name in ("name", "description"):
                if name in described:
                    self.file(f"{folder}/{name}", described[name])
        if "mdev_types" in function:
            self.link(f"class/mdev_bus/{address}", path)

    def _vfs(self, path: str, address: str, function: dict[str, Any], vfs: dict[str, Any]) -> None:
        self.file(f"{path}/sriov_totalvfs", vfs["total"])
        self.file(f"{path}/sriov_numvfs", vfs["count"])
        for index in range(int(vfs["count"])):
            vf = _offset(vfs["first"], index)
            vf_path = f"{path.rpartition('/')[0]}/{vf}"
            described: dict[str, Any] = {
                name: function[name] for name in ("vendor", "class", "reset", "numa") if name in function
            }
            described |= {name: value for name, value in vfs.items() if name in ("device", "driver", "files")}
            described["device"] = vfs.get("device", function["device"])
            if "group" in vfs:
                described["group"] = int(vfs["group"]) + index
            if "net" in vfs:
                described["net"] = [f"{vfs['net']}v{index}"]
            self._entry(vf, vf_path, described)
            self.link(f"{vf_path}/physfn", path)
            self.link(f"{path}/virtfn{index}", vf_path)

    def mdev(self, uuid: str, mdev: dict[str, Any]) -> None:
        parent = self.path(mdev["parent"])
        folder = f"{parent}/{uuid}"
        self.link(f"{folder}/mdev_type", f"{parent}/mdev_supported_types/{mdev['type']}")
        self.link(f"bus/mdev/devices/{uuid}", folder)
        if "group" in mdev:
            self.link(f"{folder}/iommu_group", f"kernel/iommu_groups/{mdev['group']}")

    def file(self, path: str, text: object) -> None:
        _write(self._root / path, text)

    def link(self, path: str, target: str) -> None:
        (self._root / target).mkdir(parents=True, exist_ok=True)
        self.raw_link(path, os.path.relpath(target, os.path.dirname(path)))  # noqa: PTH120 - texts of links

    def raw_link(self, path: str, target: str) -> None:
        link = self._root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)


def _write(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) and text.endswith("\n") else f"{text}\n")


def _modalias(ids: dict[str, str], subsystem: list[str]) -> str:
    code = ids["class"].upper()
    vendor, device = (f"0000{ids[name].upper()}" for name in ("vendor", "device"))
    sub_vendor, sub_device = (f"0000{part.upper()}" for part in subsystem)
    return f"pci:v{vendor}d{device}sv{sub_vendor}sd{sub_device}bc{code[:2]}sc{code[2:4]}i{code[4:]}"


def _offset(address: str, index: int) -> str:
    domain, bus, rest = address.split(":")
    number = (int(bus, 16) << 8 | int(rest[:2], 16) << 3 | int(rest[3])) + index
    return f"{domain}:{number >> 8:02x}:{number >> 3 & 31:02x}.{number & 7}"
