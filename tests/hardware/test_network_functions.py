"""Settings of a card's network functions by a real kernel (D-62): the driver's program sets them, ``ip`` shows them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from devtools.hardware_lab.by_hand import virtual_functions
from devtools.hardware_lab.machine import Finished, LabMachine
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
