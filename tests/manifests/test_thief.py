"""What a stolen token of each of our ServiceAccounts is good for: tried on a real API server, and listed in
docs/security.md.

The cases are cases/thief.yaml: every right that the manifests give is there, with what is tried by it, and has a row in
the document.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools.cluster.control_plane import ControlPlane, RequestError
from devtools.deployed.audit_policy import rights
from tests.manifests.acting import JSON_PATCH, MERGE, acting_as
from tests.manifests.live_cluster import Cluster, until
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import GPUS_WITH_DRA, NEWEST, Gates
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.instances import admitted_instance
from virt_dra.cluster.memory.patches import patched
from virt_dra.controllers.loops.virtual_machines import instance_of
from virt_dra.controllers.pods.launcher_resources import RenderError
from virt_dra.controllers.profiles.needed import NeededObjects, needed_objects
from virt_dra.controllers.standalone.pod import StandaloneOptions, standalone_pod
from virt_dra.installation.launcher_limits import LAUNCHER_POLICY, launcher_of
from virt_dra.installation.plan import (
    BESIDE_KUBEVIRT,
    OPERATOR,
    STANDALONE,
    VM_NAMESPACE,
    Choices,
    Overlay,
    packaged,
    planned,
)
from webhooks.tls.authority import SystemKeys, bootstrap

Json = dict[str, Any]
Granted = tuple[str, str, str]
"""Account, verb, resource with the name that the right is bound to."""

CASES: list[Json] = yaml.load(
    (Path(__file__).parent / "cases" / "thief.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
SECURITY = Path(__file__).parents[2] / "docs" / "security.md"
OVERLAYS: tuple[Overlay, ...] = (BESIDE_KUBEVIRT, STANDALONE)
_ROW = re.compile(r"^\| (virt-dra-[a-z]+) \| `([^`]+)` \|(.+)\|(.+)\|(.+)\|$", re.MULTILINE)


def granted(overlay: Overlay) -> set[Granted]:
    """What the manifests give."""
    given = rights(planned(Choices(overlay), packaged()))
    return {(right.account, right.verb, f"{right.resource} {right.name}".rstrip()) for right in given}


def spelt(account: str, text: str) -> Iterator[Granted]:
    """``verb, verb: resource, resource name``"""
    verbs, _, resources = text.partition(": ")
    for verb in verbs.split(", "):
        for resource in resources.split(", "):
            yield account, verb, resource


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_right_has_a_case(overlay: Overlay) -> None:
    tried = {
        right
        for case in CASES
        if case.get("overlay", overlay) == overlay
        for right in spelt(case["account"], case["rights"])
    }
    assert tried == granted(overlay)


def test_every_right_has_a_row_in_the_document() -> None:
    rows = _ROW.findall(SECURITY.read_text(encoding="utf-8"))
    listed = [right for account, text, *_ in rows for right in spelt(account, text)]
    assert sorted(set(listed)) == sorted(listed), "a right has two rows"
    assert set(listed) == {right for overlay in OVERLAYS for right in granted(overlay)}
    assert all(cell.strip() for row in rows for cell in row)


@pytest.mark.control_plane
@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['account']}-{case['rights'].partition(',')[0]}-{case['rights'][-12:]}"
)
def test_what_a_thief_could_do(thieves: Thieves, case: Json) -> None:
    if case.get("overlay", thieves.overlay) != thieves.overlay:
        pytest.skip(f"a right of the overlay {case['overlay']}")
    surprises = thieves.surprises(case)
    assert not surprises, "\n".join(surprises)


@pytest.mark.control_plane
@pytest.mark.parametrize(
    ("where", "class_name", "refusal"),
    [
        ("{namespace}", "virt-dra", "the PriorityClass virt-dra is for virt-dra's own pods"),
        ("kube-system", "virt-dra", "the PriorityClass virt-dra is for virt-dra's own pods"),
        ("virt-dra", "virt-dra", ""),
        ("{namespace}", "", ""),
    ],
)
def test_nobody_elses_pods_have_our_priority(cluster: Cluster, where: str, class_name: str, refusal: str) -> None:
    """Not even an administrator's: who may create pods is no question of priority."""
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 1000,
    }
    container = {
        "name": "c",
        "image": "i",
        "securityContext": security | {"seccompProfile": {"type": "RuntimeDefault"}},
    }
    spec: Json = {"containers": [container]} | ({"priorityClassName": class_name} if class_name else {})
    namespace = where.format(namespace=cluster.namespace)
    answer = _posted(
        cluster.plane, f"/api/v1/namespaces/{namespace}/pods?dryRun=All", {"metadata": {"name": "greedy"}, "spec": spec}
    )
    assert (refusal or '"priorityClassName"' if class_name else "") in answer
    assert ("denied request" in answer) is bool(refusal), answer


