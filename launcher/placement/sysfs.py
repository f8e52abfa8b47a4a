"""Reads a host's topology from sysfs. The only part of the placement that reads a host."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from launcher.host_files import entries, text_of
from launcher.placement.cpu_lists import parse_cpu_list
from launcher.placement.host import HostTopology, PciLocation

_ROOT: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_NODE: Final = re.compile(r"node([0-9]{1,5})", re.ASCII)
_CPU: Final = re.compile(r"cpu([0-9]{1,5})", re.ASCII)
_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def read_host(root: Path = Path("/sys")) -> HostTopology:
    """The topology of the host that ``root`` is the sysfs of. What can't be read is unknown; a tree without PCI
    functions or NUMA nodes is a host without them."""
    functions = {
        entry.name: PciLocation(_node(entry / "numa_node"), _root_of(entry))
        for entry in entries(root / "bus/pci/devices")
        if _ADDRESS.fullmatch(entry.name)
    }
    nodes = {
        int(match[1]): _numbers(entry / "cpulist")
        for entry in entries(root / "devices/system/node")
        if (match := _NODE.fullmatch(entry.name))
    }
    siblings = {
        int(match[1]): threads
        for entry in entries(root / "devices/system/cpu")
        if (match := _CPU.fullmatch(entry.name))
        and len(threads := _numbers(entry / "topology/thread_siblings_list")) > 1
    }
    return HostTopology(dict(sorted(nodes.items())), functions, siblings)


def _numbers(path: Path) -> tuple[int, ...]:
    try:
        return tuple(sorted(parse_cpu_list(text_of(path))))
    except ValueError:
        return ()


def _node(path: Path) -> int | None:
    text = text_of(path)
    return int(text) if re.fullmatch("[0-9]{1,5}", text, re.ASCII) else None


def _root_of(entry: Path) -> str | None:
    """The first host bridge on the way to the device, of which its entry in the list of devices is a link."""
    return next((part for part in entry.resolve().parts if _ROOT.fullmatch(part)), None)
