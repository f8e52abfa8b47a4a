"""A real node of a real control plane, shared by the tests of this package."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from devtools.cluster.control_plane import CONTROLLERS, DEFAULT_CONTROLLERS, SCHEDULER, ControlPlane
from devtools.cluster.control_plane import require as require_control_plane
from devtools.real_node import here
from devtools.real_node.here import Node
from tests.node_driver.real_kubelet.driving import (
    CLASSES,
    DRIVER,
    HOST_ROOT,
    RESOURCES,
    devices,
    eventually,
    lay_out,
    start_driver,
)


@pytest.fixture(scope="package")
def node() -> Iterator[Node]:
    """A node that is ready, its control plane with a scheduler and controllers. The driver's folder is a disk of 1
    MiB."""
    require_control_plane(SCHEDULER, CONTROLLERS)
    here.require()
    with ControlPlane() as plane:
        plane.start_scheduler()
        plane.start_controllers(*DEFAULT_CONTROLLERS, "node-lifecycle-controller")
        here.let_nodes_in(plane)
        running = Node(plane, "node-1")
        vfio = running.folder / HOST_ROOT / "dev" / "vfio"
        vfio.mkdir(parents=True)
        running.mount("/dev/vfio", vfio)
        disk, plugins = running.folder / "disk", running.folders.kubelet / "plugins"
        for folder in (disk, plugins):
            folder.mkdir(parents=True)
        (plugins / DRIVER).symlink_to(disk)  # the kubelet binds `plugins` to itself, which hides what is mounted below
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "disk", disk], check=True)
        try:
            with running:
                yield running
        finally:
            subprocess.run(["umount", "--lazy", disk], check=True)
            shutil.rmtree(running.folder, ignore_errors=True)  # which it couldn't remove below the disk


@pytest.fixture(scope="package")
def machine(node: Node) -> Node:
    """The node with the files of a machine, and the driver's device classes."""
    lay_out(node)
    for device_class in yaml.safe_load_all(CLASSES.read_text(encoding="utf-8")):
        node.plane.request("POST", f"{RESOURCES}/deviceclasses", device_class)
    return node


@pytest.fixture(scope="module")
def driver(machine: Node) -> Iterator[Node]:
    """The node with a driver, called first, that publishes two devices."""
    start_driver(machine, "first")
    eventually(lambda: len(devices(machine)) == 2, machine)
    yield machine
    machine.stop("first", signal.SIGTERM)
