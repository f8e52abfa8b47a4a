"""Linux guests of domains that are made of VMIs see the devices that were asked for, where they were placed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping

import pytest

from devtools.hardware_lab.by_hand import bound_to_vfio, huge_pages, mtty, virtual_functions
from devtools.hardware_lab.hook_sidecar import hook_sidecar
from devtools.hardware_lab.linux_guest import LinuxGuests, Sight
from devtools.hardware_lab.machine import ROOT, LabMachine
from devtools.hardware_lab.vmis import pci_variables, vmi
from launcher import AddressSources, convert
from launcher.placement.host import HostTopology
from launcher.placement.host_text import read_host_text
from virt_dra.api.integration.paths import PCI_PLACEMENT_ANNOTATION

pytestmark = pytest.mark.hardware

CARDS = {"near1": "near", "far1": "far1", "far2": "far2", "beside1": "beside"}
"""Name of each card on the board -> its serial number."""
ON_TWO_NODES = {
    "cpu": {"cores": 2, "dedicatedCpuPlacement": True, "numa": {"guestMappingPassthrough": {}}},
    "memory": {"guest": "320Mi", "hugepages": {"pageSize": "2Mi"}},
}
BY_PCIE_ROOT = [["beside"], ["far1", "far2"], ["near"]]
UUID = "5f6a5dbb-1d1e-4d5b-9a3c-0a4d6f0c7e11"
NVME, NIC_VF, EDU, MTTY = "1b36:0010", "8086:5845", "1234:11e8", "4348:3253"


@pytest.fixture(scope="module")
def host(machine: LabMachine) -> HostTopology:
    reading = (
        "import json; from launcher.placement.host_text import host_text; "
        "from launcher.placement.sysfs import read_host; print(json.dumps(host_text(read_host())))"
    )
    return read_host_text(machine.check("env", f"--chdir={ROOT}", sys.executable, "-c", reading, timeout=120))


@pytest.mark.parametrize(
    ("placement", "together"),
    [
        ("pcie-root", BY_PCIE_ROOT),
        ("numa-node", [["beside", "far1", "far2"], ["near"]]),
    ],
)
def test_devices_are_on_their_numa_node_behind_a_root_for_each_group(
    guests: LinuxGuests, machine: LabMachine, host: HostTopology, addresses: Mapping[str, str], placement: str,
    together: list[list[str]],
) -> None:  # fmt: skip
    """As asked (K-8.2, K-8.3). Their serial numbers come by DMA."""
    asked = vmi(CARDS, ON_TWO_NODES)
    asked["metadata"]["annotations"] = {PCI_PLACEMENT_ANNOTATION: placement}
    conversion = convert(asked, pci_variables({card: addresses[card] for card in CARDS}), topology=host)
    assert conversion.warnings == ()

    with huge_pages(machine, 80), bound_to_vfio(machine, *(addresses[card] for card in CARDS)):
        _check_places(guests.see(conversion.domain_xml), together)


def test_a_domain_boots_as_the_hook_sidecar_has_changed_it(
    guests: LinuxGuests, machine: LabMachine, host: HostTopology, addresses: Mapping[str, str]
) -> None:
    """It adds the device of the VMI's claim, whose metadata file it reads, and places all by the PCIe roots that it
    reads of this machine (K-11.17, K-11.18)."""
    claimed, *others = CARDS
    asked = vmi(others, ON_TWO_NODES)
    variables = pci_variables({card: addresses[card] for card in others})
    made = convert(asked, variables, topology=host, kubevirt="1.7.0").domain_xml  # which places nothing
    assert ("pcie-expander-bus" in made, made.count("<hostdev")) == (False, 3)
    asked["metadata"]["annotations"] = {PCI_PLACEMENT_ANNOTATION: "pcie-root"}
    asked["spec"]["resourceClaims"] = [{"name": "drive", "resourceClaimName": "drive"}]
    asked["spec"]["domain"]["devices"]["hostDevices"].append(
        {"name": claimed, "claimName": "drive", "requestName": "device"}
    )
    with hook_sidecar(machine, "drive", "device", addresses[claimed]) as sidecar:
        changed, again = sidecar.define_domain(made, asked)
    assert again == changed

    with huge_pages(machine, 80), bound_to_vfio(machine, *(addresses[card] for card in CARDS)):
        _check_places(guests.see(changed, by_schema=False), BY_PCIE_ROOT)


def test_a_running_guest_gets_a_device_and_gives_it_back(
    guests: LinuxGuests, machine: LabMachine, addresses: Mapping[str, str]
) -> None:
    """As our launcher attaches and detaches it."""
    domain = convert(vmi([], {"memory": {"guest": "256Mi"}}), spare_ports=1).domain_xml
    with (
        bound_to_vfio(machine, addresses["near1"]),
        guests.running(domain, watches=True) as guest,
    ):
        before = guest.sight()
        guest.attach("drive", addresses["near1"])
        guest.wait_for("serial=near")
        during = guest.sight()
        assert during.controller("near").id == NVME
        assert len(during.functions) == len(before.functions) + 1
        guest.detach("drive")
        guest.wait_for(f"gone {during.serials['near']}")
        assert guest.sight() == before


def _check_places(seen: Sight, together: list[list[str]]) -> None:
    """``together``: the serial numbers of the controllers below each PCI root of the guest."""
    assert seen.cpus == {0: "0", 1: "1"}
    assert sorted(seen.serials) == sorted(CARDS.values())
    functions = {serial: seen.controller(serial) for serial in sorted(seen.serials)}
    assert [function.id for function in functions.values()] == [NVME] * 4
    nodes = {serial: function.numa_node for serial, function in functions.items()}
    assert nodes == {"near": 0, "far1": 1, "far2": 1, "beside": 1}
    roots = {function.root for function in functions.values()}
    assert sorted([name for name in functions if functions[name].root == root] for root in roots) == together
    assert len({function.path.parent for function in functions.values()}) == 4  # a port for each


def test_a_guest_has_a_device_of_each_kind(
    guests: LinuxGuests, machine: LabMachine, addresses: Mapping[str, str]
) -> None:
    """A conventional PCI device, an NVMe controller, which is used, a virtual function, and a mediated device; of a
    machine type with a version, as KubeVirt's own are (``pc-q35-…``)."""
    machine.check("modprobe", "lab_nic")
    with (
        virtual_functions(machine, addresses["nic"], 1) as (function,),
        bound_to_vfio(machine, addresses["unclaimed"], addresses["near1"], function),
        mtty(machine, UUID),
    ):
        given = {"edu": addresses["unclaimed"], "drive": addresses["near1"], "vf": function}
        sources = pci_variables(given)
        variables = {**sources.env, "MDEV_PCI_RESOURCE_EXAMPLE_ORG_PORT": UUID}
        asked = vmi([*given, "port"], {"memory": {"guest": "256Mi"}, "machine": {"type": "pc-q35-6.2"}})
        seen = guests.see(convert(asked, AddressSources(env=variables)).domain_xml)

    kinds = Counter(function.id for function in seen.functions.values())
    assert {kind: kinds[kind] for kind in (EDU, NVME, NIC_VF, MTTY)} == dict.fromkeys((EDU, NVME, NIC_VF, MTTY), 1)
    assert seen.controller("near").id == NVME
