"""The node driver on a real kernel with an IOMMU, beside a real kubelet: a pod gets its device, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from devtools.hardware_lab.launcher_pods import run_guest
from devtools.hardware_lab.machine import LabMachine
from devtools.hardware_lab.node import FOLDERS, LabNode
from devtools.hardware_lab.pods import (
    DRIVER,
    METADATA,
    at_address,
    attribute,
    bindings,
    create_claim,
    create_pod,
    delete_pod,
    iommu_group,
    published_devices,
    running_container,
)
from tests.hardware.conftest import policy

pytestmark = [pytest.mark.hardware, pytest.mark.control_plane, pytest.mark.node]


def test_devices_are_published_with_their_place_in_the_machine(driver: LabNode, addresses: Mapping[str, str]) -> None:
    (drive,) = [
        device
        for device in published_devices(driver).values()
        if attribute(device, "resource.kubernetes.io/pciBusID") == {"string": addresses["nvme1"]}
    ]
    assert attribute(drive, f"{DRIVER}/vendorID") == {"string": "1b36"}
    assert attribute(drive, "resource.kubernetes.io/pcieRoot") == {"string": "pci0000:40"}
    assert attribute(drive, "resource.kubernetes.io/numaNode") == {"int": 1}


def test_a_pod_gets_its_claimed_device_and_no_other_one(
    driver: LabNode, machine: LabMachine, addresses: Mapping[str, str]
) -> None:
    before, address = bindings(machine), addresses["edu"]
    create_claim(driver, "edu", at_address(address))
    create_pod(driver, "user", "edu")
    root = driver.container_root(running_container(driver, "user"))
    assert bindings(machine) == {**before, address: "vfio-pci"}
    group = iommu_group(machine, f"pci/devices/{address}")
    assert set(machine.check("ls", f"{root}/dev/vfio").split()) == {"vfio", group}
    metadata = machine.check("cat", f"{root}{METADATA}/edu/device/{DRIVER}-metadata.json")
    newest, _ = json.JSONDecoder().raw_decode(metadata)
    (device,) = newest["requests"][0]["devices"]
    assert device["attributes"]["resource.kubernetes.io/pciBusID"] == {"string": address}

    lines = run_guest(driver, "edu")
    assert (lines[0], lines[-1]) == ("probe begins", "probe ends")
    (used,) = [line.split()[2:] for line in lines if line.startswith("edu ")]
    assert used == ["id=ok", "invert=ok", "dma=ok"]

    delete_pod(driver, "user", "edu")
    assert bindings(machine) == before
    assert machine.check("ls", str(FOLDERS.cdi)) == ""


def test_a_claimed_device_comes_back_after_a_reboot(
    driver: LabNode, machine: LabMachine, addresses: Mapping[str, str]
) -> None:
    before, address = bindings(machine), addresses["edu"]
    create_claim(driver, "edu", at_address(address))
    create_pod(driver, "user", "edu")
    running_container(driver, "user")
    machine.reboot()
    assert bindings(machine)[address] == ""
    driver.load_modules()
    driver.start()
    driver.start_driver(policy(addresses))
    root = driver.container_root(running_container(driver, "user"))
    assert bindings(machine) == {**before, address: "vfio-pci"}
    assert "vfio" in machine.check("ls", f"{root}/dev/vfio").split()
    delete_pod(driver, "user", "edu")
    assert bindings(machine) == before
