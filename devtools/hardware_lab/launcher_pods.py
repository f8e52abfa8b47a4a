"""VMs on a lab's node: pods as the operator makes them without KubeVirt, in which our launcher starts libvirt and a
guest."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final

from devtools.hardware_lab import launcher_runtime, probe
from devtools.hardware_lab.machine import LabError
from devtools.hardware_lab.node import LabNode
from devtools.hardware_lab.pods import REQUEST, delete_pod, eventually
from devtools.real_node.configuration import IMAGE
from devtools.real_node.here import PODS
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.kubevirt_versions import HOST_DEVICES_WITH_DRA, NEWEST, Gates
from virt_dra.controllers.pods.launcher_pods import COMPUTE
from virt_dra.controllers.standalone.pod import StandaloneOptions, standalone_pod

DISK: Final = "system"
"""Name of each VM's disk."""
_DISK_INSIDE: Final = f"/var/run/kubevirt-private/vmi-disks/{DISK}"
_DISKS: Final = "/var/lib/lab/disks"
_GATES: Final = Gates.for_version(NEWEST, {HOST_DEVICES_WITH_DRA: True})
_OPTIONS: Final = StandaloneOptions(IMAGE, ("--uri=qemu:///session", "--daemon=libvirtd"))
_numbers = itertools.count(1)


def run_guest(node: LabNode, *claims: str) -> tuple[str, ...]:
    """Runs a VM with the devices of these claims until its guest, the probe, powers off; what the probe said. Other
    pods may have the same claims. Raises :class:`~devtools.hardware_lab.machine.LabError`."""
    name = f"vm{next(_numbers)}"
    return run_vmi(node, {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
            "domain": {
                "memory": {"guest": "64Mi"},
                "devices": {
                    "disks": [{"name": DISK, "disk": {"bus": "virtio"}}],
                    "hostDevices": [{"name": claim, "claimName": claim, "requestName": REQUEST} for claim in claims],
                },
            },
        },
    })  # fmt: skip


def run_vmi(node: LabNode, vmi: Mapping[str, Any]) -> tuple[str, ...]:
    """The same of a VMI with a name, a UID and a disk :data:`DISK`, on which the probe is."""
    name = vmi["metadata"]["name"]
    image, disk = node.machine.folder / f"{name}.img", f"{_DISKS}/{name}"
    probe.write_disk(image)
    node.machine.check("sh", "-c", f"mkdir -p {disk} && cp {image} {disk}/disk.img && chown -R 107:107 {disk}")
    pod = launcher_pod(vmi, disk)
    pod_name = pod["metadata"]["name"]
    node.plane.request("POST", PODS, pod)
    status: dict[str, Any] = {}

    def has_ended() -> bool:
        status.update(node.plane.request("GET", f"{PODS}/{pod_name}")["status"])
        return status["phase"] in {"Succeeded", "Failed"}

    eventually(has_ended, node)
    if status["phase"] == "Failed":
        raise LabError(f"the launcher's pod failed: {status}\n{node.container_log(pod_name, COMPUTE)}")
    delete_pod(node, pod_name)
    return probe.said(node.machine, f"{disk}/disk.img")


def launcher_pod(vmi: Mapping[str, Any], disk: str) -> dict[str, Any]:
    """As the operator renders it, but with fewer probes, and for what the lab lacks: a VMI that owns it, a storage
    driver, a pod network, and an image (:mod:`.launcher_runtime`)."""
    rendered = standalone_pod(VirtualMachineInstance.from_wire(vmi), _GATES, _OPTIONS)
    if not isinstance(rendered, Pod):
        raise LabError(rendered.message)
    pod: dict[str, Any] = rendered.to_wire()
    del pod["metadata"]["ownerReferences"]
    pod["spec"] |= {"hostNetwork": True, "runtimeClassName": launcher_runtime.NAME}
    pod["spec"]["volumes"] = [volume for volume in pod["spec"]["volumes"] if volume["name"] != DISK]
    pod["spec"]["volumes"].append({"name": DISK, "hostPath": {"path": disk}})
    (container,) = pod["spec"]["containers"]
    # A program that is started in a container costs seconds inside; a kubelet doesn't wait for the period at first.
    container["readinessProbe"] |= {"periodSeconds": 60, "initialDelaySeconds": 600}
    container["env"].append({"name": "PATH", "value": launcher_runtime.PATH})
    container["volumeMounts"].append({"name": DISK, "mountPath": _DISK_INSIDE})
    return pod
