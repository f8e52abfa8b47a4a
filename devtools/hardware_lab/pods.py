"""Pods that claim devices of a lab's node, and what the driver and the kernel then say of these devices."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import pytest

from devtools.cluster.control_plane import RequestError
from devtools.hardware_lab.machine import LabMachine
from devtools.hardware_lab.node import DRIVER_LOG, LabNode
from devtools.real_node.configuration import IMAGE
from devtools.real_node.here import EVENTS, PODS

DRIVER: Final = "passthrough.virt-dra.io"
RESOURCES: Final = "/apis/resource.k8s.io/v1"
CLAIMS: Final = f"{RESOURCES}/namespaces/default/resourceclaims"
METADATA: Final = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims"
REQUEST: Final = "device"
"""The only one of each claim."""
WAIT_SECONDS: Final = 600.0


def published_devices(node: LabNode) -> dict[str, dict[str, Any]]:
    """The devices in the driver's slices, by name."""
    slices = node.plane.request("GET", f"{RESOURCES}/resourceslices?fieldSelector=spec.driver={DRIVER}")["items"]
    return {device["name"]: device for entry in slices for device in entry["spec"].get("devices", ())}


def device_name(address: str) -> str:
    """Under which a whole function is published."""
    return f"pci-{address.replace(':', '-').replace('.', '-')}"


def attribute(device: Mapping[str, Any], name: str) -> Any:
    attributes = device["attributes"]
    return attributes.get(name) or attributes.get(name.removeprefix(f"{DRIVER}/"))


def taint_reasons(node: LabNode, name: str) -> set[str]:
    """Why a device is tainted."""
    taints = published_devices(node).get(name, {}).get("taints", ())
    return {taint["key"].removeprefix(f"{DRIVER}/") for taint in taints}


def events_of(node: LabNode, pod: str) -> set[str]:
    """The reasons of a pod's Events."""
    events = node.plane.request("GET", EVENTS)["items"]
    return {event["reason"] for event in events if event["involvedObject"]["name"] == pod}


def bindings(machine: LabMachine) -> dict[str, str]:
    """Each PCI function and its driver, "" for none."""
    functions = "/sys/bus/pci/devices"  # in two programs: two for each function cost ten seconds of a processor
    links = f"find {functions}/*/driver -maxdepth 0 -printf 'driver %h %l\\n'"
    lines = machine.check("sh", "-c", f"find {functions}/* -maxdepth 0; {links}").splitlines()
    bound = {function: driver for _, function, driver in (line.split() for line in lines if line.startswith("driver "))}
    return {
        PurePosixPath(function).name: PurePosixPath(bound.get(function, "")).name
        for function in lines
        if not function.startswith("driver ")
    }


def iommu_group(machine: LabMachine, folder: str) -> str:
    """Of a function or mdev, by its folder below ``/sys/bus``."""
    return machine.check("sh", "-c", f"basename $(readlink /sys/bus/{folder}/iommu_group)").strip()


def virtual_function_addresses(machine: LabMachine, address: str) -> list[str]:
    """Of a physical function, by index."""
    return machine.check("sh", "-c", f"basename -a $(readlink /sys/bus/pci/devices/{address}/virtfn*)").split()


def create_claim(
    node: LabNode, name: str, expression: str, kind: str = "vfio", parameters: Mapping[str, Any] | None = None
) -> None:
    """``expression``: of CEL, about ``device``. ``parameters``: of our driver, for the device."""
    selectors = [{"cel": {"expression": expression}}]
    request = {"name": REQUEST, "exactly": {"deviceClassName": f"{kind}.virt-dra.io", "selectors": selectors}}
    devices: dict[str, Any] = {"requests": [request]}
    if parameters is not None:
        devices["config"] = [{"opaque": {"driver": DRIVER, "parameters": parameters}}]
    claim = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": devices},
    }  # fmt: skip
    node.plane.request("POST", CLAIMS, claim)


def at_address(address: str) -> str:
    """The expression for the device with this PCI address."""
    return f'device.attributes["resource.kubernetes.io"].pciBusID == "{address}"'


def allocated_device(node: LabNode, claim: str) -> str:
    (result,) = node.plane.request("GET", f"{CLAIMS}/{claim}")["status"]["allocation"]["devices"]["results"]
    return str(result["device"])


def create_pod(node: LabNode, name: str, *claims: str) -> None:
    container = {
        "name": "main", "image": IMAGE, "imagePullPolicy": "Never",
        "resources": {"claims": [{"name": claim} for claim in claims]},
    }  # fmt: skip
    spec = {
        "hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container],
        "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
    }  # fmt: skip
    node.plane.request("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def running_container(node: LabNode, pod: str) -> str:
    """The id of the pod's container, once it runs."""
    ids: list[str] = []

    def runs() -> bool:
        status = node.plane.request("GET", f"{PODS}/{pod}")["status"]
        for container in status.get("containerStatuses", ()):
            if "running" in container["state"]:
                identity = container["containerID"].partition("//")[2]
                if node.container_root(identity):
                    ids.append(identity)
                    return True
        return False

    eventually(runs, node)
    return ids[0]


def delete_pod(node: LabNode, name: str, *claims: str) -> None:
    """Waits until the pod is gone, which is after its claims were unprepared; deletes these claims then."""
    node.plane.request("DELETE", f"{PODS}/{name}")

    def is_gone() -> bool:
        try:
            node.plane.request("GET", f"{PODS}/{name}")
        except RequestError as error:
            return error.status == 404
        return False

    eventually(is_gone, node)
    for claim in claims:
        node.plane.request("DELETE", f"{CLAIMS}/{claim}")


def eventually(condition: Callable[[], bool], node: LabNode) -> None:
    """Waits for it, while the machine runs; fails the test with what the node's programs said after 10 minutes."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            events = node.plane.request("GET", EVENTS)["items"]
            texts = "\n".join(f"{event['reason']}: {event['message']}" for event in events)
            pytest.fail(f"{texts}\n{node.machine.run('tail', '-n', '40', DRIVER_LOG).out}\n{node.logs()}")
        node.machine.check_running()
        time.sleep(0.5)
