"""Places PCI functions behind PCIe expanders (K-8.3 to K-8.7, K-8.13). Pure.

Each group of functions gets a ``pcie-expander-bus``, each function a root port on it: the guest sees them on the NUMA
node of the expander. A group is a guest cell, as in KubeVirt, or a PCIe root of the host within a cell, so that the
guest also sees which devices share a root.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Final

from launcher.elements.domain import Controller, expander, root_port
from launcher.errors import UNPLACEABLE_DEVICE, LauncherError
from launcher.host_addresses.pci import PciAddress
from launcher.placement.cells import CellOfNode
from launcher.placement.guest import GuestTopology
from launcher.placement.host import HostTopology, PciLocation
from virt_dra.api.kubevirt_versions import V1_9_0, KubeVirtVersion

PORTS_MAX: Final = 32
"""The slots of an expander."""
EXPANDERS_MAX: Final = 24
"""The root has 30 slots for expanders, as measured with libvirt 9.0; the guest's other devices need some."""
_BUSES: Final = 256
STRICT_FIELD: Final = "spec.domain.cpu.numa.guestMappingPassthrough"


@dataclass(frozen=True)
class FunctionToPlace:
    """A function to place. ``key`` is the caller's name for it."""

    key: str
    source: PciAddress
    has_guest_address: bool = False


@dataclass(frozen=True)
class PlacementRule:
    """The rule of a placement: as a release of KubeVirt does (:func:`kubevirt_rule`), and whether by PCIe root, too."""

    strict: bool = False
    """A device that can't be placed is an error (K-8.6)."""
    by_pcie_root: bool = False
    memnodes: bool = True
    """The binding of a cell's memory decides before the pinning of its vCPUs (K-8.2)."""
    keeps_guest_addresses: bool = True
    unlisted_vcpus: int | None = None
    """The cell of a pinned vCPU that is in none."""


def kubevirt_rule(version: KubeVirtVersion, *, strict: bool = False, by_pcie_root: bool = False) -> PlacementRule:
    """The rule of a release. 1.8 replaces guest addresses, and takes a vCPU without cell for one of cell 0."""
    if version >= V1_9_0:
        return PlacementRule(strict=strict, by_pcie_root=by_pcie_root)
    return PlacementRule(
        strict=strict, by_pcie_root=by_pcie_root, memnodes=False, keeps_guest_addresses=by_pcie_root, unlisted_vcpus=0
    )


@dataclass(frozen=True)
class TakenNumbers:
    """Numbers that the domain has already: indexes of controllers of any type, bus numbers of its expanders."""

    controller_indexes: frozenset[int] = frozenset()
    bus_numbers: frozenset[int] = frozenset()


@dataclass(frozen=True)
class PciPlacement:
    """The result of a placement. Where functions are placed. ``ports``: key -> index of the root port behind which the
    function is at slot 0; a function without a port is left to libvirt. ``warnings`` say why, in KubeVirt's words where
    it has some."""

    controllers: tuple[Controller, ...]
    ports: Mapping[str, int]
    warnings: tuple[str, ...]


NOTHING_TAKEN: Final = TakenNumbers()


def place(
    functions: Sequence[FunctionToPlace],
    guest: GuestTopology,
    host: HostTopology,
    rule: PlacementRule,
    taken: TakenNumbers = NOTHING_TAKEN,
) -> PciPlacement:
    """Place the functions. Raises :class:`LauncherError` if the rule is strict and one of them can't be placed; else
    those are left to libvirt. Of several functions with one source address only the last is placed (K-8.5)."""
    survey = _survey(functions, guest, host, rule)
    if rule.strict and survey.faults:
        raise _unplaceable(f"strict PCI NUMA-aware placement failed: {'; '.join(survey.faults)}")
    try:
        controllers, ports = _numbered(survey.groups(), taken)
    except _NoRoomError as error:
        failure = f"failed to create PCIe topology with NUMA alignment: {error}"
        if rule.strict:
            raise _unplaceable(failure) from None
        fallback = f"Failed to process PCIe NUMA-aware topology, falling back to default placement: {failure}"
        return PciPlacement((), {}, (*survey.faults, fallback))
    return PciPlacement(controllers, ports, survey.faults)


def _unplaceable(why: str) -> LauncherError:
    return LauncherError(UNPLACEABLE_DEVICE, STRICT_FIELD, f"failed to process strict PCIe NUMA-aware topology: {why}")


@dataclass(frozen=True)
class _Spot:
    """The place to which a function belongs: a guest cell and a PCIe root, each None if unknown or not asked for."""

    cell: int | None
    pcie_root: str | None

    @property
    def order(self) -> tuple[bool, int, bool, str]:
        """A key that sorts by cell, then by root, unknown ones last."""
        return self.cell is None, self.cell or 0, self.pcie_root is None, self.pcie_root or ""


