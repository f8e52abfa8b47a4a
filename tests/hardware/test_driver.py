"""The node driver on a real kernel with an IOMMU, beside a real kubelet: a pod gets its device, and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools.cluster.control_plane import RequestError
from devtools.hardware_lab.machine import LabMachine
from devtools.hardware_lab.node import DRIVER_LOG, FOLDERS, LabNode
from devtools.real_node.configuration import IMAGE
from devtools.real_node.here import EVENTS, PODS

pytestmark = [pytest.mark.hardware, pytest.mark.control_plane, pytest.mark.node]

ROOT = Path(__file__).parents[2]
CLASSES = ROOT / "manifests" / "driver" / "device_classes.yaml"
RESOURCES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"
POLICY = """
apiVersion: virt-dra.io/v1alpha1
kind: VirtDraNodePolicy
metadata: {name: lab}
spec:
  deviceSets:
  - name: edu
    sanitize: none # it has no way to be reset
    select: [{vendor: "1234", device: "11e8"}]
  - name: nvme
    select: [{vendor: "1b36", device: "0010"}]
"""
DRIVER = "passthrough.virt-dra.io"
WAIT_SECONDS = 300.0


@pytest.fixture(scope="module")
def driver(node: LabNode) -> LabNode:
    """The node with its driver, which publishes three devices."""
    for device_class in yaml.safe_load_all(CLASSES.read_text(encoding="utf-8")):
        node.plane.request("POST", f"{RESOURCES}/deviceclasses", device_class)
    node.machine.check("modprobe", "vfio-pci")
    node.start_driver(POLICY)
    _eventually(lambda: len(_devices(node)) == 3, node)
    return node


def test_devices_are_published_with_their_place_in_the_machine(driver: LabNode) -> None:
    (nvme,) = [device for device in _devices(driver) if _attribute(device, f"{DRIVER}/vendorID") == {"string": "1b36"}]
    assert _attribute(nvme, "resource.kubernetes.io/pcieRoot") == {"string": "pci0000:40"}
    assert _attribute(nvme, "resource.kubernetes.io/numaNode") == {"int": 1}


def test_a_pod_gets_its_claimed_device_and_no_other_one(driver: LabNode, machine: LabMachine) -> None:
    before = _bindings(machine)
    _create_claim(driver, "edu", "1234")
    container = _running(driver, "user", "edu")
    claim = driver.plane.request("GET", f"{CLAIMS}/edu")
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    address = _address(driver, result["device"])
    group = machine.check("sh", "-c", f"basename $(readlink /sys/bus/pci/devices/{address}/iommu_group)").strip()
    assert _bindings(machine) == {**before, address: "vfio-pci"}
    assert set(driver.exec(container, "ls", "/dev/vfio").out.split()) == {"vfio", group}
    folder = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/edu/device"
    metadata = driver.exec(container, "cat", f"{folder}/{DRIVER}-metadata.json").out
    newest, _ = json.JSONDecoder().raw_decode(metadata)
    (device,) = newest["requests"][0]["devices"]
    assert device["attributes"]["resource.kubernetes.io/pciBusID"] == {"string": address}

    _delete_pod(driver, "user")
    assert _bindings(machine) == before
    assert machine.check("ls", str(FOLDERS.cdi)) == ""
    driver.plane.request("DELETE", f"{CLAIMS}/edu")


def test_a_claimed_device_comes_back_after_a_reboot(driver: LabNode, machine: LabMachine) -> None:
    before = _bindings(machine)
    _create_claim(driver, "edu", "1234")
    _running(driver, "user", "edu")
    claimed = {address: bound for address, bound in _bindings(machine).items() if before[address] != bound}
    assert set(claimed.values()) == {"vfio-pci"}
    machine.reboot()
    assert not [address for address, bound in _bindings(machine).items() if bound == "vfio-pci"]
    machine.check("modprobe", "vfio-pci")
    driver.start()
    driver.start_driver(POLICY)
    container = _running(driver, "user", "edu", create=False)
    assert {address: bound for address, bound in _bindings(machine).items() if address in claimed} == claimed
    assert "vfio" in driver.exec(container, "ls", "/dev/vfio").out.split()
    _delete_pod(driver, "user")
    assert _bindings(machine) == before
    driver.plane.request("DELETE", f"{CLAIMS}/edu")


def _devices(node: LabNode) -> list[dict[str, Any]]:
    slices = node.plane.request("GET", f"{RESOURCES}/resourceslices?fieldSelector=spec.driver={DRIVER}")["items"]
    return [device for entry in slices for device in entry["spec"].get("devices", ())]


def _attribute(device: dict[str, Any], name: str) -> Any:
    attributes = device["attributes"]
    return attributes.get(name) or attributes.get(name.removeprefix(f"{DRIVER}/"))


def _address(node: LabNode, name: str) -> str:
    (device,) = [device for device in _devices(node) if device["name"] == name]
    return str(_attribute(device, "resource.kubernetes.io/pciBusID")["string"])


def _bindings(machine: LabMachine) -> dict[str, str]:
    """Each PCI function and its driver, "" for none."""
    script = """
        for function in /sys/bus/pci/devices/*; do
          driver=$(readlink "$function/driver")
          echo "$(basename "$function") ${driver##*/}"
        done"""
    lines = machine.check("sh", "-c", script).splitlines()
    return {address: bound for address, _, bound in (line.partition(" ") for line in lines)}


def _create_claim(node: LabNode, name: str, vendor: str) -> None:
    selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].vendorID == "{vendor}"'}}
    request = {"name": "device", "exactly": {"deviceClassName": "vfio.virt-dra.io", "selectors": [selector]}}
    claim = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [request]}},
    }  # fmt: skip
    node.plane.request("POST", CLAIMS, claim)


def _running(node: LabNode, name: str, claim: str, *, create: bool = True) -> str:
    """The id of the container of a pod that runs with the claim."""
    if create:
        container = {
            "name": "main", "image": IMAGE, "imagePullPolicy": "Never", "resources": {"claims": [{"name": "device"}]},
        }  # fmt: skip
        spec = {
            "hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container],
            "resourceClaims": [{"name": "device", "resourceClaimName": claim}],
        }  # fmt: skip
        node.plane.request("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    ids: list[str] = []

    def runs() -> bool:
        status = node.plane.request("GET", f"{PODS}/{name}")["status"]
        for container in status.get("containerStatuses", ()):
            if "running" in container["state"]:
                identity = container["containerID"].partition("//")[2]
                if not node.exec(identity, "true").status:
                    ids.append(identity)
                    return True
        return False

    _eventually(runs, node)
    return ids[0]


def _delete_pod(node: LabNode, name: str) -> None:
    node.plane.request("DELETE", f"{PODS}/{name}")

    def gone() -> bool:
        try:
            node.plane.request("GET", f"{PODS}/{name}")
        except RequestError as error:
            return error.status == 404
        return False

    _eventually(gone, node)


def _eventually(condition: Callable[[], bool], node: LabNode) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            events = node.plane.request("GET", EVENTS)["items"]
            texts = "\n".join(f"{event['reason']}: {event['message']}" for event in events)
            pytest.fail(f"{texts}\n{node.machine.run('tail', '-n', '40', DRIVER_LOG).out}\n{node.logs()}")
        time.sleep(0.5)
