"""Random hosts, guests and devices: what libvirt demands of controllers holds, and every device that can be on its
node is."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from launcher.host_addresses.pci import PciAddress
from launcher.placement.guest import GuestCell, GuestTopology, MemNode
from launcher.placement.host import HostTopology, PciLocation
from launcher.placement.placing import FunctionToPlace, PciPlacement, PlacementRule, TakenNumbers, place

NODES = range(3)
CPUS = range(12)
ROOTS = ["pci0000:00", "pci0000:40", "pci0000:80", None]


@st.composite
def hosts(draw: st.DrawFn) -> HostTopology:
    """Four CPUs a node; functions anywhere."""
    count = draw(st.integers(0, 80))
    locations = [
        PciLocation(draw(st.sampled_from([*NODES, None])), draw(st.sampled_from(ROOTS))) for _ in range(min(count, 8))
    ]
    return HostTopology(
        {node: tuple(CPUS[4 * node : 4 * node + 4]) for node in NODES},
        {f"0000:{bus:02x}:00.0": locations[bus % len(locations)] for bus in range(count)},
    )


@st.composite
def guests(draw: st.DrawFn) -> GuestTopology:
    """Up to three cells of two vCPUs, pinned anywhere, with memory of anywhere."""
    cells = draw(st.integers(0, 3))
    return GuestTopology(
        tuple(GuestCell(cell, (2 * cell, 2 * cell + 1)) for cell in range(cells)),
        tuple(
            MemNode(cell, draw(st.sampled_from([(0,), (1,), (0, 2)]))) for cell in range(cells) if draw(st.booleans())
        ),
        {vcpu: (draw(st.sampled_from(CPUS)),) for vcpu in range(2 * cells) if draw(st.booleans())},
    )


def cell_of(node: int | None, guest: GuestTopology) -> int | None:
    """By the words of K-8.2, one candidate after the other."""
    if node is None:
        return None
    owners = {memnode.cell for memnode in guest.memnodes if node in memnode.nodes}
    if len(owners) == 1:
        return owners.pop()
    for cpu in CPUS[4 * node : 4 * node + 4]:
        for vcpu, pinned in reversed(list(guest.pins.items())):
            if pinned == (cpu,):
                return vcpu // 2
    return None


def node_of_root(root: str | None, host: HostTopology) -> int | None:
    nodes = {location.numa_node for location in host.functions.values() if root and location.pcie_root == root} - {None}
    return nodes.pop() if len(nodes) == 1 else None


def number(value: int | str | None) -> int:
    assert value is not None
    return int(value)


def check_what_libvirt_demands(placement: PciPlacement, taken: TakenNumbers) -> None:
    """Indexes are unique; ports are on expanders, on different slots below 32; the bus numbers of an expander and its
    ports overlap no others, and are above all indexes, which are bus numbers of ports elsewhere."""
    indexes = [number(controller.index) for controller in placement.controllers]
    assert not set(indexes) & taken.controller_indexes
    assert len(set(indexes)) == len(indexes)
    expanders = {number(c.index): c for c in placement.controllers if c.model == "pcie-expander-bus"}
    ports = [c for c in placement.controllers if c.model == "pcie-root-port"]
    assert len(expanders) + len(ports) == len(indexes)
    spots = [(number(port.bus), int(port.slot or "", 16)) for port in ports]
    assert len(set(spots)) == len(spots)
    assert all(bus in expanders and 0 <= slot < 32 for bus, slot in spots)
    children = Counter(bus for bus, _ in spots)
    assert children.keys() == expanders.keys()
    buses = [
        number(expander.bus_nr) + offset
        for index, expander in expanders.items()
        for offset in range(children[index] + 1)
    ]
    assert len(set(buses)) == len(buses)
    assert all(max(indexes) < bus < 256 for bus in buses)
    assert not buses or not taken.bus_numbers or max(buses) < min(taken.bus_numbers)
    assert sorted(placement.ports.values()) == sorted(number(port.index) for port in ports)


@given(
    hosts(),
    guests(),
    st.booleans(),
    st.sampled_from([TakenNumbers(), TakenNumbers(frozenset({3, 9}), frozenset({250}))]),
)
def test_every_device_that_can_be_is_with_its_node_and_libvirts_demands_hold(
    host: HostTopology, guest: GuestTopology, by_pcie_root: bool, taken: TakenNumbers
) -> None:
    functions = [FunctionToPlace(address, PciAddress.parse(address)) for address in host.functions]

    placement = place(functions, guest, host, PlacementRule(by_pcie_root=by_pcie_root), taken)

    check_what_libvirt_demands(placement, taken)
    by_index = {number(controller.index): controller for controller in placement.controllers}
    expander = {key: by_index[number(by_index[port].bus)] for key, port in placement.ports.items()}
    roots: dict[int, set[str | None]] = {}
    for address, location in host.functions.items():
        node = location.numa_node
        if node is None and by_pcie_root:
            node = node_of_root(location.pcie_root, host)
        cell = cell_of(node, guest)
        if cell is not None or (by_pcie_root and location.pcie_root is not None):
            assert expander[address].node == cell
            roots.setdefault(number(expander[address].index), set()).add(location.pcie_root)
        else:
            assert address not in expander
    if by_pcie_root:
        assert all(len(seen) == 1 for seen in roots.values())