@dataclass(frozen=True)
class _Survey:
    spots: Mapping[str, tuple[_Spot, FunctionToPlace]]
    """By source address."""
    faults: tuple[str, ...]

    def groups(self) -> Iterator[tuple[int | None, tuple[FunctionToPlace, ...]]]:
        """The functions of each expander, and its cell: those of a spot, as many as it has slots."""
        placed = sorted(self.spots.values(), key=lambda item: (item[0].order, str(item[1].source)))
        for spot, items in groupby(placed, key=lambda item: item[0]):
            functions = (function for _, function in items)
            while batch := tuple(islice(functions, PORTS_MAX)):
                yield spot.cell, batch


def _survey(
    functions: Sequence[FunctionToPlace], guest: GuestTopology, host: HostTopology, rule: PlacementRule
) -> _Survey:
    faults = []
    moved = []
    for function in functions:
        if function.has_guest_address and rule.keeps_guest_addresses:
            fault = "already has a guest PCI address, skipping pcie-expander-bus assignment"
            faults.append(f"device {function.source} {fault}")
        else:
            moved.append(function)
    cells = CellOfNode.between(guest, host, memnodes=rule.memnodes, unlisted_vcpus=rule.unlisted_vcpus)
    if moved:
        faults += cells.faults
    spots = {}
    repeated = Counter(str(function.source) for function in moved)
    for function in sorted(moved, key=lambda function: str(function.source)):
        address = str(function.source)
        location = host.functions.get(function.source.identity)
        cell = _cell(address, location, cells, rule)
        root = location.pcie_root if rule.by_pcie_root and location is not None else None
        if isinstance(cell, int):
            spots[address] = _Spot(cell, root), function
            continue
        if root is not None:
            spots[address] = _Spot(None, root), function
        if root is None or guest.cells:
            # KubeVirt looks an address up as often as it is listed, and reports all of these answers each time.
            why = _NOTHING_MAPPED if cells.maps_nothing else "; ".join([cell] * repeated[address])
            faults.append(f"device {address} cannot be placed on a NUMA-aware PCIe topology: {why}")
    return _Survey(spots, tuple(faults))


_NOTHING_MAPPED: Final = "no guest NUMA node mapping is available"


def _cell(address: str, location: PciLocation | None, cells: CellOfNode, rule: PlacementRule) -> int | str:
    """The guest cell of a function, or why there is none. By PCIe root, a function whose node isn't known is where the
    others of its root are."""
    if cells.maps_nothing:
        return _NOTHING_MAPPED
    unread = "failed to read host NUMA affinity:"
    if location is None:
        return f"{unread} open /sys/bus/pci/devices/{address}/numa_node: no such file or directory"
    node = location.numa_node
    if node is None and rule.by_pcie_root and location.pcie_root is not None:
        node = cells.host.node_of_root.get(location.pcie_root)
    return f"{unread} device {address} has no NUMA node affinity" if node is None else cells.cell(node)


class _NoRoomError(Exception):
    """The guest's bus numbers or slots don't suffice."""


def _numbered(
    groups: Iterable[tuple[int | None, tuple[FunctionToPlace, ...]]], taken: TakenNumbers
) -> tuple[tuple[Controller, ...], dict[str, int]]:
    """The controllers of the groups, and the root port of each function.

    Indexes ascend from the highest that is taken, bus numbers of expanders descend, each leaving room for its ports
    (K-8.4). As in KubeVirt, there is no room left where the two meet.
    """
    controllers: list[Controller] = []
    ports: dict[str, int] = {}
    index = max(taken.controller_indexes, default=0)
    end = min(taken.bus_numbers, default=_BUSES)
    lowest = end - 1
    for count, (cell, functions) in enumerate(groups):
        if count == EXPANDERS_MAX:
            limit = f"the guest can have {EXPANDERS_MAX} PCIe expanders"
            raise _NoRoomError(f"failed to place device {functions[0].source}: {limit}")
        index += 1
        parent, group = index, []
        for slot, function in enumerate(functions):
            if index >= lowest - 1:
                raise _NoRoomError(
                    f"failed to place device {function.source}: insufficient bus numbers for NUMA-aligned PCIe "
                    f"topology: current controller index {index}, last assigned expander bus number {lowest}"
                )
            index += 1
            group.append(root_port(index, parent, slot))
            ports[function.key] = index
        lowest = end - len(controllers) - len(group) - 1
        controllers += [expander(parent, lowest, cell), *group]
    return tuple(controllers), ports
