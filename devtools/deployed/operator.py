"""What the operator's tests put on a real API server: the kinds that it needs, and VMs whose pods have a node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import yaml

from devtools.cluster.control_plane import ControlPlane, RequestError
from devtools.cluster.processes import Component, operator
from devtools.deployed.webhook import kubevirt_kinds

Json = dict[str, Any]
DRIVER = "gpu.example.com"
VMI_KIND, VMID_KIND = "VirtualMachineInstance", "VirtualMachineInstanceDevices"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CRDS = Path(__file__).parents[2] / "manifests" / "crds"

_GROUPS = {
    "pods": "/api/v1",
    "events": "/api/v1",
    "resourceclaims": "/apis/resource.k8s.io/v1",
    "virtualmachineinstancedevices": "/apis/virt-dra.io/v1alpha1",
}


def devices_kind(plane: ControlPlane) -> AbstractContextManager[None]:
    """VirtualMachineInstanceDevices are served while it lasts."""
    return _served(plane, _CRDS / "beside-kubevirt" / "virtualmachineinstancedevices.yaml")


def policies_kind(plane: ControlPlane) -> AbstractContextManager[None]:
    """VirtDraNodePolicies are served while it lasts."""
    return _served(plane, _CRDS / "node-driver" / "virtdranodepolicies.yaml")


def profiles_kind(plane: ControlPlane) -> AbstractContextManager[None]:
    """DeviceProfiles are served while it lasts."""
    return _served(plane, _CRDS / "profiles" / "deviceprofiles.yaml")


def keep_policies_kind(plane: ControlPlane) -> AbstractContextManager[None]:
    """KeepPolicies are served while it lasts."""
    return _served(plane, _CRDS / "keeper" / "keeppolicies.yaml")


@contextmanager
def _served(plane: ControlPlane, crd: Path) -> Iterator[None]:
    definition = yaml.safe_load(crd.read_text(encoding="utf-8"))
    name = definition["metadata"]["name"]
    plane.request("POST", _DEFINITIONS, definition)
    try:
        plane.wait_until_established(name)
        yield
    finally:
        plane.request("DELETE", f"{_DEFINITIONS}/{name}")
        plane.wait_until_gone(f"{_DEFINITIONS}/{name}")


@contextmanager
def kinds(plane: ControlPlane) -> Iterator[None]:
    """All that the operator follows beside KubeVirt."""
    with kubevirt_kinds(plane), devices_kind(plane):
        yield


def replica(plane: ControlPlane, namespace: str, identity: str, *options: str) -> Component:
    """An operator of one namespace, with its Lease in it, which others take over after three seconds."""
    return operator(
        plane,
        None,
        "--namespace",
        namespace,
        "--own-namespace",
        namespace,
        "--identity",
        identity,
        "--lease-seconds",
        "3",
        *options,
    )


class Vms:
    """VMs of a namespace: a VMI with one GPU, its launcher pod, and the claim, which :meth:`allocate` allocates."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane, self._namespace = plane, namespace
        self._pods: dict[str, Json] = {}

    def publish(self, address: str = "0000:41:00.0", generation: int = 1) -> None:
        """The slice of the one pool, named like the namespace, with the one device; the present one is replaced. With
        the first one comes its node: the pod garbage collector deletes pods whose node it has missed for 40 s."""
        attributes = {"resource.kubernetes.io/pciBusID": {"string": address}}
        pool = {"name": self._namespace, "generation": generation, "resourceSliceCount": 1}
        spec = {
            "driver": DRIVER,
            "nodeName": "node-1",
            "pool": pool,
            "devices": [{"name": "gpu-0", "attributes": attributes}],
        }
        path = "/apis/resource.k8s.io/v1/resourceslices"
        if generation > 1:
            self._plane.merge(f"{path}/{self._namespace}", {"spec": spec})
        else:
            self._add_node()
            self._plane.request("POST", path, {"metadata": {"name": self._namespace}, "spec": spec})

    def _add_node(self) -> None:
        """A node as a kubelet and KubeVirt's handler report it: ready, with room for VMs."""
        self._plane.request(
            "POST", "/api/v1/nodes", {"metadata": {"name": "node-1", "labels": {"kubevirt.io/schedulable": "true"}}}
        )
        room = {
            "cpu": "64",
            "memory": "256Gi",
            "pods": "110",
            "devices.kubevirt.io/kvm": "1k",
            "devices.kubevirt.io/tun": "1k",
        }
        status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
        self._plane.merge("/api/v1/nodes/node-1/status", {"status": status})
        self._plane.merge("/api/v1/nodes/node-1", {"spec": {"taints": None}})  # not-ready, of its creation

    def withdraw(self) -> None:
        self._plane.request("DELETE", "/api/v1/nodes/node-1")
        self._plane.request("DELETE", f"/apis/resource.k8s.io/v1/resourceslices/{self._namespace}")

    def create(self, name: str, *, node: str | None = "node-1", selector: str = "") -> None:
        """``node`` None: the pod waits for one. ``selector``: of the claim."""
        entry = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
        gpus = [{"name": "gpu1", "claimName": "gpu", "requestName": "gpu"}]
        kind = {"apiVersion": "kubevirt.io/v1", "kind": VMI_KIND}
        spec = {"resourceClaims": [entry], "domain": {"devices": {"gpus": gpus}}}
        body = {**kind, "metadata": {"name": name}, "spec": spec, "status": {"phase": "Scheduling"}}
        vmi = self._plane.request("POST", self.path("virtualmachineinstances"), body)
        uid = vmi["metadata"]["uid"]
        owner = {**kind, "name": name, "uid": uid, "controller": True}
        labels = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": uid}
        container = {
            "name": "compute",
            "image": "launcher",
            "resources": {"claims": [{"name": "gpu", "request": "gpu"}]},
        }
        pod_spec = {"containers": [container], "resourceClaims": [entry], **({"nodeName": node} if node else {})}
        metadata = {"name": f"virt-launcher-{name}", "labels": labels, "ownerReferences": [owner]}
        pod = self._pods[name] = self._plane.request(
            "POST", self.path("pods"), {"metadata": metadata, "spec": pod_spec}
        )
        pod_owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": f"virt-launcher-{name}",
            "uid": pod["metadata"]["uid"],
            "controller": True,
        }
        selectors = [{"cel": {"expression": selector}}] if selector else []
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "selectors": selectors}}
        claim = {
            "metadata": {"name": f"{name}-gpu", "ownerReferences": [pod_owner]},
            "spec": {"devices": {"requests": [request]}},
        }
        self._plane.request("POST", self.path("resourceclaims"), claim)
        statuses = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
        self._plane.merge(f"{self.path('pods')}/virt-launcher-{name}/status", {"status": statuses})

    def accepts(self, selector: str) -> bool:
        """Whether the API server stores a claim with it, by its own estimate of the cost."""
        request = {
            "name": "gpu",
            "exactly": {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": selector}}]},
        }
        claim = {"metadata": {"name": "tried"}, "spec": {"devices": {"requests": [request]}}}
        try:
            self._plane.request("POST", f"{self.path('resourceclaims')}?dryRun=All", claim)
        except RequestError as error:
            if error.status != 422:
                raise
            return False
        return True

    def allocate(self, name: str) -> None:
        pod = self._pods[name]["metadata"]
        result = {"request": "gpu", "driver": DRIVER, "pool": self._namespace, "device": "gpu-0"}
        status = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": pod["name"], "uid": pod["uid"]}],
        }
        self._plane.merge(f"{self.path('resourceclaims')}/{name}-gpu/status", {"status": status})

    def path(self, plural: str) -> str:
        group = _GROUPS.get(plural, "/apis/kubevirt.io/v1")
        return f"{group}/namespaces/{self._namespace}/{plural}"

    def devices(self, name: str) -> Json | None:
        """The VirtualMachineInstanceDevices, if it is there."""
        try:
            return self._plane.request("GET", f"{self.path('virtualmachineinstancedevices')}/{name}")
        except RequestError as error:
            if error.status != 404:
                raise
            return None

    def address(self, name: str) -> str | None:
        """As it is published."""
        devices = self.devices(name)
        return devices["status"]["devices"][0].get("pciAddress") if devices else None

    def events(self, name: str) -> list[tuple[str, int]]:
        """Reasons and counts of a VMI's Events."""
        reported = self._plane.request("GET", self.path("events"))["items"]
        return sorted(
            (event["reason"], event.get("count", 1))
            for event in reported
            if event["involvedObject"].get("name") == name
        )
