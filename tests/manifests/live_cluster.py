"""A control plane of its own with one overlay, and operator and webhook as processes with the accounts that the
manifests give them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from devtools.cluster.control_plane import ControlPlane, RequestError
from devtools.cluster.mounted import MountedSecret
from devtools.cluster.ports import free_port
from devtools.deployed.minimal_crds import KUBEVIRT_CRDS
from devtools.deployed.overlay import images
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE, Overlay

Json = dict[str, Any]
PROGRAM = "from virt_dra.cli.main import main; main()"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RESOURCE = "/apis/resource.k8s.io/v1"
JSON_PATCH = "application/json-patch+json"
OPERATOR, WEBHOOK, CERTIFICATES = "virt-dra-operator", "virt-dra-webhook", "virt-dra-certificates"


class Cluster:
    """A control plane of its own with one overlay, and the components as processes with their accounts."""

    def __init__(self, plane: ControlPlane, overlay: Overlay, log: Path) -> None:
        self.plane, self.overlay, self.log = plane, overlay, log
        self.namespace = ""
        self.lived = 0
        """How much of the audit log is about what components do by themselves; then come tests that take rights away,
        and thieves."""
        self._mounted = contextlib.ExitStack()
        self._processes: list[subprocess.Popen[bytes]] = []

    def create(self, path: str, kind: str, name: str, api_version: str = "resource.k8s.io/v1", **rest: Any) -> Json:
        metadata = {"name": name, **rest.pop("metadata", {})}
        return self.plane.request("POST", path, {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest})

    def start(self, account: str, *arguments: str) -> None:
        kubeconfig = str(self.plane.kubeconfig_of_service_account("virt-dra", account))
        command = [sys.executable, "-c", PROGRAM, *arguments, "--kubeconfig", kubeconfig]
        output = (self.log.parent / f"{account}.log").open("ab")
        self._processes.append(subprocess.Popen(command, stdout=output, stderr=output))
        output.close()

    def mount(self, secret: str) -> Path:
        """A folder with the files of a Secret of ours, once it has them."""
        folder = self.log.parent / secret
        self._mounted.enter_context(MountedSecret(self.plane, "virt-dra", secret, folder))
        return folder

    def stop(self) -> None:
        self._mounted.close()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(30)
        self._processes.clear()

    def said(self) -> str:
        """What the components logged last, and how the pods and devices are."""
        logs = [path.read_text(errors="replace")[-1500:] for path in sorted(self.log.parent.glob("virt-dra-*.log"))]
        kinds = ("/api/v1/pods", "/apis/kubevirt.io/v1/virtualmachineinstances")
        found = [
            f"{item['metadata']['name']}: {json.dumps(item.get('status'))[:300]}"
            for kind in kinds
            for item in self.plane.request("GET", kind)["items"]
        ]
        return "\n".join((*logs, *found))


def until(holds: Callable[[], object], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            if holds():
                return
        except RequestError as error:
            if error.status not in (404, 429):
                raise
        if time.monotonic() > end:
            raise AssertionError(f"{what} does not come")
        time.sleep(0.1)


def install(cluster: Cluster) -> None:
    plane = cluster.plane
    if cluster.overlay == BESIDE_KUBEVIRT:
        for crd in KUBEVIRT_CRDS:
            plane.request("POST", CRDS, crd)
    kubeconfig = str(plane.kubeconfig)
    options = ("--overlay", cluster.overlay, *images(cluster.overlay), "--no-wait", "--kubeconfig", kubeconfig)
    command = [sys.executable, "-c", PROGRAM, "install", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    cluster.namespace = plane.create_namespace()
    port, plain, operators, health = free_port(), free_port(), free_port(), free_port()
    configurations = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/virt-dra"
    for path in (configurations.format("validating"), configurations.format("mutating")):
        with contextlib.suppress(RequestError):  # standalone has only one of them
            for index, webhook in enumerate(plane.request("GET", path)["webhooks"]):
                url = f"https://localhost:{port}{webhook['clientConfig']['service']['path']}"
                client = {"op": "replace", "path": f"/webhooks/{index}/clientConfig", "value": {"url": url}}
                plane.request("PATCH", path, [client], JSON_PATCH)
    listen = ("--host", "127.0.0.1", "--port", str(port), "--plain-port", str(plain), "--announce", "0")
    cluster.start(
        CERTIFICATES, *_arguments(plane, CERTIFICATES), "--own-namespace", "virt-dra", "--dns-name", "localhost"
    )
    folder = cluster.mount("virt-dra-webhook-tls")
    arguments = [argument for argument in _arguments(plane, WEBHOOK) if not argument.startswith("--tls-dir=")]
    callers = ("--client-ca", str(plane.webhook_client_ca))
    cluster.start(WEBHOOK, *arguments, f"--tls-dir={folder}", *callers, *listen)
    listen = (
        "--host",
        "127.0.0.1",
        "--plain-port",
        str(operators),
        "--health-port",
        str(health),
        "--own-namespace",
        "virt-dra",
    )
    cluster.start(OPERATOR, *_arguments(plane, OPERATOR), *listen)
    until(
        lambda: plane.request("GET", configurations.format("validating"))["webhooks"][0]["clientConfig"].get(
            "caBundle"
        ),
        "the caBundle",
    )
    until(partial(_ready, plain), "the webhook")


def _arguments(plane: ControlPlane, name: str) -> tuple[str, ...]:
    """What the installed Deployment gives its container."""
    deployment = plane.request("GET", f"/apis/apps/v1/namespaces/virt-dra/deployments/{name}")
    return tuple(deployment["spec"]["template"]["spec"]["containers"][0]["args"])


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except urllib.error.URLError:
        return False


def live(cluster: Cluster) -> None:
    """What happens on a cluster: VMs come, get devices, wait for devices; devices are tainted; VMs go."""
    plane, namespace = cluster.plane, cluster.namespace
    plane.create_node("node-1", {"kubevirt.io/schedulable": "true", "kubernetes.io/arch": "amd64"})
    room = {f"devices.kubevirt.io/{device}": "100" for device in ("kvm", "tun", "vhost-net")}
    plane.merge("/api/v1/nodes/node-1/status", {"status": {"capacity": room, "allocatable": room}})
    gpus = [
        {"name": f"gpu-{i}", "attributes": {"resource.kubernetes.io/pciBusID": {"string": f"0000:0{i + 1}:00.0"}}}
        for i in range(4)
    ]
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "node-1", "pool": pool, "devices": gpus}
    cluster.create(f"{RESOURCE}/resourceslices", "ResourceSlice", "node-1-gpu", spec=spec)
    for name, driver in (("gpu", "gpu.example.com"), ("none", "none.example.com")):
        selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
        cluster.create(f"{RESOURCE}/deviceclasses", "DeviceClass", name, spec={"selectors": [selector]})
        request = {"name": "gpu", "exactly": {"deviceClassName": name}}
        templates = f"{RESOURCE}/namespaces/{namespace}/resourceclaimtemplates"
        cluster.create(templates, "ResourceClaimTemplate", name, spec={"spec": {"devices": {"requests": [request]}}})
    if cluster.overlay == BESIDE_KUBEVIRT:
        status = {"observedKubeVirtVersion": "v1.9.0"}
        cluster.create(
            f"/apis/kubevirt.io/v1/namespaces/{namespace}/kubevirts",
            "KubeVirt",
            "kubevirt",
            "kubevirt.io/v1",
            status=status,
        )
    _start_vmi(cluster, "good", "gpu")
    _start_vmi(cluster, "waiting", "none")
    profile = {"devices": [{"name": "card", "deviceClassName": "gpu"}]}
    profiles = "/apis/virt-dra.io/v1alpha1/deviceprofiles"
    cluster.create(profiles, "DeviceProfile", "one-gpu", "virt-dra.io/v1alpha1", spec=profile)
    until(lambda: _admits_line(cluster, "gpu=one-gpu"), "the profile, to the webhook")
    _start_vmi(cluster, "asking", "asking-gpu", "gpu=one-gpu")
    until(lambda: _claim_of_profile(cluster), "the claim that a line of profiles stands for")
    if cluster.overlay == STANDALONE:
        template: Json = {"spec": {"domain": {"devices": {}}}}
        vms = f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachines"
        cluster.create(
            vms, "VirtualMachine", "vm", "kubevirt.io/v1", spec={"runStrategy": "Always", "template": template}
        )
        vmis = f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances"
        # Started twice: what was said before is said again, which is counted.
        until(lambda: plane.request("GET", f"{vmis}/vm"), "the VM's instance")
        _choose(plane, f"{vms}/vm", "Halted")
        until(partial(_gone, plane, f"{vmis}/vm"), "the end of the VM's instance")
        for pod in plane.request("GET", f"/api/v1/namespaces/{namespace}/pods?labelSelector=vm.kubevirt.io/name=vm")[
            "items"
        ]:
            # Where there is no kubelet, nobody else ends it.
            plane.request(
                "DELETE", f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}?gracePeriodSeconds=0"
            )
        _choose(plane, f"{vms}/vm", "Always")
        until(lambda: any(event["count"] > 1 for event in _events(cluster, "vm")), "a counted event")
    devices = f"/apis/virt-dra.io/v1alpha1/namespaces/{namespace}/virtualmachineinstancedevices"
    until(lambda: _events(cluster, "waiting"), "an event")
    if cluster.overlay == STANDALONE:
        good = f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances/good"
        until(lambda: "deviceStatus" in plane.request("GET", good).get("status", {}), "the device's address")
        pods = f"/api/v1/namespaces/{namespace}/pods"
        until(lambda: any(_is_told(pod) for pod in plane.request("GET", pods)["items"]), "the pod's annotation")
        return
    until(lambda: plane.request("GET", f"{devices}/good")["status"]["ready"] == "1/1", "the device's address")
    # The devices of a former VMI of this name.
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": "again",
        "uid": "former",
        "controller": True,
    }
    former = {"metadata": {"ownerReferences": [owner]}, "status": {"ready": "0/1"}}
    plane.stop_controllers()  # else it may be the garbage collector that removes it
    cluster.create(devices, "VirtualMachineInstanceDevices", "again", "virt-dra.io/v1alpha1", **former)
    _start_vmi(cluster, "again", "gpu")
    until(
        lambda: plane.request("GET", f"{devices}/again")["metadata"]["ownerReferences"][0]["uid"] != "former",
        "the object's new owner",
    )
    plane.start_controllers()
    until(lambda: plane.request("GET", f"{devices}/again")["status"]["ready"] == "1/1", "the other device's address")
    taint = {"key": "example.com/broken", "effect": "NoSchedule", "value": "x"}
    rule = {"deviceSelector": {"driver": "gpu.example.com"}, "taint": taint}
    cluster.create(f"{RESOURCE}/devicetaintrules", "DeviceTaintRule", "broken", spec=rule)
    until(lambda: plane.request("GET", f"{devices}/good")["status"]["devices"][0].get("taints"), "the taint")
    # Each time the object is made again its Event repeats, and is counted. Twice: the first Event of all may be from
    # before the pod was bound, and then it doesn't name the node.
    for _ in range(2):
        uid = plane.request("GET", f"{devices}/good")["metadata"]["uid"]
        plane.request("DELETE", f"{devices}/good")
        until(partial(_replaced, plane, f"{devices}/good", uid), "the object's successor")
    until(lambda: any(event["count"] > 1 for event in _events(cluster, "good")), "a counted event")


def _is_told(pod: Json) -> bool:
    return "virt-dra.io/device-status" in pod["metadata"].get("annotations", {})


def _choose(plane: ControlPlane, vm: str, strategy: str) -> None:
    plane.request("PATCH", vm, [{"op": "replace", "path": "/spec/runStrategy", "value": strategy}], JSON_PATCH)


def _gone(plane: ControlPlane, path: str) -> bool:
    try:
        plane.request("GET", path)
    except RequestError as error:
        return error.status == 404
    return False


def _replaced(plane: ControlPlane, path: str, uid: str) -> bool:
    return bool(plane.request("GET", path)["metadata"]["uid"] != uid)


def _events(cluster: Cluster, name: str) -> list[Json]:
    events: list[Json] = cluster.plane.request("GET", f"/api/v1/namespaces/{cluster.namespace}/events")["items"]
    return [
        event
        for event in events
        if event["involvedObject"]["name"] == name and event["source"]["component"] == OPERATOR
    ]


def _admits_line(cluster: Cluster, line: str) -> bool:
    """True once the webhook knows the line's profile, which comes to it a little later."""
    vmis = f"/apis/kubevirt.io/v1/namespaces/{cluster.namespace}/virtualmachineinstances?dryRun=All"
    annotations = {"virt-dra.io/devices": line}
    spec: Json = {"domain": {"devices": {}}}
    try:
        cluster.create(
            vmis, "VirtualMachineInstance", "dry", "kubevirt.io/v1", metadata={"annotations": annotations}, spec=spec
        )
    except RequestError as error:
        if "there is no DeviceProfile" not in str(error):
            raise
        return False
    return True