@pytest.mark.control_plane
def test_where_vms_have_namespaces_of_their_own_nothing_is_made_elsewhere(thieves: Thieves, cluster: Cluster) -> None:
    """virt-dra install --vm-namespace-label: the namespace says whether it is for VMs, and no token of ours can say
    it."""
    if cluster.overlay != STANDALONE:
        pytest.skip("beside KubeVirt the operator makes no pods")
    label = "example.com/virtual-machines"
    wanted = planned(Choices(STANDALONE, vm_namespace_label=label), packaged())
    policies = [
        obj
        for obj in wanted
        if any(variable["name"] == VM_NAMESPACE for variable in obj.get("spec", {}).get("variables", ()))
    ]
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{}"
    before = {
        name: cluster.plane.request("GET", path.format(name))["spec"]
        for name in (policy["metadata"]["name"] for policy in policies)
    }
    account = {"account": "virt-dra-operator"}
    pods, vmis = (
        "POST /api/v1/namespaces/{namespace}/pods",
        "POST /apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances",
    )
    tries: list[Json] = [{"ask": pods, "base": "launcher"}, {"ask": vmis, "base": "instance"}]
    refused = [attempt | {"refused": "in namespaces for virtual machines only"} for attempt in tries]
    namespace = f"/api/v1/namespaces/{cluster.namespace}"
    try:
        for policy in policies:
            cluster.plane.merge(
                path.format(policy["metadata"]["name"]), {"spec": {"variables": policy["spec"]["variables"]}}
            )
        until(lambda: not thieves.surprises(account | {"tries": refused}), "the policies", seconds=30)
        cluster.plane.merge(namespace, {"metadata": {"labels": {label: ""}}})
        until(lambda: not thieves.surprises(account | {"tries": tries}), "the label", seconds=30)
        cluster.plane.merge(namespace, {"metadata": {"labels": {label: None}}})
    finally:
        for name, spec in before.items():
            cluster.plane.merge(path.format(name), {"spec": {"variables": spec["variables"]}})
    assert len(before) == 2
    until(lambda: not thieves.surprises(account | {"tries": tries}), "the policies as they were", seconds=30)


@pytest.mark.control_plane
def test_a_write_that_a_policy_refuses_is_told_of_the_vm(cluster: Cluster) -> None:
    """Where the policy isn't what the operator's arguments say, the VM's Event has the policy's own sentence."""
    if cluster.overlay != STANDALONE:
        pytest.skip("beside KubeVirt the operator makes no pods")
    plane, namespace = cluster.plane, cluster.namespace
    path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{LAUNCHER_POLICY}"
    index = next(
        i for i, variable in enumerate(plane.request("GET", path)["spec"]["variables"]) if variable["name"] == "image"
    )
    where = f"/spec/variables/{index}/expression"

    def allow(image: str) -> None:
        plane.request("PATCH", path, [{"op": "replace", "path": where, "value": json.dumps(image)}], JSON_PATCH)

    def told() -> bool:
        events = plane.request(
            "GET", f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.name=refused"
        )["items"]
        said = [event["message"] for event in events if event["reason"] == "WriteRefused"]
        wanted = "may create launcher pods of the image another:1 only; this one is of virt-dra-launcher:0.1.0"
        return any(
            text.startswith(f"creating Pod {namespace}/virt-launcher-refused-") and wanted in text for text in said
        )

    vmis = f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances"
    allow("another:1")
    try:
        # The API server learns of another policy a moment later; a VMI whose pod it let through says nothing.
        time.sleep(3)
        cluster.create(vmis, "VirtualMachineInstance", "refused", "kubevirt.io/v1", spec={"domain": {"devices": {}}})
        until(told, "the event")
    finally:
        allow("virt-dra-launcher:0.1.0")
    pods = f"/api/v1/namespaces/{namespace}/pods?labelSelector=vm.kubevirt.io/name=refused"
    until(lambda: plane.request("GET", pods)["items"], "the pod, once it is allowed", seconds=120)
    plane.request("DELETE", f"{vmis}/refused")


