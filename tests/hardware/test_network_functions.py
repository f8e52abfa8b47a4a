"""Settings of a card's network functions by a real kernel (D-62): the driver's program sets them, ``ip`` shows them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from devtools.hardware_lab.by_hand import virtual_functions
from devtools.hardware_lab.linux_guest import LinuxGuests
from devtools.hardware_lab.machine import Finished, LabMachine
from devtools.hardware_lab.node import LabNode
from devtools.hardware_lab.pods import (
    DRIVER,
    METADATA,
    at_address,
    create_claim,
    create_pod,
    delete_pod,
    running_container,
    virtual_function_addresses,
)
from devtools.hardware_lab.vmis import pci_variables, vmi
from devtools.hardware_lab.wire import sent_frames
from launcher import convert
from node_driver.host import vf_settings

pytestmark = pytest.mark.hardware

WANTED = {
    "mac": "02:00:00:00:00:07", "vlan": 100, "vlanQos": 3, "spoofCheck": False, "trust": True, "minTxRate": 10,
    "maxTxRate": 1000, "linkState": "enable",
}  # fmt: skip
SHOWN = {
    "address": "02:00:00:00:00:07", "vlan_list": [{"vlan": 100, "qos": 3}], "spoofchk": False, "trust": True,
    "rate": {"max_tx": 1000, "min_tx": 10}, "link_state": "enable",
}  # fmt: skip


def test_settings_are_made_read_back_and_put_back(machine: LabMachine, addresses: Mapping[str, str]) -> None:
    """The card is one for tests, which has its own driver (``lab_nic``). The other function keeps its settings."""
    machine.check("modprobe", "lab_nic")
    with virtual_functions(machine, addresses["nic"], 2):
        interface = machine.check("ls", f"/sys/bus/pci/devices/{addresses['nic']}/net").strip()
        shown_before = _shown(machine, interface)
        before = json.loads(_run(machine, interface).out)

        assert json.loads(_run(machine, interface, WANTED).out) == WANTED
        first, second = _shown(machine, interface)
        assert (first, {name: second[name] for name in SHOWN}) == (shown_before[0], SHOWN)

        refused = _run(machine, interface, {"mac": "03:00:00:00:00:07"})
        assert (refused.status, refused.out) == (1, "mac: Invalid argument")
        assert json.loads(_run(machine, interface, before).out) == before
        assert _shown(machine, interface) == shown_before


def _run(machine: LabMachine, interface: str, wanted: Mapping[str, object] | None = None) -> Finished:
    """The driver's program, for the second function."""
    program = (sys.executable, "-I", str(vf_settings.__file__), interface, "1")
    return machine.run(*program, *(() if wanted is None else (json.dumps(wanted),)), timeout=120)


def _shown(machine: LabMachine, interface: str) -> list[dict[str, Any]]:
    (link,) = json.loads(machine.check("ip", "-json", "link", "show", "dev", interface))
    functions: list[dict[str, Any]] = link["vfinfo_list"]
    return functions


@pytest.mark.control_plane
@pytest.mark.node
def test_a_guest_has_the_address_and_the_vlan_that_its_claim_asks_for(
    driver: LabNode, guests: LinuxGuests, machine: LabMachine, addresses: Mapping[str, str]
) -> None:
    """Of a card with a driver of Linux's own (``igb``), whose guest's driver (``igbvf``) asks the card for its address;
    what the guest sends has the VLAN's tag."""
    mac, vlan = "02:00:00:00:00:17", 101
    interface = machine.check("ls", f"/sys/bus/pci/devices/{addresses['network']}/net").strip()
    function = virtual_function_addresses(machine, addresses["network"])[1]
    shown_before = _shown(machine, interface)
    parameters = {
        "apiVersion": "virt-dra.io/v1alpha1", "kind": "PassthroughConfig", "network": {"mac": mac, "vlan": vlan}
    }  # fmt: skip
    create_claim(driver, "network", at_address(function), "sriov", parameters)
    create_pod(driver, "network-user", "network")
    root = driver.container_root(running_container(driver, "network-user"))
    metadata = machine.check("cat", f"{root}{METADATA}/network/device/{DRIVER}-metadata.json")
    newest, _ = json.JSONDecoder().raw_decode(metadata)
    (device,) = newest["requests"][0]["devices"]
    assert device["networkData"]["hardwareAddress"] == mac
    first, second = _shown(machine, interface)
    assert (first, second["address"], second["vlan_list"]) == (shown_before[0], mac, [{"vlan": vlan}])

    asked = vmi(["vf"], {"memory": {"guest": "256Mi"}})
    seen = guests.see(convert(asked, pci_variables({"vf": function})).domain_xml)
    assert list(seen.macs.values()) == [mac]
    (seen_at,) = seen.macs
    assert seen.functions[seen_at].id == "8086:10ca"
    assert (mac, vlan) in {(frame.source, frame.vlan) for frame in sent_frames(machine.folder / "wire.pcap")}

    delete_pod(driver, "network-user", "network")
    assert _shown(machine, interface) == shown_before
