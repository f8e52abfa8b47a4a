"""The node driver's process beside a real kubelet, which runs pods with its devices. The kernel is a tree of files, in
which the functions are bound already; tests/hardware has a real one."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools.real_node.here import Node
from tests.node_driver.machine_trees import described_machine
from tests.node_driver.real_kubelet.conftest import HOST_ROOT

pytestmark = [pytest.mark.control_plane, pytest.mark.node]

DRIVER = "passthrough.virt-dra.io"
RESOURCES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"
CLASSES = Path(__file__).parents[3] / "manifests" / "driver" / "device_classes.yaml"
VIRT_DRA = str(Path(sys.executable).with_name("virt-dra"))
USER = 107
"""As whom KubeVirt's launchers run that aren't root's."""
FUNCTION = {"vendor": "1234", "device": "11e8", "class": "00ff00", "driver": "vfio-pci"}
MACHINE = {
    "functions": {
        "0000:00:03.0": {**FUNCTION, "group": 41},
        "0000:00:04.0": {**FUNCTION, "group": 42},
    },
    "proc": {
        "self/mountinfo": "22 1 0:21 / / rw - rootfs rootfs rw\n",
        "1/mountinfo": "22 1 0:21 / / rw - rootfs rootfs rw\n",
        "sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555\n",
    },
}
POLICY = """
apiVersion: virt-dra.io/v1alpha1
kind: VirtDraNodePolicy
metadata: {name: test}
spec:
  deviceSets:
  - name: all
    sanitize: none
    select: [{vendor: "1234"}]
"""


@pytest.fixture(scope="module")
def driver(node: Node) -> Iterator[Node]:
    """The node with a driver that publishes two devices."""
    root = node.folder / HOST_ROOT
    described_machine(MACHINE, root)
    for name, minor in (("vfio", 3), ("41", 3), ("42", 5)):
        os.mknod(root / "dev" / "vfio" / name, stat.S_IFCHR | 0o600, os.makedev(1, minor))
    (node.folder / "policy.yaml").write_text(POLICY)
    (node.folder / "driver.kubeconfig").write_bytes(
        node.plane.kubeconfig_of_user("driver", ("system:masters",)).read_bytes()
    )
    for device_class in yaml.safe_load_all(CLASSES.read_text(encoding="utf-8")):
        node.plane.request("POST", f"{RESOURCES}/deviceclasses", device_class)
    _start(node, "first")
    _eventually(lambda: len(_devices(node)) == 2, node)
    yield node
    for device_class in yaml.safe_load_all(CLASSES.read_text(encoding="utf-8")):
        node.plane.request("DELETE", f"{RESOURCES}/deviceclasses/{device_class['metadata']['name']}")


def test_a_pod_has_its_device_and_reads_of_it_until_it_is_deleted(driver: Node) -> None:
    """The device nodes are those of the pod's user, the node's stay as they were (D-55)."""
    _create_claim(driver, "one")
    _create_pod(driver, "user", "one")
    driver.wait_for_pod("user", "Running")
    address, group = _claimed(driver, "one")
    assert driver.exec("user", "ls", "/dev/vfio").split() == [group, "vfio"]
    owners = driver.exec("user", "busybox", "stat", "-c", "%u:%g", f"/dev/vfio/{group}", "/dev/vfio/vfio")
    assert owners.split() == [f"{USER}:{USER}"] * 2
    on_the_node = [(driver.folder / HOST_ROOT / "dev" / "vfio" / name).stat() for name in (group, "vfio")]
    assert [(status.st_uid, status.st_gid) for status in on_the_node] == [(0, 0)] * 2
    folder = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/one/device"
    newest, _ = json.JSONDecoder().raw_decode(driver.exec("user", "cat", f"{folder}/{DRIVER}-metadata.json"))
    (device,) = newest["requests"][0]["devices"]
    assert device["attributes"]["resource.kubernetes.io/pciBusID"] == {"string": address}
    assert len(list(driver.folders.cdi.iterdir())) == 2
    driver.delete_pod("user")
    _eventually(lambda: not list(driver.folders.cdi.iterdir()), driver)
    driver.plane.request("DELETE", f"{CLAIMS}/one")


def test_a_pod_of_a_driver_that_was_killed_is_released_by_the_one_that_follows(driver: Node) -> None:
    _create_claim(driver, "two")
    _create_pod(driver, "user-2", "two")
    driver.wait_for_pod("user-2", "Running")
    driver.stop("first", signal.SIGKILL)
    _start(driver, "second")
    _eventually(lambda: len(_devices(driver)) == 2, driver)
    driver.delete_pod("user-2")
    _eventually(lambda: not list(driver.folders.cdi.iterdir()), driver)
    driver.plane.request("DELETE", f"{CLAIMS}/two")
    driver.stop("second", signal.SIGTERM)
    assert {taint["key"] for device in _devices(driver) for taint in device["taints"]} == {f"{DRIVER}/driver-away"}
    _start(driver, "first")
    _eventually(lambda: not any(device.get("taints") for device in _devices(driver)), driver)


