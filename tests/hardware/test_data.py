"""Nobody inherits data: what a guest wrote onto an NVMe drive, the next one doesn't find."""

from __future__ import annotations

import signal
from collections.abc import Mapping

import pytest

from devtools.hardware_lab.launching import launch
from devtools.hardware_lab.machine import LabMachine
from devtools.hardware_lab.node import PROGRAMS, LabNode
from devtools.hardware_lab.pods import (
    allocated_device,
    at_address,
    create_claim,
    create_pod,
    delete_pod,
    device_name,
    eventually,
    running_container,
    taint_reasons,
)
from tests.hardware.conftest import policy

pytestmark = [pytest.mark.hardware, pytest.mark.control_plane, pytest.mark.node]


def test_a_drive_is_erased_also_where_the_driver_is_killed_meanwhile(
    driver: LabNode, machine: LabMachine, addresses: Mapping[str, str]
) -> None:
    """It runs an ``nvme`` that waits in the middle of the erasing, and is killed with it."""
    began, program = "/run/nvme-began", f"{PROGRAMS}/nvme"
    script = f"#!/bin/sh\necho $$ > {began}\nexec sleep 3600\n"
    machine.check("sh", "-c", f"mkdir {PROGRAMS} && cat > {program} && chmod +x {program}", stdin=script)
    assert _said_of_the_drive(driver, machine, addresses["nvme1"]) == ["ready=ok", "marker=absent", "wrote=ok"]
    eventually(lambda: not machine.run("test", "-s", began).status, driver)
    device = device_name(addresses["nvme1"])
    eventually(lambda: taint_reasons(driver, device) == {"unclean"}, driver)

    machine.signal(driver.driver, signal.SIGKILL)
    machine.check("sh", "-c", f"kill -9 $(cat {began}); rm {program}")
    driver.start_driver(policy(addresses))
    eventually(lambda: taint_reasons(driver, device) == set(), driver)
    assert _said_of_the_drive(driver, machine, addresses["nvme1"]) == ["ready=ok", "marker=absent", "wrote=ok"]


def _said_of_the_drive(driver: LabNode, machine: LabMachine, address: str) -> list[str]:
    """What a guest finds on the drive, and does with it, while a pod has claimed it."""
    create_claim(driver, "drive", at_address(address))
    create_pod(driver, "writer", "drive")
    running_container(driver, "writer")
    assert allocated_device(driver, "drive")
    (said,) = [line.split()[2:] for line in launch(machine, address) if line.startswith("nvme ")]
    delete_pod(driver, "writer", "drive")
    return said
