"""The power goes at each write of the checkpoint for a claim: what is on the disk then is enough to go on with."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import pytest

from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.control_plane import require as require_control_plane
from devtools.hardware_lab import kubelet_call
from devtools.hardware_lab.halting_driver import HALT_AT, HALTED
from devtools.hardware_lab.machine import ROOT as REPOSITORY
from devtools.hardware_lab.machine import Board, Card, LabMachine, NumaNode, require
from devtools.hardware_lab.node import FOLDERS, LabNode
from devtools.hardware_lab.pods import (
    CLAIMS,
    DRIVER,
    WAIT_SECONDS,
    bindings,
    device_name,
    eventually,
    published_devices,
)
from node_driver.state.checkpoint import decoded

pytestmark = [pytest.mark.hardware(seconds=200), pytest.mark.control_plane, pytest.mark.node]

NAME = "lab-2"
CALLS = "/run/calls"
PLUGIN = FOLDERS.kubelet / "plugins" / DRIVER
POLICY = {
    "apiVersion": "virt-dra.io/v1alpha1",
    "kind": "VirtDraNodePolicy",
    "metadata": {"name": "lab"},
    "spec": {"deviceSets": [{"name": "edu", "sanitize": "none", "select": [{"vendor": "1234"}]}]},
}


class Claim(NamedTuple):
    name: str
    uid: str


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
    held = f"device {device_name(address)} is held by ResourceClaim default/{{}} ({{}}), which is prepared"
    stages = []
    _start(node)
    for number in count(1):
        first, second = (_allocated_claim(node, name, device_name(address)) for name in (f"a{number}", f"b{number}"))
        machine.check("tee", HALT_AT, stdin=str(number))
        errors = _call(node, (PREPARE, first), (UNPREPARE, first))
        if not _halted(node):
            assert errors == ["", ""]
            break
        machine.cut_power()
        machine.power_on()
        stages.append(_stages(node).get(first.uid, ""))
        is_prepared = stages[-1] == "done"
        _start(node)

        _eventually_says(node, held.format(first.name, first.uid) if is_prepared else "", PREPARE, second)
        if is_prepared:  # a kubelet asks again after a reboot, which binds the device again
            assert _call(node, (PREPARE, first)) == [""]
        assert bindings(machine)[address] == "vfio-pci"
        assert len(_stages(node)) == 1
        assert _call(node, (UNPREPARE, first), (UNPREPARE, second)) == ["", ""]
        assert (bindings(machine)[address], _stages(node), machine.check("ls", str(FOLDERS.cdi))) == ("", {}, "")
    assert stages == ["", "started", "done", "removing"]


def _start(node: LabNode) -> None:
    """Starts the driver and waits until it can be called."""
    node.make_folders()
    node.machine.check("modprobe", "vfio-pci")
    socket = str(PLUGIN / "dra.sock")
    node.machine.check("rm", "-f", socket)  # of the boot before: gRPC would try it less and less often
    node.start_driver(POLICY, halting=True)
    node.machine.check("mkdir", CALLS)
    caller = (sys.executable, "-m", kubelet_call.__name__, socket, CALLS)
    node.machine.start("env", f"--chdir={REPOSITORY}", *caller, log=f"{CALLS}/log")
    for path in (socket, f"{CALLS}/{kubelet_call.QUESTIONS}"):
        node.machine.wait_for(path, timeout=WAIT_SECONDS)
    eventually(lambda: len(published_devices(node)) == 1, node)


def _halted(node: LabNode) -> bool:
    return not node.machine.run("test", "-e", HALTED).status


def _call(node: LabNode, *calls: tuple[str, Claim]) -> list[str]:
    """What the driver says is wrong with each call, up to the one at which it halts."""
    asked = " ".join(f"{method}:{claim.name}:{claim.uid}" for method, claim in calls)
    exchange = f"printf %s '{asked}' > {CALLS}/{kubelet_call.QUESTIONS} && cat {CALLS}/{kubelet_call.ANSWERS}"
    said = node.machine.check("sh", "-c", exchange, timeout=150)
    errors: list[str] = json.loads(said)
    return errors


def _eventually_says(node: LabNode, beginning: str, method: str, claim: Claim) -> None:
    """Calls the driver until it says that; until it has looked through the node after a reboot it says so."""

    def says_it() -> bool:
        (said,) = _call(node, (method, claim))
        return said.startswith(beginning) if beginning else not said

    eventually(says_it, node)


def _stages(node: LabNode) -> dict[str, str]:
    """UID of each claim in the checkpoint -> its stage."""
    checkpoint = node.machine.run("cat", f"{PLUGIN}/checkpoint.json")
    if checkpoint.status:
        return {}
    return {uid: claim.stage.value for uid, claim in decoded(checkpoint.out).claims.items()}


def _allocated_claim(node: LabNode, name: str, device: str) -> Claim:
    """A claim that has the device, as a scheduler has allocated it."""
    request = {"name": "device", "exactly": {"deviceClassName": "vfio.virt-dra.io"}}
    claim = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [request]}},
    }  # fmt: skip
    created = node.plane.request("POST", CLAIMS, claim)
    result = {"request": "device", "driver": DRIVER, "pool": NAME, "device": device}
    created["status"] = {"allocation": {"devices": {"results": [result]}}}
    node.plane.request("PUT", f"{CLAIMS}/{name}/status", created)
    return Claim(name, created["metadata"]["uid"])
