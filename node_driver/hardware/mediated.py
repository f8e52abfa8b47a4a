"""Reads mediated devices, their parents and types (D-49), and vGPUs of cards without mdev (D-61)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Final

from node_driver.hardware.file_tree import FileTree, UnreadableFile, has_text, read_each
from node_driver.hardware.inventory import MdevType, MediatedDevice, UnreadableDevice, VgpuFunction
from node_driver.hardware.iommu_groups import iommu_group
from node_driver.hardware.pci import DEVICES

PARENTS: Final = "class/mdev_bus"
MDEVS: Final = "bus/mdev/devices"
PARENT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9:._-]{0,62}")
TYPE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_COUNT: Final = re.compile(r"\d{1,6}")
_VGPU_ROW: Final = re.compile(r"(\d{1,6})\s*:\s*(\S.{0,62})")


def read_mdev_types(tree: FileTree) -> tuple[Mapping[str, tuple[MdevType, ...]], list[UnreadableDevice]]:
    """The types of each parent by the parent's name, which is a PCI address for most, and what can't be read."""
    return read_each(tree.names(PARENTS), lambda parent: _parent_types(tree, parent))


def _parent_types(tree: FileTree, parent: str) -> tuple[MdevType, ...]:
    folder = tree.resolved(f"{PARENTS}/{parent}")
    if folder is None or not PARENT_NAME.fullmatch(parent):
        raise UnreadableFile(f"{PARENTS}/{parent}", "isn't a parent of mediated devices inside of the tree")
    types = []
    for type_id in tree.names(f"{folder}/mdev_supported_types"):
        path = f"{folder}/mdev_supported_types/{type_id}"
        if not TYPE_NAME.fullmatch(type_id):
            raise UnreadableFile(path, "isn't named as a type")
        available = tree.text(f"{path}/available_instances") or ""
        if not _COUNT.fullmatch(available):
            raise has_text(f"{path}/available_instances", available, "a number")
        name, description, api = (tree.text(f"{path}/{name}") or "" for name in ("name", "description", "device_api"))
        types.append(MdevType(parent, type_id, name, description, api, int(available)))
    return tuple(types)


def read_mdevs(tree: FileTree) -> tuple[Mapping[str, MediatedDevice], list[UnreadableDevice]]:
    """The mediated devices that exist by UUID, whoever made them, and what can't be read."""
    return read_each(tree.names(MDEVS), lambda name: _mdev(tree, name))


def _mdev(tree: FileTree, name: str) -> MediatedDevice:
    path = f"{MDEVS}/{name}"
    folder = tree.resolved(path)
    try:
        is_uuid = str(uuid.UUID(name)) == name
    except ValueError:
        is_uuid = False
    if folder is None or not is_uuid:
        raise UnreadableFile(path, "isn't a mediated device inside of the tree")
    type_id = tree.link(f"{folder}/mdev_type")
    if not TYPE_NAME.fullmatch(type_id):
        raise has_text(f"{path}/mdev_type", type_id, "a link to its type")
    return MediatedDevice(name, folder.split("/")[-2], type_id, iommu_group(tree, folder))


def read_vgpus(tree: FileTree, addresses: Iterable[str]) -> tuple[Mapping[str, VgpuFunction], list[UnreadableDevice]]:
    """Those of the PCI functions that can be given a vGPU profile, and what can't be read."""
    return read_each(addresses, lambda address: _vgpu(tree, address))


def _vgpu(tree: FileTree, address: str) -> VgpuFunction | None:
    folder = f"{DEVICES}/{address}/nvidia"
    if tree.resolved(folder) is None:
        return None
    current, creatable = tree.text(f"{folder}/current_vgpu_type"), tree.text(f"{folder}/creatable_vgpu_types")
    if current is None or creatable is None:
        return None
    if not _COUNT.fullmatch(current):
        raise has_text(f"{folder}/current_vgpu_type", current, "the number of a type")
    return VgpuFunction(address, current, _profiles(f"{folder}/creatable_vgpu_types", creatable))


def _profiles(path: str, text: str) -> Mapping[str, str]:
    """Type id -> profile name, of lines such as ``557 : NVIDIA L40S-8Q`` below a heading."""
    profiles = {}
    for line in text.splitlines():
        row = _VGPU_ROW.fullmatch(line.strip())
        if row is not None:
            profiles[row[1]] = row[2].strip()
        elif line.strip() and not line.strip().upper().startswith("ID"):
            raise has_text(path, line, "lines such as 557 : NVIDIA L40S-8Q")
    return profiles
