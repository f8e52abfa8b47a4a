"""A real node of a real control plane, shared by the tests of this package."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devtools.cluster.control_plane import CONTROLLERS, DEFAULT_CONTROLLERS, SCHEDULER, ControlPlane
from devtools.cluster.control_plane import require as require_control_plane
from devtools.real_node import here
from devtools.real_node.here import Node

HOST_ROOT = "host"
"""Below the node's folder: where the driver under test looks for /sys, /proc and /dev."""


@pytest.fixture(scope="package")
def node() -> Iterator[Node]:
    """A node that is ready, its control plane with a scheduler and controllers."""
    require_control_plane(SCHEDULER, CONTROLLERS)
    here.require()
    with ControlPlane() as plane:
        plane.start_scheduler()
        plane.start_controllers(*DEFAULT_CONTROLLERS, "node-lifecycle-controller")
        here.let_nodes_in(plane)
        running = Node(plane, "node-1")
        devices = running.folder / HOST_ROOT / "dev" / "vfio"
        devices.mkdir(parents=True)
        running.mount("/dev/vfio", devices)
        with running:
            yield running
