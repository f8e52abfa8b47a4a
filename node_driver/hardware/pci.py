"""Reads the PCI functions of a sysfs tree (D-40, D-48)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from node_driver.hardware.file_tree import FileTree, UnreadableFile, has_text, read_each
from node_driver.hardware.inventory import LONG_DOMAIN, PciFunction, UnreadableDevice
from node_driver.hardware.iommu_groups import iommu_group

DEVICES: Final = "bus/pci/devices"
ADDRESS: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,62}")
"""Names of drivers and reset methods: they are published, and drivers become parts of paths."""
_VIRTUAL_FUNCTION: Final = re.compile(r"virtfn(\d{1,5})")
_NUMBER: Final = re.compile(r"-?\d{1,9}")
_NO_OVERRIDE: Final = "(null)"
_NUMA_NODES_MAX: Final = 1024


def read_functions(tree: FileTree, names: Iterable[str]) -> tuple[Mapping[str, PciFunction], list[UnreadableDevice]]:
    """The functions with those names in the list of devices, by address and without :attr:`PciFunction.vf_index`, and
    those that can't be read."""
    return read_each(names, lambda name: _function(tree, name), lambda name: _group_of_unreadable(tree, name))


def _group_of_unreadable(tree: FileTree, name: str) -> int | None:
    """The group that it spoils for others; None for an entry that isn't a device of its own."""
    folder = tree.resolved(f"{DEVICES}/{name}") or ""
    if folder.rpartition("/")[2] != name:
        return None
    try:
        return iommu_group(tree, folder)
    except UnreadableFile:
        return None


def _function(tree: FileTree, address: str) -> PciFunction:
    listed = f"{DEVICES}/{address}"
    if LONG_DOMAIN.fullmatch(address):
        raise UnreadableFile(listed, "has a PCI domain of more than four digits, which pciBusID can't express")
    if not ADDRESS.fullmatch(address):
        raise UnreadableFile(listed, "isn't named as a PCI address (dddd:bb:dd.f)")
    folder = tree.resolved(listed)
    if folder is None:
        raise UnreadableFile(listed, "isn't a folder inside of the tree")
    if folder.rpartition("/")[2] != address:
        raise UnreadableFile(listed, f"leads to {folder}, which is another device")
    names = frozenset(tree.names(folder))
    root = folder.split("/")[1]
    override = _optional(tree, folder, names, "driver_override")
    return PciFunction(
        address,
        vendor=_hexadecimal(tree, f"{folder}/vendor", 4),
        device=_hexadecimal(tree, f"{folder}/device", 4),
        class_code=_hexadecimal(tree, f"{folder}/class", 6),
        subsystem_vendor=_hexadecimal(tree, f"{folder}/subsystem_vendor", 4, required=False),
        subsystem_device=_hexadecimal(tree, f"{folder}/subsystem_device", 4, required=False),
        driver=_plain_name(f"{folder}/driver", tree.link(f"{folder}/driver")),
        driver_override="" if override == _NO_OVERRIDE else override,
        iommu_group=iommu_group(tree, folder),
        numa_node=_numa_node(tree, f"{folder}/numa_node") if "numa_node" in names else None,
        pcie_root=root if folder.startswith("devices/") and _ROOT.fullmatch(root) else "",
        modalias=_optional(tree, folder, names, "modalias"),
        reset_methods=_reset_methods(tree, folder, names),
        vfio_device=next((name for name in tree.names(f"{folder}/vfio-dev") if _NAME.fullmatch(name)), "")
        if "vfio-dev" in names
        else "",
        physical_function=_linked_address(tree, f"{folder}/physfn") if "physfn" in names else "",
        virtual_functions=_virtual_functions(tree, folder, names),
        total_vfs=_number(tree, f"{folder}/sriov_totalvfs") if "sriov_totalvfs" in names else 0,
    )


def _virtual_functions(tree: FileTree, folder: str, names: Iterable[str]) -> tuple[str, ...]:
    indexes = {int(match[1]): name for name in names if (match := _VIRTUAL_FUNCTION.fullmatch(name))}
    if sorted(indexes) != list(range(len(indexes))):
        raise UnreadableFile(folder, f"has virtual functions {sorted(indexes)[:8]}, which aren't numbered from 0")
    return tuple(_linked_address(tree, f"{folder}/{indexes[index]}") for index in sorted(indexes))


def with_indexes(functions: Mapping[str, PciFunction]) -> Mapping[str, PciFunction]:
    """All of a node's functions, VFs with their index at their PF."""
    indexes = {
        address: index
        for function in functions.values()
        for index, address in enumerate(function.virtual_functions)
        if address in functions and functions[address].physical_function == function.address
    }
    changed = (function for function in functions.values() if function.vf_index != indexes.get(function.address))
    return {**functions, **{item.address: replace(item, vf_index=indexes.get(item.address)) for item in changed}}


def _hexadecimal(tree: FileTree, path: str, digits: int, *, required: bool = True) -> str:
    text = tree.text(path)
    if text is None and required:
        raise UnreadableFile(path, "is missing")
    if text is None:
        return ""
    if not re.fullmatch(f"0x[0-9a-fA-F]{{{digits}}}", text):
        raise has_text(path, text, f"0x and {digits} hexadecimal digits")
    return text[2:].lower()


def _number(tree: FileTree, path: str) -> int:
    text = tree.text(path) or ""
    if not _NUMBER.fullmatch(text):
        raise has_text(path, text, "a number")
    return int(text)


def _numa_node(tree: FileTree, path: str) -> int | None:
    """None for -1, which means that the device belongs to none (D-59)."""
    node = _number(tree, path)
    if not -1 <= node < _NUMA_NODES_MAX:
        raise has_text(path, str(node), f"-1 or a node below {_NUMA_NODES_MAX}")
    return None if node == -1 else node


def _plain_name(path: str, name: str) -> str:
    if name and not _NAME.fullmatch(name):
        raise has_text(path, name, "the name of a driver")
    return name


def _reset_methods(tree: FileTree, folder: str, names: frozenset[str]) -> tuple[str, ...]:
    methods = tuple(_optional(tree, folder, names, "reset_method").split())
    for method in methods:
        if not _NAME.fullmatch(method):
            raise has_text(f"{folder}/reset_method", method, "the name of a method")
    return methods


def _optional(tree: FileTree, folder: str, names: frozenset[str], name: str) -> str:
    return (tree.text(f"{folder}/{name}") or "") if name in names else ""


def _linked_address(tree: FileTree, path: str) -> str:
    address = tree.link(path)
    if not ADDRESS.fullmatch(address):
        raise has_text(path, address, "a link to a PCI function")
    return address
