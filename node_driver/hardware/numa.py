"""Reads the NUMA nodes of a sysfs tree, their distances and sockets (D-59)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from node_driver.hardware.file_tree import FileTree
from node_driver.hardware.inventory import NumaNode

NODES: Final = "devices/system/node"
_NODE: Final = re.compile(r"node(\d{1,4})")
_FIRST_CPU: Final = re.compile(r"(\d{1,6})([,-]|$)")
_NUMBERS: Final = re.compile(r"\d{1,5}( +\d{1,5})*")


def read_numa_nodes(tree: FileTree) -> Mapping[int, NumaNode]:
    """The nodes by number. What of them can't be read is as if the kernel didn't show it."""
    return {
        int(match[1]): NumaNode(_distances(tree, name), _socket(tree, name))
        for name in tree.names(NODES)
        if (match := _NODE.fullmatch(name))
    }


def _distances(tree: FileTree, node: str) -> tuple[int, ...]:
    text = tree.optional_text(f"{NODES}/{node}/distance")
    return tuple(map(int, text.split())) if _NUMBERS.fullmatch(text) else ()


def _socket(tree: FileTree, node: str) -> int | None:
    """The socket of the node's first processor; None for a node without processors."""
    cpu = _FIRST_CPU.match(tree.optional_text(f"{NODES}/{node}/cpulist"))
    if cpu is None:
        return None
    package = tree.optional_text(f"devices/system/cpu/cpu{cpu[1]}/topology/physical_package_id")
    return int(package) if re.fullmatch(r"-?\d{1,6}", package) else None
