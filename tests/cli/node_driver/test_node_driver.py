"""``virt-dra node-driver`` as a process: it publishes a copied machine's devices, serves, and taints before it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from devtools.cluster.control_plane import ControlPlane
from node_driver.hardware.inventory import Hardware
from node_driver.hardware.reading import HardwareRoots, read_hardware
from tests.node_driver.machine_trees import machine
from virt_dra.api.core_v1 import Node
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.policies.node_policy_v1alpha1 import NodePolicySpec, VirtDraNodePolicy
from virt_dra.cli.main import cli
from virt_dra.cli.node_driver.sources import ClusterPolicies, FilePolicies, policies_in
from virt_dra.cluster.memory.embedded import embedded_cluster

Json = dict[str, Any]
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
POLICY = """\
apiVersion: virt-dra.io/v1alpha1
kind: VirtDraNodePolicy
metadata:
  name: nics
spec:
  deviceSets:
  - name: nics
    select:
    - class: "0200"
"""


@contextmanager
def running(plane: ControlPlane, folder: Path, node: str, port: int) -> Iterator[subprocess.Popen[str]]:
    host = folder / "host"
    machine("sriov-nic", host)
    (host / "proc" / "sys" / "kernel" / "random").mkdir(parents=True)
    (host / "proc" / "sys" / "kernel" / "random" / "boot_id").write_text("6b0d8f0a\n")
    policy = folder / "policy.yaml"
    policy.write_text(POLICY)
    arguments = [
        "node-driver", "--node", node, "--node-policy", str(policy), "--kubelet-root", str(folder / "k"),
        "--cdi-dir", str(folder / "cdi"), "--host-root", str(host), "--kubeconfig", str(plane.kubeconfig),
        "--plain-port", str(port), "--taint", "obstructed=None",
    ]  # fmt: skip
    command = [sys.executable, "-c", "from virt_dra.cli.main import cli; cli()", *arguments]
    environment = {**os.environ, "POD_UID": "pod-1"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def published(plane: ControlPlane, node: str) -> dict[str, list[str]]:
    """The names of devices with the keys of their taints."""
    listed = plane.request("GET", f"{SLICES}?fieldSelector=spec.nodeName%3D{node}")["items"]
    return {
        device["name"]: [taint["key"] for taint in device.get("taints", [])]
        for item in listed
        for device in item["spec"].get("devices", [])
    }


@pytest.mark.control_plane
@pytest.mark.slow(seconds=15)
def test_it_publishes_serves_and_taints_before_it_ends(
    control_plane: ControlPlane, unused_tcp_port: int, request: pytest.FixtureRequest
) -> None:
    # A socket's path has 107 bytes at most, which pytest's folders take alone.
    folder = tempfile.TemporaryDirectory(prefix="driver-")
    request.addfinalizer(folder.cleanup)
    tmp_path = Path(folder.name)
    node = "node-of-the-driver"
    control_plane.request("POST", "/api/v1/nodes", {"metadata": {"name": node}})
    try:
        with running(control_plane, tmp_path, node, unused_tcp_port) as process:
            end = time.monotonic() + 60
            while not (devices := published(control_plane, node)) and time.monotonic() < end:
                assert process.poll() is None, process.stderr.read() if process.stderr else ""
                time.sleep(0.05)
            assert devices == {f"pci-0000-41-00-{function}": [] for function in range(1, 6)} | devices
            sockets = {path.name for path in (tmp_path / "k").rglob("*.sock")}
            assert sockets == {"dra-pod-1.sock", "passthrough.virt-dra.io-pod-1-reg.sock"}
            with urlopen(f"http://127.0.0.1:{unused_tcp_port}/metrics") as answer:
                assert b"virt_dra_driver_slice_writes_total" in answer.read()
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        assert {tuple(keys) for keys in published(control_plane, node).values()} == {
            ("passthrough.virt-dra.io/driver-away",)
        }
        assert not list((tmp_path / "k").rglob("*.sock"))
    finally:
        control_plane.request("DELETE", f"{SLICES}?fieldSelector=spec.nodeName%3D{node}")
        control_plane.request("DELETE", f"/api/v1/nodes/{node}")


@pytest.mark.control_plane
@pytest.mark.slow(seconds=15)
def test_a_second_driver_of_the_same_pod_ends_with_a_sentence(
    control_plane: ControlPlane, unused_tcp_port: int, request: pytest.FixtureRequest
) -> None:
    folder = tempfile.TemporaryDirectory(prefix="driver-")
    request.addfinalizer(folder.cleanup)
    first, second = Path(folder.name, "1"), Path(folder.name, "2")
    node = "node-of-two-drivers"
    control_plane.request("POST", "/api/v1/nodes", {"metadata": {"name": node}})
    try:
        with running(control_plane, first, node, unused_tcp_port):
            socket = first / "k" / "plugins" / "passthrough.virt-dra.io" / "dra-pod-1.sock"
            end = time.monotonic() + 60
            while not socket.exists() and time.monotonic() < end:
                time.sleep(0.05)
            second.mkdir()
            (second / "k").symlink_to(first / "k")
            with running(control_plane, second, node, unused_tcp_port) as process:
                assert process.wait(60) == 1
                assert process.stderr is not None
                (said,) = (line for line in process.stderr.read().splitlines() if not line.startswith("{"))
    finally:
        control_plane.request("DELETE", f"{SLICES}?fieldSelector=spec.nodeName%3D{node}")
        control_plane.request("DELETE", f"/api/v1/nodes/{node}")
    served = second / "k" / "plugins" / "passthrough.virt-dra.io" / "dra-pod-1.sock"
    assert said == (f"Error: another process serves {served}: two instances of a driver on a node need a pod UID each")


def test_what_takes_memory_is_not_imported_where_the_cluster_has_the_policies() -> None:
    """YAML takes 5 MiB, KubeVirt's objects 2, the kubernetes package 10, aiohttp 8, prometheus_client 2 with what
    reads mail."""
    modules = "virt_dra.cli.main, virt_dra.cli.node_driver.command, virt_dra.cli.node_driver.running"
    heavy = (
        "{'kubernetes', 'yaml', 'yaml_rs', 'pyroute2', 'virt_dra.api.kubevirt_v1', 'aiohttp', 'prometheus_client', "
        "'urllib.request', 'http.client'}"
    )
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}; print({heavy} & {{*sys.modules}})"],
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    assert ran.stdout == "set()\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing option '--node'"),
        (("--node", "n", "--taint", "gone=Evict"), "'gone=Evict': 'Evict' is none of NoSchedule, NoExecute, None"),
        (("--node", "n", "--taint", "lost=None"), "'lost=None': 'lost' is none of gone, link-down"),
        (("--node", "../n"), "Invalid value for '--node': '../n': a lowercase RFC 1123 subdomain"),
        (("--node", "n", "--driver-name", "../d"), "Invalid value for '--driver-name': '../d': "),
        (("--node", "n", "--driver-name", "d" * 64), "must be no more than 63 characters"),
    ],
)
def test_bad_usage_is_refused(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(cli, ["node-driver", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (POLICY.replace("0200", "0x0200"), "spec.deviceSets[0].select[0].class"),
        ("{", "policy.yaml"),
        ("apiVersion: v1\nkind: Node\nmetadata: {name: worker}\n", "Node worker is no VirtDraNodePolicy"),
    ],
)
def test_a_file_of_policies_that_cannot_be_used_is_refused_with_the_fault(
    text: str, fault: str, tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"policy\.yaml") as error:
        policies_in(file)
    assert fault in str(error.value)


async def test_the_clusters_policies_are_followed_once_they_and_the_node_are_known() -> None:
    cluster = embedded_cluster()
    policies = ClusterPolicies(cluster, "n", labels_pause=0.02)
    assert policies.published(Hardware()) is None
    task = asyncio.create_task(policies.run())
    await asyncio.sleep(0.1)
    assert policies.published(Hardware()) is None  # without its Node nobody knows its labels
    await cluster.create(Node(metadata=ObjectMeta(name="n")))
    async with asyncio.timeout(60):
        while policies.published(Hardware()) is None:
            await policies.changed()
    raw = NodePolicySpec.from_wire({"deviceSets": [{"name": "all", "select": [{"vendor": "8086"}]}]})
    await cluster.create(VirtDraNodePolicy(metadata=ObjectMeta(name="p"), spec=raw))
    async with asyncio.timeout(60):
        await policies.changed()
    published = policies.published(Hardware())
    assert published is not None
    assert [excluded.subject for excluded in published.excluded] == ["p/all"]
    task.cancel()


def test_policies_decide_anew_when_the_hardware_is_another(tmp_path: Path) -> None:
    machine("sriov-nic", tmp_path)
    roots = HardwareRoots(str(tmp_path / "sys"), str(tmp_path / "proc"))
    hardware, again = read_hardware(roots), read_hardware(roots)
    (tmp_path / "policy.yaml").write_text(POLICY)
    policies = FilePolicies(policies_in(tmp_path / "policy.yaml"))

    published = policies.published(hardware)
    assert published is not None
    assert published.devices
    assert policies.published(again) is published
    fewer = policies.published(replace(hardware, functions={}))
    assert fewer is not None
    assert fewer.devices == ()
    assert policies.published(again) == published
