"""The guest NUMA cell that a device of a host node belongs to (K-8.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from launcher.placement.guest import GuestTopology
from launcher.placement.host import HostTopology


@dataclass(frozen=True)
class CellOfNode:
    """The cells of one guest on one host, by host node. ``faults``: bindings that were ignored, in KubeVirt's words."""

    guest: GuestTopology
    host: HostTopology
    by_memory: Mapping[int, int]
    """Host node -> the only cell whose memory comes from it."""
    vcpu_on: Mapping[int, int]
    """Host CPU -> the vCPU that is pinned to it."""
    cell_of_vcpu: Mapping[int, int]
    unlisted_vcpus: int | None
    """The cell of vCPUs that are in none."""
    faults: tuple[str, ...]

    @classmethod
    def between(
        cls, guest: GuestTopology, host: HostTopology, *, memnodes: bool, unlisted_vcpus: int | None
    ) -> CellOfNode:
        """The cells of a guest on a host. ``memnodes``: the binding of memory decides where there is one, as since
        KubeVirt 1.9."""
        by_memory, faults = _by_memory(guest) if memnodes else ({}, ())
        return cls(
            guest,
            host,
            by_memory,
            vcpu_on={cpu: vcpu for vcpu, cpus in guest.pins.items() for cpu in cpus},
            cell_of_vcpu={vcpu: cell.id for cell in guest.cells for vcpu in cell.vcpus},
            unlisted_vcpus=unlisted_vcpus,
            faults=faults,
        )

    @property
    def maps_nothing(self) -> bool:
        """True if the guest has no NUMA, or nothing of it is bound to the host."""
        return not self.guest.cells or not (self.by_memory or self.vcpu_on)

    def cell(self, node: int) -> int | str:
        """The cell, or why there is none, in KubeVirt's words."""
        if node in self.by_memory:
            return self.by_memory[node]
        where = f"failed to read CPU list for host NUMA node {node}"
        if node not in self.host.nodes:
            return f"{where}: open /sys/bus/node/devices/node{node}/cpulist: no such file or directory"
        if not self.host.nodes[node]:
            return f'{where}: failed to parse cpulist file: strconv.Atoi: parsing "": invalid syntax'
        for cpu in self.host.nodes[node]:
            if cpu in self.vcpu_on:
                cell = self.cell_of_vcpu.get(self.vcpu_on[cpu], self.unlisted_vcpus)
                if cell is not None:
                    return cell
        return f"host NUMA node {node} cannot be mapped to a guest NUMA cell"


def _by_memory(guest: GuestTopology) -> tuple[dict[int, int], tuple[str, ...]]:
    ids = {cell.id for cell in guest.cells}
    cells: dict[int, int] = {}
    ambiguous: set[int] = set()
    faults = []
    for memnode in guest.memnodes if ids else ():
        if memnode.cell not in ids:
            faults.append(f"ignoring NUMATune memnode for unknown guest NUMA cell {memnode.cell}")
            continue
        for node in memnode.nodes:
            if node in ambiguous:
                continue
            first = cells.setdefault(node, memnode.cell)
            if first != memnode.cell:
                del cells[node]
                ambiguous.add(node)
                faults.append(
                    f"host NUMA node {node} is mapped to multiple guest NUMA cells ({first} and {memnode.cell}); "
                    "ignoring NUMATune mapping for that host node"
                )
    return cells, tuple(faults)