def _posted(plane: ControlPlane, path: str, body: Json) -> str:
    try:
        return json.dumps(plane.request("POST", path, body))
    except RequestError as error:
        return str(error)


def _template_of_a_profile(namespace: str) -> Json:
    """The template of claims that the operator makes for a VMI which asks for a profile."""
    profile = DeviceProfile.from_wire(
        {"metadata": {"name": "gpu"}, "spec": {"devices": [{"name": "gpu", "deviceClassName": "gpu"}]}}
    )
    metadata = {"name": "thief", "namespace": namespace, "uid": "u", "annotations": {DEVICES_ANNOTATION: "gpu"}}
    profiles = {"gpu": profile}
    vmi = admitted_instance(VirtualMachineInstance.from_wire({"metadata": metadata}), profiles, {})
    needed = needed_objects(vmi, profiles, {})
    assert isinstance(needed, NeededObjects)
    return needed.templates[0].to_wire()


class Thieves:
    """Each of our accounts, and what it finds: a VMI with its pod, a VM with its VMI, a namespace without any."""

    def __init__(self, cluster: Cluster) -> None:
        plane, namespace = cluster.plane, cluster.namespace
        self._cluster, self.overlay = cluster, cluster.overlay
        vmis, pods = (
            f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances",
            f"/api/v1/namespaces/{namespace}/pods",
        )
        launchers = plane.request("GET", f"{pods}?labelSelector=kubevirt.io=virt-launcher")["items"]
        cluster.create(pods, "Pod", "of-others", "v1", spec={"containers": [{"name": "c", "image": "i"}]})
        pair = {"claim": "c", "request": "r", "path": "metadata-shim", "reason": "DriverUnknown", "layout": "KEP-5304"}
        record = json.dumps({"devices": [], "format": 1, "pairs": [pair]}, separators=(",", ":"), sort_keys=True)
        made_early = {
            "labels": {"kubevirt.io": "virt-launcher"},
            "annotations": {"virt-dra.io/integration": record},
        }
        spec = {"containers": [{"name": "compute", "image": "i"}]}
        for name in ("made-early", "runs"):
            cluster.create(pods, "Pod", name, "v1", metadata=made_early, spec=spec)
        asks = {"labels": {"kubevirt.io": "virt-launcher"}, "annotations": {DEVICES_ANNOTATION: "gpu"}}
        cluster.create(pods, "Pod", "waits", "v1", metadata=asks, spec={**spec, "nodeSelector": {"there-is": "none"}})
        cluster.create(pods, "Pod", "placed", "v1", metadata=asks, spec={**spec, "nodeName": "nowhere"})
        plane.merge(f"{pods}/runs/status", {"status": {"phase": "Running"}})
        event = {
            "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "p"},
            "source": {"component": "kubelet"},
        }
        cluster.create(f"/api/v1/namespaces/{namespace}/events", "Event", "of-others", "v1", **event)
        self.names = {
            "namespace": namespace,
            "empty": plane.create_namespace(),
            "administrative": plane.create_namespace(),
            "pod": f"{pods}/{launchers[0]['metadata']['name']}",
            "other": f"{pods}/of-others",
            "made-early": f"{pods}/made-early",
            "runs": f"{pods}/runs",
            "waits": f"{pods}/waits",
            "placed": f"{pods}/placed",
            "vmi": f"{vmis}/good",
            "instance": f"{vmis}/vm",
            "vm": f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachines/vm",
            "other-authority": base64.b64encode(
                bootstrap(["localhost"], datetime.now(UTC), SystemKeys()).ca_bundle
            ).decode(),
            "foreign-event": f"/api/v1/namespaces/{namespace}/events/of-others",
        }
        administrative = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        plane.merge(f"/api/v1/namespaces/{self.names['administrative']}", administrative)
        self._bases: dict[str, Json] = {"template": _template_of_a_profile(namespace)}
        if self.overlay == STANDALONE:
            wanted = planned(Choices(STANDALONE), packaged())
            deployment = next(
                obj for obj in wanted if (obj["kind"], obj["metadata"]["name"]) == ("Deployment", OPERATOR)
            )
            launcher = launcher_of(deployment)
            vmi = VirtualMachineInstance.from_wire(plane.request("GET", self.names["vmi"]))
            options = StandaloneOptions(launcher.image, launcher.command[1:])
            rendered = standalone_pod(vmi, Gates.for_version(NEWEST, {GPUS_WITH_DRA: True}), options)
            assert not isinstance(rendered, RenderError)
            pod = rendered.to_wire()
            self._bases["launcher"] = pod | {"metadata": pod["metadata"] | {"name": "virt-launcher-good-thief"}}
            instance = instance_of(VirtualMachine.from_wire(plane.request("GET", self.names["vm"]))).to_wire()
            owner = instance["metadata"]["ownerReferences"][0] | {"name": "thief"}
            self._bases["instance"] = instance | {
                "metadata": instance["metadata"] | {"name": "thief", "ownerReferences": [owner]}
            }

    def close(self) -> None:
        for name in ("other", "made-early", "runs", "waits", "placed", "foreign-event"):
            self._cluster.plane.request("DELETE", f"{self.names[name]}?gracePeriodSeconds=0")
        for name in ("empty", "administrative"):
            self._cluster.plane.delete_namespace(self.names[name])

    def surprises(self, case: Json) -> list[str]:
        """What was answered otherwise than the case says."""
        kubeconfig = self._cluster.plane.kubeconfig_of_service_account("virt-dra", case["account"])
        with acting_as(self._cluster.plane, kubeconfig) as ask:
            return list(self._surprising(case["tries"], ask))

    def _surprising(self, tries: Iterable[Json], ask: Callable[..., tuple[int, str]]) -> Iterator[str]:
        for attempt in tries:
            if attempt.get("overlay", self.overlay) != self.overlay:
                continue
            verb, _, path = attempt.get("ask", "POST /api/v1/namespaces/{namespace}/pods").partition(" ")
            path = path.format_map(self.names)
            content = (
                "application/strategic-merge-patch+json"
                if attempt.get("strategic")
                else JSON_PATCH
                if "operations" in attempt
                else MERGE
            )
            code, text = ask(verb, path, self._body(attempt, path), content)
            refused = attempt.get("refused", "")
            if (code >= 400) is not bool(refused) or refused not in text.replace('\\"', '"'):
                yield f"{json.dumps(attempt)[:400]}\n    {code}: {text[:600]}"

    def _body(self, attempt: Json, path: str) -> Any:
        if "base" not in attempt:
            text = json.dumps(attempt.get("operations", attempt.get("body")))
            for name in ("namespace", "other-authority"):
                text = text.replace(f"{{{name}}}", self.names[name])
            return json.loads(text)
        raw = self._bases[attempt["base"]]
        namespace = path.partition("/namespaces/")[2].partition("/")[0]
        raw = raw | {"metadata": raw["metadata"] | {"namespace": namespace}}
        return patched(raw, attempt.get("patch", []))


@pytest.fixture(scope="module")
def thieves(cluster: Cluster) -> Iterator[Thieves]:
    there = Thieves(cluster)
    yield there
    there.close()
