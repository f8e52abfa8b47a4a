"""The host's side of a placement: NUMA nodes with their CPUs, and where its PCI functions are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class PciLocation:
    """The place of a PCI function on the host. ``numa_node``: None where the kernel says -1 or nothing; ``pcie_root``:
    the host bridge, as in ``pci0000:40``, None if unknown."""

    numa_node: int | None = None
    pcie_root: str | None = None


@dataclass(frozen=True)
class HostTopology:
    """The topology of a host, as far as it is known. ``nodes``: NUMA node -> its CPUs, ascending; ``functions``: PCI
    address (lower case) -> location; ``siblings``: CPU -> the threads of its core, for cores with several."""

    nodes: Mapping[int, tuple[int, ...]]
    functions: Mapping[str, PciLocation]
    siblings: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def node_of_root(self) -> Mapping[str, int]:
        """PCIe root -> the NUMA node of all its functions whose node is known; without roots where these disagree."""
        nodes: dict[str, set[int]] = defaultdict(set)
        for location in self.functions.values():
            if location.pcie_root is not None and location.numa_node is not None:
                nodes[location.pcie_root].add(location.numa_node)
        return {root: min(candidates) for root, candidates in nodes.items() if len(candidates) == 1}
