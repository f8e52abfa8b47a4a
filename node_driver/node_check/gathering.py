"""Reads a node's facts from its files and, on the node itself, asks its programs for their versions. An edge: nothing
is decided here, and nothing is written."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from node_driver.hardware.file_tree import FileTree, UnreadableFile
from node_driver.hardware.inventory import Hardware
from node_driver.hardware.pci import ADDRESS, DEVICES
from node_driver.hardware.reading import HardwareRoots, read_hardware
from node_driver.hardware.variant_drivers import TABLE_MAX
from node_driver.node_check.facts import (
    CONTAINERD,
    CRI_O,
    DeviceNode,
    FileKind,
    HugePages,
    KernelFacts,
    MemoryLock,
    NodeFacts,
)

CONTAINER_RUNTIMES: Final = frozenset(("containerd", "crio", "cri-o", "dockerd"))
PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "QEMU": ("qemu-system-x86_64", "qemu-system-aarch64", "qemu-kvm", "/usr/libexec/qemu-kvm"),
    "libvirt": ("virtqemud", "libvirtd"),
    CONTAINERD: (CONTAINERD,),
    CRI_O: (CRI_O,),
}
"""Software -> programs that know its version."""
PROGRAM_LIMIT: Final = 5.0
"""Seconds for a program to say its version."""
VFIO_NODE: Final = "/dev/vfio/vfio"
KVM_NODE: Final = "/dev/kvm"
_CPU_MAX: Final = 16 * 1024 * 1024
"""Bytes of /proc/cpuinfo: about 1.5 KiB a processor."""
_RELEASE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]{0,127}")
_HUGE_PAGES: Final = re.compile(r"hugepages-(\d{1,12})kB")
_COUNT: Final = re.compile(r"[0-9]{1,12}")
_MODULE: Final = re.compile(r"([^/:\s]{0,60}vfio[^/:\s]{0,60})\.ko(?:\.[a-z0-9]+)?(?::|$)", re.MULTILINE)
_LOCKED: Final = re.compile(r"^Max locked memory\s+\S+\s+(unlimited|\d{1,20})", re.MULTILINE)
_VERSION: Final = re.compile(r"(?:\b|(?<=\bv))(?<!\.)\d{1,4}(?:\.\d{1,4}){1,3}\b")


def gather(host_root: str) -> NodeFacts:
    """The facts of this machine, or of the tree below ``host_root``, whose programs aren't started. Raises
    :class:`~node_driver.hardware.file_tree.UnreadableFile` if there is no /sys."""
    tree = FileTree(host_root or "/")
    kernel = _kernel(tree)
    modules = f"{host_root}/lib/modules/{kernel.release}"
    roots = HardwareRoots(f"{host_root}/sys", f"{host_root}/proc", modules if kernel.modules is not None else "")
    hardware = read_hardware(roots)
    bridges = {address: _bridges(tree, address) for address in hardware.functions}
    attributes = {address: tree.names(f"sys/{DEVICES}/{address}") for address in hardware.functions}
    buses = [address for address, names in attributes.items() if "reset_subordinate" in names]
    return NodeFacts(
        hardware,
        kernel,
        bridges,
        frozenset(address for address, names in attributes.items() if not {"reset", "reset_method"}.isdisjoint(names)),
        {bus: frozenset(address for address, above in bridges.items() if above[-1:] == (bus,)) for bus in buses},
        tuple(_huge_pages(tree)),
        tuple(_runtimes(tree)),
        _device_nodes(host_root, hardware) if tree.resolved("dev") is not None else None,
        _programs() if not host_root else None,
    )


def _kernel(tree: FileTree) -> KernelFacts:
    release = _text(tree, "proc/sys/kernel/osrelease")
    processor = _text(tree, "proc/cpuinfo", _CPU_MAX).partition("\n\n")[0]
    flags = _value(processor, "flags").split()
    return KernelFacts(
        release if _RELEASE.fullmatch(release) else "",
        tuple(_text(tree, "proc/cmdline").split()),
        _value(processor, "vendor_id"),
        not {"vmx", "svm"}.isdisjoint(flags) if flags else None,
        frozenset(_names(tree, "sys/firmware/acpi/tables")),
        len(_names(tree, "sys/kernel/iommu_groups")),
        frozenset(_names(tree, "sys/bus/pci/drivers")),
        _modules(tree, f"lib/modules/{release}") if _RELEASE.fullmatch(release) else None,
    )


def _value(processor: str, name: str) -> str:
    """A value of /proc/cpuinfo."""
    match = re.search(rf"^{name}\s*:(.*)$", processor, re.MULTILINE)
    return match[1].strip() if match else ""


def _modules(tree: FileTree, folder: str) -> frozenset[str] | None:
    if tree.resolved(folder) is None:
        return None
    lists = (_text(tree, f"{folder}/{name}", TABLE_MAX) for name in ("modules.dep", "modules.builtin"))
    return frozenset(name.replace("-", "_") for text in lists for name in _MODULE.findall(text))


def _bridges(tree: FileTree, address: str) -> tuple[str, ...]:
    folder = tree.resolved(f"sys/{DEVICES}/{address}") or ""
    return tuple(filter(ADDRESS.fullmatch, folder.split("/")[:-1]))


def _huge_pages(tree: FileTree) -> Iterator[HugePages]:
    folder = "sys/kernel/mm/hugepages"
    for name in _names(tree, folder):
        if match := _HUGE_PAGES.fullmatch(name):
            total, free = (_text(tree, f"{folder}/{name}/{file}") for file in ("nr_hugepages", "free_hugepages"))
            if _COUNT.fullmatch(total) and _COUNT.fullmatch(free):
                yield HugePages(int(match[1]), int(total), int(free))


def _runtimes(tree: FileTree) -> Iterator[MemoryLock]:
    for pid in filter(str.isdecimal, _names(tree, "proc")):
        name = _text(tree, f"proc/{pid}/comm")
        if name in CONTAINER_RUNTIMES and (match := _LOCKED.search(_text(tree, f"proc/{pid}/limits"))):
            yield MemoryLock(name, None if match[1] == "unlimited" else int(match[1]))


def _device_nodes(host_root: str, hardware: Hardware) -> dict[str, DeviceNode]:
    """Of VFIO, of KVM, and of the groups of functions that are bound to VFIO."""
    groups = {
        function.iommu_group
        for function in hardware.functions.values()
        if function.vfio_device or function.driver in {"vfio-pci", *(alias.driver for alias in hardware.vfio_aliases)}
    }
    paths = [KVM_NODE, VFIO_NODE, *(f"/dev/vfio/{group}" for group in sorted(groups - {None}, key=str))]
    return {path: device_node(f"{host_root}{path}") for path in paths}


def device_node(path: str) -> DeviceNode:
    """What is at a path; a link is something else than a device node."""
    try:
        status = Path(path).lstat()
    except OSError:
        return DeviceNode()
    kind = FileKind.CHARACTER if stat.S_ISCHR(status.st_mode) else FileKind.OTHER
    return DeviceNode(kind, stat.S_IMODE(status.st_mode))


def _programs() -> dict[str, str]:
    installed = {software: next(filter(None, map(shutil.which, names)), None) for software, names in PROGRAMS.items()}
    return {software: program_version(path) for software, path in installed.items() if path is not None}


def program_version(program: str) -> str:
    """The version that a program says; "" if it says none in time."""
    try:
        answer = subprocess.run(
            [program, "--version"], capture_output=True, timeout=PROGRAM_LIMIT, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    match = _VERSION.search(answer.stdout[:4096].decode(errors="replace"))
    return match[0] if match else ""


def _names(tree: FileTree, folder: str) -> tuple[str, ...]:
    """The names in the folder; none if it can't be listed."""
    try:
        return tree.names(folder)
    except UnreadableFile:
        return ()


def _text(tree: FileTree, path: str, limit: int = _CPU_MAX) -> str:
    """The file's text; "" if it can't be read: what depends on it isn't known then."""
    try:
        return tree.text(path, limit) or ""
    except UnreadableFile:
        return ""