def _claim_of_profile(cluster: Cluster) -> bool:
    """True once the VMI's template was made, and a claim of it for its pod has a device."""
    of_namespace = f"{RESOURCE}/namespaces/{cluster.namespace}"
    template = cluster.plane.request("GET", f"{of_namespace}/resourceclaimtemplates/asking-gpu")
    (owner,) = template["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("VirtualMachineInstance", "asking")
    claims = cluster.plane.request("GET", f"{of_namespace}/resourceclaims")["items"]
    return any(
        claim["spec"]["devices"] == template["spec"]["spec"]["devices"] and "allocation" in claim["status"]
        for claim in claims
        if claim["metadata"]["ownerReferences"][0]["name"].startswith("virt-launcher-asking")
    )


def _start_vmi(cluster: Cluster, name: str, template: str, line: str | None = None) -> None:
    """With its launcher pod, where KubeVirt would make that. ``line``: of profiles; its devices are there already, as
    the webhook writes them."""
    namespace = cluster.namespace
    claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
    gpus = [{"name": "gpu", "claimName": "gpu", "requestName": "gpu"}]
    spec = {"resourceClaims": claims, "domain": {"devices": {"gpus": gpus}}}
    vmis = f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances"
    metadata: Json = {} if line is None else {"annotations": {"virt-dra.io/devices": line}}
    vmi = cluster.create(vmis, "VirtualMachineInstance", name, "kubevirt.io/v1", metadata=metadata, spec=spec)
    if cluster.overlay == STANDALONE:
        return
    if line is not None:
        path = f"{RESOURCE}/namespaces/{namespace}/resourceclaimtemplates/{template}"
        until(lambda: cluster.plane.request("GET", path), "the template, before which no pod is admitted")
    uid = vmi["metadata"]["uid"]
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": name,
        "uid": uid,
        "controller": True,
    }
    labels = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": uid, "vm.kubevirt.io/name": name}
    metadata = {"labels": labels, "annotations": {"kubevirt.io/domain": name}, "ownerReferences": [owner]}
    compute = {"name": "compute", "image": "launcher", "resources": {"claims": [{"name": "gpu", "request": "gpu"}]}}
    pod = {"containers": [compute], "resourceClaims": claims, "restartPolicy": "Never"}
    cluster.create(
        f"/api/v1/namespaces/{namespace}/pods", "Pod", f"virt-launcher-{name}-x", "v1", metadata=metadata, spec=pod
    )
