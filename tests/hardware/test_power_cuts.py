"""The power goes at each write of the checkpoint for a claim: what is on the disk then is enough to go on with."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from itertools import count

import pytest

from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.control_plane import require as require_control_plane
from devtools.hardware_lab import kubelet_call
from devtools.hardware_lab.halting_driver import HALTED
from devtools.hardware_lab.machine import ROOT as REPOSITORY
from devtools.hardware_lab.machine import Board, Card, LabMachine, NumaNode, require
from devtools.hardware_lab.node import FOLDERS, LabNode
from devtools.hardware_lab.pods import CLAIMS, DRIVER, bindings, device_name, eventually, published_devices
from node_driver.state.checkpoint import decoded

pytestmark = [pytest.mark.hardware, pytest.mark.control_plane, pytest.mark.node]

NAME = "lab-2"
PLUGIN = FOLDERS.kubelet / "plugins" / DRIVER
POLICY = {
    "apiVersion": "virt-dra.io/v1alpha1",
    "kind": "VirtDraNodePolicy",
    "metadata": {"name": "lab"},
    "spec": {"deviceSets": [{"name": "edu", "sanitize": "none", "select": [{"vendor": "1234"}]}]},
}
PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"


@pytest.fixture
def small_node() -> Iterator[LabNode]:
    """A machine with one device, as a node without a kubelet: the test calls the driver."""
    require()
    require_control_plane()
    board = Board(nodes=(NumaNode(1024),), cards=(Card("edu", name="edu"),))
    with ControlPlane() as plane, LabMachine(board) as machine:
        plane.request("POST", "/api/v1/nodes", {"metadata": {"name": NAME}})
        yield LabNode(machine, plane, NAME)


def test_after_a_power_cut_at_any_write_nothing_is_lost_or_given_twice(
    small_node: LabNode,
) -> None:
    node, machine = small_node, small_node.machine
    address = machine.addresses()["edu"]
    stages = []
    for number in count(1):
        uids = {name: _allocated_claim(node, name, device_name(address)) for name in (f"a{number}", f"b{number}")}
        (first, first_uid), (second, second_uid) = uids.items()
        _start(node, halt_before=number)
        for method in (PREPARE, UNPREPARE):
            if not _halted(node):
                _call(node, method, first, first_uid)
        if not _halted(node):
            break
        machine.cut_power()
        machine.power_on()
        stages.append(_stages(node).get(first_uid, ""))
        _start(node)

        held = (
            f"device {device_name(address)} is held by ResourceClaim default/{first} ({first_uid}), which is prepared"
        )
        _eventually_says(node, held if stages[-1] == "done" else "", PREPARE, second, second_uid)
        if stages[-1] == "done":
            assert _call(node, PREPARE, first, first_uid) == ""
        assert bindings(machine)[address] == "vfio-pci"
        assert len(_stages(node)) == 1
        for name, uid in uids.items():
            assert _call(node, UNPREPARE, name, uid) == ""
        assert (bindings(machine)[address], _stages(node), machine.check("ls", str(FOLDERS.cdi))) == ("", {}, "")
        machine.signal(node.driver, signal.SIGKILL)
    assert stages == ["", "started", "done", "removing"]


def _start(node: LabNode, *, halt_before: int = 0) -> None:
    """Starts the driver and waits until it can be called, or has halted."""
    node.make_folders()
    node.machine.check("modprobe", "vfio-pci")
    node.start_driver(POLICY, halt_before=halt_before)
    socket = str(PLUGIN / "dra.sock")
    eventually(lambda: _halted(node) or not node.machine.run("test", "-S", socket).status, node)
    eventually(lambda: _halted(node) or len(published_devices(node)) == 1, node)


def _halted(node: LabNode) -> bool:
    return not node.machine.run("test", "-e", HALTED).status


def _call(node: LabNode, method: str, name: str, uid: str) -> str:
    """What the driver says is wrong; whatever it is where it halts meanwhile."""
    return node.machine.check(
        "env", f"--chdir={REPOSITORY}", sys.executable, "-m", kubelet_call.__name__, str(PLUGIN / "dra.sock"), method,
        name, uid, timeout=150,
    ).strip()  # fmt: skip


def _eventually_says(node: LabNode, beginning: str, method: str, name: str, uid: str) -> None:
    """Calls the driver until it says that; until it has looked through the node after a reboot it says so."""

    def says_it() -> bool:
        said = _call(node, method, name, uid)
        return said.startswith(beginning) if beginning else not said

    eventually(says_it, node)


def _stages(node: LabNode) -> dict[str, str]:
    """UID of each claim in the checkpoint -> its stage."""
    checkpoint = node.machine.run("cat", f"{PLUGIN}/checkpoint.json")
    if checkpoint.status:
        return {}
    return {uid: claim.stage.value for uid, claim in decoded(checkpoint.out).claims.items()}


def _allocated_claim(node: LabNode, name: str, device: str) -> str:
    """The UID of a claim that has the device, as a scheduler has allocated it."""
    request = {"name": "device", "exactly": {"deviceClassName": "vfio.virt-dra.io"}}
    claim = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [request]}},
    }  # fmt: skip
    created = node.plane.request("POST", CLAIMS, claim)
    result = {"request": "device", "driver": DRIVER, "pool": NAME, "device": device}
    created["status"] = {"allocation": {"devices": {"results": [result]}}}
    node.plane.request("PUT", f"{CLAIMS}/{name}/status", created)
    return str(created["metadata"]["uid"])
