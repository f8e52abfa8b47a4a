"""The guest's NUMA cells: those that mirror the nodes of the host on which its vCPUs are pinned (K-8.12). Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from launcher.errors import INVALID_DOMAIN, LauncherError
from launcher.placement.guest import GuestCell, GuestTopology, MemNode
from launcher.placement.host import HostTopology
from launcher.placement.pinning import Pinning

_MEMORY: Final = "spec.domain.memory"


@dataclass(frozen=True)
class NumaCell:
    """A guest cell: its vCPUs, its memory in bytes, and the host's node of both, None if it mirrors none."""

    id: int
    vcpus: tuple[int, ...]
    memory: int
    node: int | None = None


@dataclass(frozen=True)
class GuestNuma:
    """The NUMA of a guest: where its vCPUs are pinned, and its cells. ``page_size``: of huge pages in bytes, None
    without."""

    pinning: Pinning
    cells: tuple[NumaCell, ...]
    page_size: int | None
    memory_is_file: bool = False
    """True if the memory is a memfd, as KubeVirt has it for huge pages."""

    @property
    def topology(self) -> GuestTopology:
        return GuestTopology(
            tuple(GuestCell(cell.id, cell.vcpus) for cell in self.cells),
            tuple(MemNode(cell.id, (cell.node,)) for cell in self.cells if cell.node is not None),
            {vcpu: (cpu,) for vcpu, cpu in enumerate(self.pinning.vcpus)},
        )


def mirrored_cells(pins: Sequence[int], host: HostTopology, memory: int, page_size: int | None) -> tuple[NumaCell, ...]:
    """A cell for each node with pinned vCPUs, ascending; the memory in whole pages, the first cells with one more where
    it doesn't come out even. Raises :class:`LauncherError` for memory that can't be divided so."""
    node_of_cpu = {cpu: node for node, cpus in host.nodes.items() for cpu in cpus}
    vcpus: dict[int, list[int]] = defaultdict(list)
    for vcpu, cpu in enumerate(pins):
        vcpus[node_of_cpu[cpu]].append(vcpu)
    nodes = [node for node in host.nodes if node in vcpus]
    if page_size is None:
        raise _refused("passing through a numa topology is restricted to VMIs with hugepages enabled")
    needed = len(nodes) * page_size
    if memory < needed:
        fault = "not enough memory requested to allocate at least one hugepage per numa node"
        raise _refused(f"{fault}: {memory} < {needed}")
    if memory % page_size:
        raise _refused(f"requested memory can't be divided through the numa page size: {memory} mod {page_size} != 0")
    pages, more = divmod(memory // page_size, len(nodes))
    return tuple(
        NumaCell(cell, tuple(vcpus[node]), (pages + (cell < more)) * page_size, node) for cell, node in enumerate(nodes)
    )


def _refused(why: str) -> LauncherError:
    return LauncherError(INVALID_DOMAIN, _MEMORY, why)
