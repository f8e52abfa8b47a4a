"""Reads a node's hardware: what ``/sys`` and ``/proc`` say, or copies of them; wholly, or what of it has changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from node_driver.hardware.addresses import addressed_interfaces
from node_driver.hardware.file_tree import FileTree, UnreadableFile
from node_driver.hardware.inventory import Hardware, UnreadableDevice
from node_driver.hardware.mediated import MDEVS, PARENTS, read_mdev_types, read_mdevs, read_vgpus
from node_driver.hardware.numa import read_numa_nodes
from node_driver.hardware.pci import DEVICES, read_functions, with_indexes
from node_driver.hardware.protection import needed_functions
from node_driver.hardware.variant_drivers import TABLE_MAX, read_aliases

ALIAS_TABLE: Final = "modules.alias"
_LIVE_PROC: Final = "/proc"
"""Beside a copy of it the kernel's own answers are about another node."""


@dataclass(frozen=True, slots=True)
class HardwareRoots:
    """``sysfs``, ``proc``: folders that hold what /sys and /proc hold. ``modules``: one that holds what
    /lib/modules/RELEASE holds; "" if there is none."""

    sysfs: str = "/sys"
    proc: str = "/proc"
    modules: str = ""


def read_hardware(roots: HardwareRoots) -> Hardware:
    """The hardware as it is now. What is malformed is :attr:`Hardware.unreadable`; raises
    :class:`~node_driver.hardware.file_tree.UnreadableFile` if the trees can't be read at all."""
    sysfs, proc = FileTree(roots.sysfs), FileTree(roots.proc)
    if sysfs.resolved("bus") is None:
        raise UnreadableFile(roots.sysfs, "holds nothing of what /sys holds: there is no folder bus")
    functions, unreadable = read_functions(sysfs, sysfs.names(DEVICES))
    mdev_types, unreadable_parents = read_mdev_types(sysfs)
    mdevs, unreadable_mdevs = read_mdevs(sysfs)
    vgpus, unreadable_vgpus = read_vgpus(sysfs, functions)
    table, unreadable_table = _alias_table(roots.modules)
    return Hardware(
        with_indexes(functions),
        mdev_types,
        mdevs,
        vgpus,
        read_numa_nodes(sysfs),
        needed_functions(sysfs, proc, addressed_interfaces() if roots.proc == _LIVE_PROC else ()),
        read_aliases(sysfs, table),
        (*unreadable, *unreadable_parents, *unreadable_mdevs, *unreadable_vgpus, *unreadable_table),
    )


def read_again(roots: HardwareRoots, earlier: Hardware, touched: frozenset[str]) -> Hardware:
    """The hardware as it is now, where nothing but ``touched``, addresses and UUIDs, changed since it was read
    ``earlier``. PCI functions are read one by one; everything is, when a device came or went or a mediated device or
    vGPU is touched, which changes what its card and others can give. What the node needs is as old as ``earlier`` else.
    Raises as :func:`read_hardware`."""
    sysfs = FileTree(roots.sysfs)
    mediated = earlier.mdev_types.keys() | earlier.mdevs.keys() | earlier.vgpus.keys()
    unread = {device.subject for device in earlier.unreadable}
    if touched & (mediated | unread) or not _lists_the_same(sysfs, earlier, unread):
        return read_hardware(roots)
    functions, unreadable = read_functions(sysfs, sorted(touched & earlier.functions.keys()))
    vgpus, unreadable_vgpus = read_vgpus(sysfs, functions)
    if unreadable or vgpus or unreadable_vgpus:
        return read_hardware(roots)
    return replace(earlier, functions=with_indexes({**earlier.functions, **functions}))


def _lists_the_same(sysfs: FileTree, earlier: Hardware, unread: set[str]) -> bool:
    """True if no function, parent of mediated devices or mediated device came or went, but for the unreadable ones."""
    return all(
        devices.keys() <= listed and listed - devices.keys() <= unread
        for folder, devices in ((DEVICES, earlier.functions), (PARENTS, earlier.mdev_types), (MDEVS, earlier.mdevs))
        for listed in [frozenset(sysfs.names(folder))]
    )


def _alias_table(modules: str) -> tuple[str, list[UnreadableDevice]]:
    if not modules:
        return "", []
    try:
        return FileTree(modules).text(ALIAS_TABLE, TABLE_MAX) or "", []
    except UnreadableFile as error:
        return "", [UnreadableDevice(modules, f"{error}: variant drivers aren't known, vfio-pci is used")]
