"""An emulated machine with an IOMMU, shared by the tests of this package, which run one after the other; and the node
that it is in a real cluster, with the driver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devtools.cluster.control_plane import CONTROLLERS, DEFAULT_CONTROLLERS, SCHEDULER, ControlPlane
from devtools.cluster.control_plane import require as require_control_plane
from devtools.hardware_lab.machine import Board, Card, HostBridge, LabMachine, require
from devtools.hardware_lab.node import LabNode
from devtools.real_node import here

BOARD = Board(
    bridges=(HostBridge("far", 0x40, numa_node=1),),
    cards=(
        Card("edu", name="edu1"),
        Card("edu", name="edu2"),
        Card("nvme", under="far", properties={"serial": "first"}, drive_mib=64, name="nvme1"),
    ),
)


@pytest.fixture(scope="package")
def machine() -> Iterator[LabMachine]:
    require()
    with LabMachine(BOARD, state_mib=512) as running:
        yield running


@pytest.fixture(scope="package")
def node(machine: LabMachine) -> Iterator[LabNode]:
    """The machine as a node that is ready, of a control plane outside of it."""
    require_control_plane(SCHEDULER, CONTROLLERS)
    here.require()
    with ControlPlane() as plane:
        plane.start_scheduler()
        plane.start_controllers(*DEFAULT_CONTROLLERS, "node-lifecycle-controller")
        here.let_nodes_in(plane)
        running = LabNode(machine, plane, "lab-1")
        running.start()
        yield running
