"""Placing functions behind expanders: whole placements, whole messages (K-8)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from lxml import etree

from launcher import LauncherError
from launcher.elements.domain import Controller
from launcher.host_addresses.pci import PciAddress
from launcher.placement.cpu_lists import parse_cpu_list
from launcher.placement.guest import GuestCell, GuestTopology, MemNode
from launcher.placement.host import HostTopology, PciLocation
from launcher.placement.placing import (
    EXPANDERS_MAX,
    PORTS_MAX,
    FunctionToPlace,
    PciPlacement,
    TakenNumbers,
    kubevirt_rule,
    place,
)
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.wire import Json

CASES = {
    case["name"]: case
    for case in yaml.load((Path(__file__).parent / "cases/placing.yaml").read_text(), yaml.CSafeLoader)
}
HOST = HostTopology(
    nodes={0: (0, 1, 2, 3), 1: (4, 5, 6, 7)},
    functions={
        "0000:41:00.0": PciLocation(0, "pci0000:40"),
        "0000:42:00.0": PciLocation(0, "pci0000:40"),
        "0000:43:00.0": PciLocation(None, "pci0000:40"),
        "0000:c1:00.0": PciLocation(0, "pci0000:c0"),
        "0000:81:00.0": PciLocation(1, "pci0000:80"),
        "0000:e1:00.0": PciLocation(None, "pci0000:e0"),
        "0000:e2:00.0": PciLocation(None, "pci0000:e0"),
    },
)
TWO_CELLS: Json = {"cells": {0: "0-1", 1: "2-3"}, "pins": {0: 0, 1: 1, 2: 4, 3: 5}}


def guest_of(given: Json) -> GuestTopology:
    return GuestTopology(
        tuple(GuestCell(cell, parse_cpu_list(vcpus)) for cell, vcpus in given.get("cells", {}).items()),
        tuple(MemNode(cell, parse_cpu_list(nodes)) for cell, nodes in given.get("memnodes", [])),
        {vcpu: parse_cpu_list(str(cpus)) for vcpu, cpus in given.get("pins", {}).items()},
    )


def placed(case: Json) -> PciPlacement:
    """Keys are the source addresses; the positions, where one is there twice."""
    texts: list[str] = case["functions"]
    addresses = [text.partition(" ")[0] for text in texts]
    functions = [
        FunctionToPlace(
            address if addresses.count(address) == 1 else str(position),
            PciAddress.parse(address),
            has_guest_address=text.endswith("at a guest address"),
        )
        for position, (text, address) in enumerate(zip(texts, addresses, strict=True))
    ]
    rule = kubevirt_rule(
        KubeVirtVersion.parse(case.get("kubevirt", "1.9")),
        strict=case.get("strict", False),
        by_pcie_root=case.get("by_pcie_root", False),
    )
    taken = case.get("taken", {"indexes": [], "buses": []})
    return place(
        functions,
        guest_of(case.get("guest", TWO_CELLS)),
        HOST,
        rule,
        TakenNumbers(frozenset(taken["indexes"]), frozenset(taken["buses"])),
    )


def line(controller: Controller) -> str:
    if controller.model == "pcie-expander-bus":
        node = "" if controller.node is None else f" node {controller.node}"
        return f"{controller.index} expander busNr {controller.bus_nr}{node}"
    return f"{controller.index} port on {controller.bus} slot {controller.slot}"


@pytest.mark.parametrize("name", CASES)
def test_devices_are_placed_by_the_rules(name: str) -> None:
    case = CASES[name]
    if "error" in case:
        with pytest.raises(LauncherError) as refusal:
            placed(case)
        assert str(refusal.value) == case["error"]
        return

    placement = placed(case)

    assert [line(controller) for controller in placement.controllers] == case.get("controllers", [])
    assert placement.ports == {str(key): index for key, index in case.get("ports", {}).items()}
    assert list(placement.warnings) == case.get("warnings", [])


def test_more_devices_than_an_expander_has_slots_go_on_further_expanders_of_the_cell() -> None:
    addresses = [f"0000:{bus:02x}:00.0" for bus in range(1, 2 * PORTS_MAX + 3)]
    host = HostTopology(HOST.nodes, {address: PciLocation(1) for address in addresses})
    functions = [FunctionToPlace(address, PciAddress.parse(address)) for address in addresses]

    placement = place(functions, guest_of(TWO_CELLS), host, kubevirt_rule(KubeVirtVersion.parse("1.9")))

    expanders = [line(controller) for controller in placement.controllers if controller.node is not None]
    assert expanders == ["1 expander busNr 223 node 1", "34 expander busNr 190 node 1", "67 expander busNr 187 node 1"]
    slots = [(controller.bus, controller.slot) for controller in placement.controllers if controller.node is None]
    assert slots == [
        (str(parent), f"0x{slot:02x}") for parent, count in ((1, 32), (34, 32), (67, 2)) for slot in range(count)
    ]
    assert list(placement.ports) == addresses


def test_more_groups_than_a_guest_has_slots_for_are_left_to_libvirt() -> None:
    addresses = [f"0000:{bus:02x}:00.0" for bus in range(EXPANDERS_MAX + 1)]
    host = HostTopology({}, {address: PciLocation(None, f"pci{address[:7]}") for address in addresses})
    functions = [FunctionToPlace(address, PciAddress.parse(address)) for address in addresses]
    rule = kubevirt_rule(KubeVirtVersion.parse("1.9"), by_pcie_root=True)

    assert len(place(functions[1:], GuestTopology(), host, rule).ports) == EXPANDERS_MAX
    assert place(functions, GuestTopology(), host, rule) == PciPlacement(
        (),
        {},
        (
            "Failed to process PCIe NUMA-aware topology, falling back to default placement: failed to create PCIe "
            "topology with NUMA alignment: failed to place device 0000:18:00.0: the guest can have 24 PCIe expanders",
        ),
    )


def test_the_guests_topology_is_read_of_a_domain() -> None:
    domain = etree.fromstring(
        "<domain><cputune><vcpupin vcpu='0' cpuset='4'/><vcpupin vcpu='1' cpuset='5-7,^6'/></cputune>"
        "<numatune><memory mode='strict' nodeset='0-1'/><memnode cellid='1' mode='strict' nodeset='0-1'/></numatune>"
        "<cpu><numa><cell cpus='0-1' memory='1'/><cell id='1' memory='1'/></numa></cpu></domain>"
    )

    assert GuestTopology.from_domain(domain) == GuestTopology(
        (GuestCell(0, (0, 1)), GuestCell(1, ())), (MemNode(1, (0, 1)),), {0: (4,), 1: (5, 7)}
    )


@pytest.mark.parametrize("cpuset", ["", "a", "1-", "3-1", "0-4294967295", "1,,2", "^1-2"])
def test_a_domain_with_an_unreadable_list_is_refused_by_its_place(cpuset: str) -> None:
    domain = etree.fromstring(f"<domain><cputune><vcpupin vcpu='0' cpuset='{cpuset}'/></cputune></domain>")

    with pytest.raises(LauncherError) as refusal:
        GuestTopology.from_domain(domain)
    assert refusal.value.subject == "cputune/vcpupin/@cpuset"


def test_a_list_that_repeats_itself_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"lists numbers again and again$"):
        parse_cpu_list(",".join(["0-16383"] * 200_000))


def test_a_domain_whose_short_lists_are_long_is_refused_at_once() -> None:
    """A domain of 1 MB would have 400 million numbers."""
    pins = "".join(f"<vcpupin vcpu='{vcpu}' cpuset='0-16383'/>" for vcpu in range(25_000))
    domain = etree.fromstring(f"<domain><cputune>{pins}</cputune></domain>")

    with pytest.raises(LauncherError, match=r"cpuset: the domain's lists have more than 1048576 numbers$"):
        GuestTopology.from_domain(domain)