def test_slices_are_published_again_after_a_kubelet_wiped_them(driver: Node) -> None:
    """Which it does when it starts (D-19)."""
    before = {entry["metadata"]["uid"] for entry in _slices(driver)}
    driver.stop_kubelet()
    driver.start_kubelet()
    driver.wait_until_ready()
    _eventually(lambda: not before & {entry["metadata"]["uid"] for entry in _slices(driver)}, driver)
    _eventually(lambda: len(_devices(driver)) == 2, driver)


def test_a_misspelt_parameter_is_named_in_the_pods_event_and_nothing_is_half_done(driver: Node) -> None:
    parameters = {"apiVersion": "virt-dra.io/v1alpha1", "kind": "PassthroughConfig", "netwrok": {"vlan": 7}}
    _create_claim(driver, "misspelt", parameters)
    _create_pod(driver, "user-3", "misspelt")
    _wait_for_event(driver, "user-3", "misspelt", ".netwrok: unknown field; did you mean network?")
    assert list(driver.folders.cdi.iterdir()) == []
    driver.delete_pod("user-3")
    driver.plane.request("DELETE", f"{CLAIMS}/misspelt")


def test_a_damaged_checkpoint_is_said_in_the_pods_event_until_it_is_deleted(driver: Node) -> None:
    checkpoint = driver.folders.kubelet / "plugins" / DRIVER / "checkpoint.json"
    checkpoint.write_text('{"version": 1, "checksum": "0"}\n{}\n', encoding="utf-8")
    _create_claim(driver, "three")
    _create_pod(driver, "user-4", "three")
    said = f"the driver's checkpoint was damaged and is kept as {checkpoint}.bad; nothing is prepared or released on"
    _wait_for_event(driver, "user-4", "three", said)
    assert list(driver.folders.cdi.iterdir()) == []
    Path(f"{checkpoint}.bad").unlink()  # the administrator has looked
    driver.wait_for_pod("user-4", "Running", seconds=180.0)  # the kubelet tries again, later each time
    driver.delete_pod("user-4")
    _eventually(lambda: not list(driver.folders.cdi.iterdir()), driver)
    driver.plane.request("DELETE", f"{CLAIMS}/three")


def _start(node: Node, name: str) -> None:
    node.start(
        name, VIRT_DRA, "node-driver", "--node", node.name, "--node-policy", f"{node.folder}/policy.yaml",
        "--kubelet-root", str(node.folders.kubelet), "--cdi-dir", str(node.folders.cdi), "--host-root",
        f"{node.folder}/{HOST_ROOT}", "--kubeconfig", f"{node.folder}/driver.kubeconfig", "--plain-port", "0",
    )  # fmt: skip


def _slices(node: Node) -> list[dict[str, Any]]:
    selected = f"{RESOURCES}/resourceslices?fieldSelector=spec.driver={DRIVER}"
    slices: list[dict[str, Any]] = node.plane.request("GET", selected)["items"]
    return slices


def _devices(node: Node) -> list[dict[str, Any]]:
    return [device for entry in _slices(node) for device in entry["spec"].get("devices", ())]


def _claimed(node: Node, claim: str) -> tuple[str, str]:
    """The address of the device that a claim was given, and its IOMMU group."""
    results = node.plane.request("GET", f"{CLAIMS}/{claim}")["status"]["allocation"]["devices"]["results"]
    (device,) = [device for device in _devices(node) if device["name"] == results[0]["device"]]
    attributes = device["attributes"]
    return attributes["resource.kubernetes.io/pciBusID"]["string"], str(attributes["iommuGroup"]["int"])


def _wait_for_event(node: Node, pod: str, claim: str, said: str) -> None:
    """Until an event of the pod says why the driver doesn't prepare the claim."""
    failed = f"NodePrepareResources failed for ResourceClaim {claim}: "
    _eventually(lambda: any(failed in event and said in event for event in node.events(pod)), node)


def _create_claim(node: Node, name: str, parameters: dict[str, Any] | None = None) -> None:
    request = {"name": "device", "exactly": {"deviceClassName": "vfio.virt-dra.io"}}
    config = [{"opaque": {"driver": DRIVER, "parameters": parameters}}] if parameters is not None else []
    claim = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [request], "config": config}},
    }  # fmt: skip
    node.plane.request("POST", CLAIMS, claim)


def _create_pod(node: Node, name: str, claim: str) -> None:
    node.create_pod(
        name, resources={"claims": [{"name": "device"}]},
        resourceClaims=[{"name": "device", "resourceClaimName": claim}],
        securityContext={"runAsUser": USER, "runAsGroup": USER},
    )  # fmt: skip


def _eventually(condition: Callable[[], bool], node: Node, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            logs = [path.read_text(errors="replace")[-4000:] for path in node.folder.glob("*.log")]
            pytest.fail("\n".join(logs))
        time.sleep(0.2)
