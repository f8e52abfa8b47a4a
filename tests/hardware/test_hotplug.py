"""A device that is unplugged while a pod has it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from devtools.hardware_lab.machine import LabMachine
from devtools.hardware_lab.node import LabNode
from devtools.hardware_lab.pods import (
    CLAIMS,
    at_address,
    bindings,
    create_claim,
    create_pod,
    device_name,
    events_of,
    eventually,
    published_devices,
    running_container,
)

pytestmark = [pytest.mark.hardware, pytest.mark.control_plane, pytest.mark.node]


def test_a_pod_is_evicted_when_its_device_is_unplugged(
    driver: LabNode, machine: LabMachine, addresses: Mapping[str, str]
) -> None:
    address = addresses["unplugged"]
    device = device_name(address)
    create_claim(driver, "unplugged", at_address(address))
    create_pod(driver, "holder", "unplugged")
    running_container(driver, "holder")
    machine.monitor("device_del", id="unplugged")
    eventually(lambda: address not in bindings(machine), driver)
    eventually(lambda: "DeviceTaintManagerEviction" in events_of(driver, "holder"), driver)
    eventually(lambda: device not in published_devices(driver), driver)
    driver.plane.request("DELETE", f"{CLAIMS}/unplugged")
