"""The host's side of a placement: NUMA nodes with their CPUs, and where its PCI functions are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PciLocation:
    """Where a PCI function of the host is. ``numa_node``: None where the kernel says -1 or nothing; ``pcie_root``: the
    host bridge, as in ``pci0000:40``, None if unknown."""

    numa_node: int | None = None
    pcie_root: str | None = None


@dataclass(frozen=True)
class HostTopology:
    """What is known of a host. ``nodes``: NUMA node -> its CPUs, ascending; ``functions``: PCI address (lower case) ->
    location; ``siblings``: CPU -> the threads of its core, for cores with several."""

    nodes: Mapping[int, tuple[int, ...]]
    functions: Mapping[str, PciLocation]
    siblings: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def node_of_root(self, pcie_root: str) -> int | None:
        """The NUMA node of all functions of this root whose node is known; None if they disagree or none is."""
        nodes = {
            location.numa_node
            for location in self.functions.values()
            if location.pcie_root == pcie_root and location.numa_node is not None
        }
        return nodes.pop() if len(nodes) == 1 else None
