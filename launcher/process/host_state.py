"""Reads the state of a node that :mod:`launcher.process.checks` judges: sysfs, device nodes, limits of this process."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from launcher.conversion import ConvertedDevice
from launcher.host_addresses.mdev import MdevUuid
from launcher.host_addresses.pci import PciAddress
from launcher.host_addresses.usb import UsbAddress
from launcher.host_files import entries, text_of
from launcher.process.checks import FunctionState, HostState, NodeAccess, group_nodes, usb_node

_BRIDGE_CLASS: Final = "0x06"
_CAP_IPC_LOCK, _CAP_SYS_RESOURCE = 14, 24


def read_host_state(root: Path, devices: Sequence[ConvertedDevice], own_daemon: bool) -> HostState:
    """The state of the node for these devices. ``root`` stands for ``/``. ``own_daemon``: QEMU has this process's
    limits. A file that can't be read is one that isn't there."""
    functions, mdevs = {}, {}
    for device in devices:
        identity = device.address.identity
        if isinstance(device.address, PciAddress):
            folder = root / "sys/bus/pci/devices" / identity
            if folder.exists():
                functions[identity] = _function(folder, _companions(folder))
        elif isinstance(device.address, MdevUuid):
            folder = root / "sys/bus/mdev/devices" / identity
            if folder.exists():
                mdevs[identity] = _target(folder / "iommu_group")
    groups = {function.iommu_group for function in functions.values()} | set(mdevs.values())
    nodes = {node for group in groups if group for node in group_nodes(group)}
    nodes |= {f"/dev/vfio/devices/{function.cdev}" for function in functions.values() if function.cdev}
    nodes |= {usb_node(device.address) for device in devices if isinstance(device.address, UsbAddress)}
    return HostState(
        functions,
        mdevs,
        {node: _access(root / node.lstrip("/")) for node in sorted(nodes)},
        _memlock(root) if own_daemon else None,
        _free_hugepages(text_of(root / "proc/meminfo")),
        frozenset(os.sched_getaffinity(0)),
    )


def _companions(folder: Path) -> dict[str, FunctionState]:
    members = folder / "iommu_group/devices"
    return {member.name: _function(member, {}) for member in entries(members) if member.name != folder.name}


def _function(folder: Path, companions: dict[str, FunctionState]) -> FunctionState:
    driver = _target(folder / "driver")
    cdev = next((entry.name for entry in entries(folder / "vfio-dev")), "")
    return FunctionState(
        driver,
        is_vfio="vfio" in driver or bool(cdev),
        is_bridge=text_of(folder / "class").startswith(_BRIDGE_CLASS),
        iommu_group=_target(folder / "iommu_group"),
        cdev=cdev,
        companions=companions,
    )


def _memlock(root: Path) -> int | None:
    """The hard limit of locked memory; None without one, or for a process that may raise or ignore it."""
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)$", text_of(root / "proc/self/status"), re.MULTILINE)
    held = int(capabilities[1], 16) if capabilities else 0
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    privileged = held & (1 << _CAP_SYS_RESOURCE | 1 << _CAP_IPC_LOCK)
    return None if privileged or limit == resource.RLIM_INFINITY else limit


def _free_hugepages(meminfo: str) -> int:
    """Bytes of free huge pages of the default size."""
    values = dict(re.findall(r"^(HugePages_Free|Hugepagesize):\s+(\d{1,15})", meminfo, re.MULTILINE))
    return int(values.get("HugePages_Free", 0)) * int(values.get("Hugepagesize", 0)) * 1024


def _access(node: Path) -> NodeAccess:
    if not node.exists():
        return NodeAccess.ABSENT
    return NodeAccess.USABLE if os.access(node, os.R_OK | os.W_OK) else NodeAccess.DENIED


def _target(link: Path) -> str:
    """The name of what a link leads to; "" for none."""
    try:
        return link.readlink().name
    except OSError:
        return ""
