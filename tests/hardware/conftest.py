"""An emulated machine with an IOMMU, shared by the tests of this package, which run one after the other; and the node
that it is in a real cluster, with the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools.cluster.control_plane import CONTROLLERS, DEFAULT_CONTROLLERS, SCHEDULER, ControlPlane
from devtools.cluster.control_plane import require as require_control_plane
from devtools.hardware_lab import launcher_runtime
from devtools.hardware_lab.linux_guest import LinuxGuests
from devtools.hardware_lab.machine import Board, Card, HostBridge, LabMachine, require
from devtools.hardware_lab.node import LabNode
from devtools.hardware_lab.panics import (
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_terminal_summary,
)
from devtools.hardware_lab.pods import RESOURCES, eventually, published_devices
from devtools.real_node import here

__all__ = [  # hooks of this folder's tests
    "pytest_runtest_makereport", "pytest_runtest_setup", "pytest_runtest_teardown", "pytest_terminal_summary",
]  # fmt: skip
ROOT = Path(__file__).parents[2]
CLASSES = ROOT / "manifests" / "driver" / "device_classes.yaml"
BOARD = Board(
    bridges=(
        HostBridge("near", 0x20, numa_node=0),
        HostBridge("far", 0x40, numa_node=1),
        HostBridge("beside", 0x60, numa_node=1),
    ),
    cards=(
        Card("edu", name="edu"),
        Card("edu", name="unclaimed"),
        Card("nvme", under="far", properties={"serial": "first"}, drive_mib=64, name="nvme1"),
        Card("pcie-pci-bridge", under="pcie.0", name="bridge"),
        Card("edu", behind="bridge", name="together1"),
        Card("edu", behind="bridge", name="together2"),
        Card("pcie-pci-bridge", under="pcie.0", name="bridge2"),
        Card("edu", behind="bridge2", name="each1"),
        Card("edu", behind="bridge2", name="each2"),
        Card("nvme", under="pcie.0", properties={"serial": "sriov"}, virtual_functions=2, name="sriov"),
        Card("nvme", under="pcie.0", properties={"serial": "gpu"}, virtual_functions=2, name="gpu"),
        Card("nvme", under="pcie.0", properties={"serial": "unplugged"}, name="unplugged"),
        Card(
            "nvme", under="pcie.0", properties={"serial": "nic", "use-intel-id": "on"}, virtual_functions=2, name="nic"
        ),
        Card("igb", under="pcie.0", properties={"romfile": ""}, wire="wire", name="network"),
        Card("nvme", under="near", properties={"serial": "near"}, drive_mib=4, name="near1"),
        Card("nvme", under="far", properties={"serial": "far1"}, drive_mib=4, name="far1"),
        Card("nvme", under="far", properties={"serial": "far2"}, drive_mib=4, name="far2"),
        Card("nvme", under="beside", properties={"serial": "beside"}, drive_mib=4, name="beside1"),
    ),
)
PUBLISHED = 17
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


def policy(addresses: Mapping[str, str]) -> dict[str, Any]:
    """Edu devices can't be reset."""

    def device_set(name: str, *cards: str, **settings: object) -> dict[str, Any]:
        return {"name": name, "select": [{"address": addresses.get(card, card)} for card in cards], **settings}

    return {
        "apiVersion": "virt-dra.io/v1alpha1",
        "kind": "VirtDraNodePolicy",
        "metadata": {"name": "lab"},
        "spec": {
            "deviceSets": [
                device_set("edu", "edu", "unclaimed", sanitize="none"),
                device_set("together", "together1", "together2", sanitize="none"),
                device_set("each", "each1", "each2", sanitize="none", iommuGroups="each"),
                device_set("drives", "nvme1", sanitize="erase"),
                device_set("unplugged", "unplugged"),
                device_set("vfs", "sriov", numVFs=2),
                device_set("network", "network", numVFs=2),
                device_set("vgpus", "gpu", numVFs=2, vgpuProfiles=[{"profile": "LAB T-4Q"}, {"profile": "557"}]),
                device_set("ports", "mtty", mdevTypes=[{"type": "mtty-1", "max": 2}, {"type": "mtty-2", "max": 1}]),
            ]
        },
    }


@pytest.fixture(scope="package")
def machine() -> Iterator[LabMachine]:
    require()
    with LabMachine(BOARD, state_mib=512) as running:
        yield running


@pytest.fixture(scope="package")
def addresses(machine: LabMachine) -> Mapping[str, str]:
    """Name of each card -> its PCI address."""
    return machine.addresses()


@pytest.fixture(scope="package")
def guests(machine: LabMachine) -> LinuxGuests:
    return LinuxGuests(machine)


@pytest.fixture(scope="package")
def node(machine: LabMachine) -> Iterator[LabNode]:
    """The machine as a node that is ready, of a control plane outside of it."""
    require_control_plane(SCHEDULER, CONTROLLERS)
    here.require()
    with ControlPlane() as plane:
        plane.start_scheduler()
        plane.start_controllers(*DEFAULT_CONTROLLERS, "node-lifecycle-controller")
        here.let_nodes_in(plane)
        plane.request("POST", RUNTIME_CLASSES, launcher_runtime.CLASS)
        running = LabNode(machine, plane, "lab-1")
        running.start()
        yield running


@pytest.fixture(scope="package")
def driver(node: LabNode, addresses: Mapping[str, str]) -> LabNode:
    """The node with its driver, which has published all devices."""
    for device_class in yaml.safe_load_all(CLASSES.read_text(encoding="utf-8")):
        node.plane.request("POST", f"{RESOURCES}/deviceclasses", device_class)
    node.load_modules()
    node.start_driver(policy(addresses))
    eventually(lambda: len(published_devices(node)) == PUBLISHED, node)
    return node
