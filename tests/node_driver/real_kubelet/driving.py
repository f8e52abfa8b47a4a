"""The node driver's process on a real node, and what its pods ask for. The kernel is a tree of files, in which the
functions that pods get are bound already."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devtools.real_node.here import PODS, Node
from tests.node_driver.machine_trees import described_machine

HOST_ROOT = "host"
"""Below the node's folder: where the driver under test looks for /sys, /proc and /dev."""
DRIVER = "passthrough.virt-dra.io"
RESOURCES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"
CLASSES = Path(__file__).parents[3] / "manifests" / "driver" / "device_classes.yaml"
VIRT_DRA = str(Path(sys.executable).with_name("virt-dra"))
USER = 107
"""As whom KubeVirt's launchers run that aren't root's."""
FUNCTION = {"vendor": "1234", "device": "11e8", "class": "00ff00", "driver": "vfio-pci"}
MOUNTS = "22 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n"
MACHINE = {
    "functions": {
        "0000:00:03.0": {**FUNCTION, "group": 41},
        "0000:00:04.0": {**FUNCTION, "group": 42},
        "0000:00:05.0": {
            "class": "010802",
            "driver": "nvme",
            "group": 43,
            "block": {"nvme0n1": ["nvme0n1p1"]},
        },
        "0000:00:06.0": {
            "class": "010802",
            "driver": "nvme",
            "group": 44,
            "block": {"nvme1n1": []},
            "files": {"block/nvme1n1/dev": "259:32"},
        },
        "0000:00:07.0": {"class": "010802", "driver": "nvme", "group": 45, "files": {"vendor": "not hexadecimal"}},
    },
    "proc": {
        "self/mountinfo": MOUNTS,
        "1/mountinfo": MOUNTS,
        "sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555\n",
    },
}
BOOT_DISK, DATA_DISK, MALFORMED = "0000:00:05.0", "0000:00:06.0", "0000:00:07.0"
KUBECONFIG = "driver.kubeconfig"
OURS = '{vendor: "1234"}'
POLICY = """
apiVersion: virt-dra.io/v1alpha1
kind: VirtDraNodePolicy
metadata: {name: test}
spec:
  deviceSets:
  - name: all
    sanitize: none
    select: [SELECTED]
"""


def lay_out(node: Node) -> None:
    """Files of the machine, and what the driver is given."""
    root = node.folder / HOST_ROOT
    described_machine(MACHINE, root)
    for name, minor in (("vfio", 3), ("41", 3), ("42", 5)):
        os.mknod(root / "dev" / "vfio" / name, stat.S_IFCHR | 0o600, os.makedev(1, minor))
    kubeconfig = node.plane.kubeconfig_of_user("driver", ("system:masters",)).read_bytes()
    (node.folder / KUBECONFIG).write_bytes(kubeconfig)


def start_driver(node: Node, name: str, *, selected: str = OURS, kubeconfig: str = KUBECONFIG) -> None:
    """``selected``: of the policy's one set."""
    (node.folder / "policy.yaml").write_text(POLICY.replace("SELECTED", selected))
    node.start(
        name, VIRT_DRA, "node-driver", "--node", node.name, "--node-policy", f"{node.folder}/policy.yaml",
        "--kubelet-root", str(node.folders.kubelet), "--cdi-dir", str(node.folders.cdi), "--host-root",
        f"{node.folder}/{HOST_ROOT}", "--kubeconfig", f"{node.folder}/{kubeconfig}", "--plain-port", "0",
    )  # fmt: skip


def slices(node: Node) -> list[dict[str, Any]]:
    selected = f"{RESOURCES}/resourceslices?fieldSelector=spec.driver={DRIVER}"
    slices: list[dict[str, Any]] = node.plane.request("GET", selected)["items"]
    return slices


def devices(node: Node) -> list[dict[str, Any]]:
    return [device for entry in slices(node) for device in entry["spec"].get("devices", ())]


def claimed(node: Node, claim: str) -> tuple[str, str]:
    """The address of the device that a claim was given, and its IOMMU group."""
    results = node.plane.request("GET", f"{CLAIMS}/{claim}")["status"]["allocation"]["devices"]["results"]
    (device,) = [device for device in devices(node) if device["name"] == results[0]["device"]]
    attributes = device["attributes"]
    return attributes["resource.kubernetes.io/pciBusID"]["string"], str(attributes["iommuGroup"]["int"])


def wait_for_event(node: Node, pod: str, claim: str, said: str) -> None:
    """Until an event of the pod says why the driver doesn't prepare the claim."""
    failed = f"NodePrepareResources failed for ResourceClaim {claim}: "
    eventually(lambda: any(failed in event and said in event for event in node.events(pod)), node, retried=pod)


def runs(node: Node, pod: str) -> None:
    """Until a pod runs whose claims the kubelet may have failed to prepare before."""
    path = f"{PODS}/{pod}"
    eventually(lambda: bool(node.plane.request("GET", path)["status"]["phase"] == "Running"), node, retried=pod)


def held(node: Node) -> tuple[list[str], dict[str, Any]]:
    """What the driver has done on the node and not undone: its CDI files, and the claims of its checkpoint."""
    checkpoint = node.folders.kubelet / "plugins" / DRIVER / "checkpoint.json"
    claims = json.loads(checkpoint.read_text().splitlines()[1])["claims"] if checkpoint.exists() else {}
    return sorted(path.name for path in node.folders.cdi.iterdir()), claims


NOTHING: tuple[list[str], dict[str, Any]] = ([], {})


def create_claim(node: Node, name: str, parameters: dict[str, Any] | None = None, *, address: str = "") -> None:
    """``address``: of the function that is wanted; any without it."""
    bus_id = f"device.attributes['resource.kubernetes.io'].pciBusID == '{address}'"
    selectors = [{"cel": {"expression": bus_id}}] if address else []
    request = {"name": "device", "exactly": {"deviceClassName": "vfio.virt-dra.io", "selectors": selectors}}
    config = [{"opaque": {"driver": DRIVER, "parameters": parameters}}] if parameters is not None else []
    claim = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [request], "config": config}},
    }  # fmt: skip
    node.plane.request("POST", CLAIMS, claim)


def create_pod(node: Node, name: str, claim: str) -> None:
    node.create_pod(
        name, resources={"claims": [{"name": "device"}]},
        resourceClaims=[{"name": "device", "resourceClaimName": claim}],
        securityContext={"runAsUser": USER, "runAsGroup": USER},
    )  # fmt: skip


def eventually(condition: Callable[[], bool], node: Node, seconds: float = 60.0, *, retried: str = "") -> None:
    """``retried``: a pod that is changed meanwhile. Claims of a changed pod are prepared at once, those of others 10 to
    15 s after a failure."""
    deadline = time.monotonic() + seconds
    while not condition():
        if retried:
            annotations = {"changed": str(time.monotonic())}
            node.plane.merge(f"{PODS}/{retried}", {"metadata": {"annotations": annotations}})
        if time.monotonic() > deadline:
            logs = [path.read_text(errors="replace")[-4000:] for path in node.folder.glob("*.log")]
            pytest.fail("\n".join(logs))
        time.sleep(0.2)
