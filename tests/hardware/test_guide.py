"""docs/guides/driver.md as a whole: its commands as written, from a node without a driver to a VM that uses an NVMe
drive, and back."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from devtools.cluster.control_plane import CONTROLLERS, DEFAULT_CONTROLLERS, SCHEDULER, ControlPlane
from devtools.cluster.control_plane import require as require_control_plane
from devtools.cluster.programs import KUBECTL, binary
from devtools.hardware_lab import forward, launcher_runtime
from devtools.hardware_lab.launcher_pods import run_vmi
from devtools.hardware_lab.machine import HOST_FROM_INSIDE, Board, Card, LabMachine, require
from devtools.hardware_lab.node import FOLDERS, LabNode
from devtools.hardware_lab.pods import bindings, device_name, eventually, published_devices, taint_reasons
from devtools.real_node import here
from tests.guides.page import Block, blocks
from tests.guides.shell import Shell

pytestmark = [pytest.mark.hardware(seconds=150), pytest.mark.control_plane, pytest.mark.node]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "driver.md").read_text(encoding="utf-8")
NAME, NAMESPACE = "lab-3", "virt-dra-driver"
IMAGE = "docker.io/library/virt-dra:0.1.0"
SERVICE = ("10.0.0.1", "443")
"""Where a pod finds the API server."""
BOARD = Board(cards=(Card("nvme", under="pcie.0", properties={"serial": "spare"}, drive_mib=16, name="spare"),))


@pytest.fixture
def bare_node() -> Iterator[LabNode]:
    """A node with a spare NVMe drive. It has no registry: the guide's image is one with this environment's programs."""
    require()
    require_control_plane(SCHEDULER, CONTROLLERS, KUBECTL)
    here.require()
    with (
        ControlPlane(arguments=("--allow-privileged",), service_accounts=True) as plane,
        LabMachine(BOARD, state_mib=512) as machine,
    ):
        plane.start_scheduler()
        controllers = ("daemonset-controller", "serviceaccount-controller", "node-lifecycle-controller")
        plane.start_controllers(*DEFAULT_CONTROLLERS, *controllers)
        here.let_nodes_in(plane)
        plane.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", launcher_runtime.CLASS)
        node = LabNode(machine, plane, NAME, {IMAGE: ("virt-dra",)})
        node.start()
        machine.check("modprobe", "--all", "vfio-pci", "nvme")
        for inside, usual in ((FOLDERS.kubelet, "/var/lib/kubelet"), (FOLDERS.cdi, "/run/cdi")):
            machine.check("sh", "-ec", f"mkdir -p {usual}; mount --bind {inside} {usual}")
        machine.check("ip", "address", "add", SERVICE[0], "dev", "lo")
        to_server = (*SERVICE, HOST_FROM_INSIDE, str(plane.port))
        machine.start(sys.executable, "-I", str(forward.__file__), *to_server, log="/run/forward.log")
        yield node


def test_the_guide_leads_from_a_bare_node_to_a_vm_with_a_drive(bare_node: LabNode, tmp_path: Path) -> None:
    node, machine = bare_node, bare_node.machine
    address = machine.addresses()["spare"]
    device = device_name(address)
    before = bindings(machine)
    assert before[address] == "nvme"
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    kubectl = binary(KUBECTL)
    assert kubectl is not None
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}:{kubectl.parent}"
    environment = {"PATH": path, "KUBECONFIG": str(node.plane.kubeconfig)}
    printed: dict[str, str] = {}
    with Shell(tmp_path / "shell", tmp_path, environment, "") as shell:
        for block in (block for block in blocks(PAGE) if block.way != "copy"):
            if block.way == "node":
                on_node = f"cd {tmp_path} && {block.commands}"
                programs = {"PATH": launcher_runtime.PATH}
                ran = machine.run("bash", "-ec", on_node, environment=programs, timeout=300)
                assert ran.status == 0, ran.err
                printed[block.commands] = ran.out
                continue
            if "get devices" in block.commands:
                eventually(lambda: device in published_devices(node), node)
            if "kubectl delete" in block.commands:
                said = run_vmi(node, _vm(tmp_path / "vm.yaml"))
                assert [line.split()[2:] for line in said if line.startswith("nvme ")] == [
                    ["ready=ok", "marker=absent", "wrote=ok"]
                ]
                eventually(lambda: taint_reasons(node, device) == set() and bindings(machine) == before, node)
            printed[block.commands] = _run(shell, block)
            if "apply -k" in block.commands:
                _publish_authority(node, shell)
    (planned,) = (text for commands, text in printed.items() if "--plan" in commands)
    (listed,) = (text for commands, text in printed.items() if "get devices" in commands)
    assert f"{device}   vfio   {address}" in planned
    assert device in listed
    eventually(lambda: published_devices(node) == {}, node)


def _run(shell: Shell, block: Block) -> str:
    ran = shell.run(block.commands)
    assert ran.failed == (), f"docs/guides/driver.md, line {block.line}:\n{block.commands}{ran.printed}"
    return ran.printed


def _publish_authority(node: LabNode, shell: Shell) -> None:
    """As a cluster's controller does for each namespace."""
    authority = node.plane.folder / "credentials" / "ca.crt"
    command = f"kubectl create configmap kube-root-ca.crt --namespace {NAMESPACE} --from-file=ca.crt={authority}"
    assert shell.run(command).failed == ()


def _vm(file: Path) -> dict[str, object]:
    """The guide's VM, as the API server would have stored it."""
    vm = yaml.safe_load(file.read_text(encoding="utf-8"))
    vm["metadata"] |= {"namespace": "default", "uid": "guide"}
    return dict(vm)
