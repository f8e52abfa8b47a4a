"""manifests/keeper: what a thief of its token can do with claims on a real API server, whose policies hold it to those
that VirtualMachines own (P-5)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from devtools.cluster.control_plane import ControlPlane, RequestError
from devtools.cluster.ports import free_port
from devtools.deployed.minimal_crds import KUBEVIRT_CRDS
from tests.manifests.acting import acting_as
from tests.manifests.live_cluster import CRDS, PROGRAM, until
from virt_dra.installation.kustomize import build
from virt_dra.installation.plan import packaged

Json = dict[str, Any]
Ask = Callable[..., tuple[int, str]]
KEEPER = "virt-dra-keeper"
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/virt-dra/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/virt-dra/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/virt-dra/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}
OWNER: Json = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "a", "uid": "vm-1"}
VM: Json = {"apiGroup": "kubevirt.io", "resource": "virtualmachines", "name": "a", "uid": "vm-1"}
OTHER_VM: Json = {**VM, "name": "b", "uid": "vm-2"}
POD: Json = {"resource": "pods", "name": "launcher", "uid": "pod-1"}
ALLOCATION: Json = {
    "devices": {"results": [{"request": "r", "driver": "d.example.com", "pool": "p", "device": "gpu-0"}]}
}
OTHER_ALLOCATION: Json = {
    "devices": {"results": [{"request": "r", "driver": "d.example.com", "pool": "p", "device": "gpu-1"}]}
}
SPEC: Json = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
KEPT = {"virt-dra.io/kept": "true"}


def claim(name: str, labels: Json = KEPT, owners: tuple[Json, ...] = (OWNER,), **metadata: Any) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "labels": labels, "ownerReferences": list(owners), **metadata},
        "spec": SPEC,
    }


THERE: dict[str, tuple[Json, list[Json]]] = {
    "idle": (claim("idle", finalizers=["resource.kubernetes.io/delete-protection"]), [VM]),
    "fresh": (claim("fresh"), [POD]),
    "busy": (claim("busy"), [VM, POD]),
    "unlabelled": (claim("unlabelled", labels={}), [VM]),
    "foreign": (claim("foreign", labels={}, owners=()), [POD]),
    "unused": (claim("unused", labels={}, owners=()), []),
    "kept-unused": (claim("kept-unused"), []),
    "orphan": (claim("orphan", owners=()), []),
}
"""Name → a claim, and who uses its device."""


class Try(NamedTuple):
    """A request about a claim. ``refused``: what policy or API server say; "" if it is allowed."""

    why: str
    verb: str
    name: str
    body: Json | None
    refused: str
    status: bool = True


def status(reserved: list[Json] | None, allocation: Json | None = ALLOCATION) -> Json:
    return {"status": {"reservedFor": reserved, "allocation": allocation}}


FOREIGN = "may not change consumers that aren't VirtualMachines"
OWN_VM = "may add the VirtualMachine only that owns the claim"
CLEARED = "may leave an allocation as it is, or clear it where nobody but a VirtualMachine uses the claim"
IMMUTABLE = "field cannot be modified once set"
LABELLED = "may make, change and delete claims only that are labelled"
OWNED = "may make claims only that a VirtualMachine owns"
OF_A_VM = "may change and delete claims only that a VirtualMachine owns"
TRIES = (
    Try("the VM joins the pod", "PATCH", "fresh", status([POD, VM]), ""),
    Try("another VM joins", "PATCH", "fresh", status([POD, OTHER_VM]), OWN_VM),
    Try("a pod joins", "PATCH", "idle", status([VM, POD]), FOREIGN),
    Try("a pod is removed", "PATCH", "busy", status([VM]), FOREIGN),
    Try("a pod is removed with the allocation", "PATCH", "busy", status(None, None), FOREIGN),
    Try("the VM leaves the pod", "PATCH", "busy", status([POD]), ""),
    Try("the VM leaves, and the allocation with it", "PATCH", "idle", status(None, None), ""),
    Try("the allocation is another", "PATCH", "idle", status([VM], OTHER_ALLOCATION), IMMUTABLE),
    Try("a pod's device is exchanged", "PATCH", "foreign", status([POD], OTHER_ALLOCATION), IMMUTABLE),
    Try("the VM leaves a claim whose label is gone", "PATCH", "unlabelled", status(None, None), ""),
    Try("the owner joins a claim without the label", "PATCH", "foreign", status([POD, VM]), OWN_VM),
    Try("an unused claim of somebody else is released", "PATCH", "unused", status(None, None), CLEARED),
    Try("an unused claim of a VM is released", "PATCH", "kept-unused", status(None, None), ""),
    Try("devices have a status", "PATCH", "idle",
        {"status": {"devices": [{"driver": "d.example.com", "pool": "p", "device": "gpu-0", "data": {}}]}},
        "changing status.devices requires"),
    Try("a stop is noted", "PATCH", "idle",
        {"metadata": {"annotations": {"virt-dra.io/stopped-since": "2026-11-24T11:00:00Z"}}}, "", status=False),
    Try("another annotation is written", "PATCH", "idle",
        {"metadata": {"annotations": {"x": "y"}}}, "annotations of a claim only that are its own", status=False),
    Try("a claim is labelled", "PATCH", "foreign",
        {"metadata": {"labels": KEPT}}, "may change annotations of a claim only", status=False),
    Try("a label is taken away", "PATCH", "idle",
        {"metadata": {"labels": {"virt-dra.io/kept": None}}}, LABELLED, status=False),
    Try("a finalizer is taken away", "PATCH", "idle",
        {"metadata": {"finalizers": None}}, "may change annotations of a claim only", status=False),
    Try("the owner is another", "PATCH", "idle",
        {"metadata": {"ownerReferences": None}}, "may change annotations of a claim only", status=False),
    Try("a VM's unused claim is deleted", "DELETE", "kept-unused", None, "", status=False),
    Try("a VM's claim is deleted while it is kept", "DELETE", "idle", None, "", status=False),
    Try("a claim with the label that no VM owns is deleted", "DELETE", "orphan", None, OF_A_VM, status=False),
    Try("… or noted as stopped", "PATCH", "orphan",
        {"metadata": {"annotations": {"virt-dra.io/stopped-since": "2026-11-24T11:00:00Z"}}}, OF_A_VM, status=False),
    Try("somebody else's claim is deleted", "DELETE", "unused", None, LABELLED, status=False),
    Try("a VM's claim is made", "POST", "", claim("new"), "", status=False),
    Try("a claim without the label is made", "POST", "", claim("new", labels={}), LABELLED, status=False),
    Try("nobody's claim is made", "POST", "", claim("new", owners=()), OWNED, status=False),
    Try("a pod's claim is made", "POST", "",
        claim("new", owners=({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"},)), OWNED, status=False),
    Try("a claim that can't be deleted is made", "POST", "",
        claim("new", finalizers=["example.com/stays"]), OWNED, status=False),
    Try("a claim with admin access is made", "POST", "",
        {**claim("new"), "spec": {"devices": {"requests": [
            {"name": "r", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}]}}},
        "may not make claims with admin access", status=False),
)  # fmt: skip


class Thief(NamedTuple):
    plane: ControlPlane
    ask: Ask
    claims: str


@pytest.fixture(scope="module")
def thief() -> Iterator[Thief]:
    with ControlPlane() as plane:
        for crd in KUBEVIRT_CRDS:
            plane.request("POST", CRDS, crd)
        plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": "virt-dra"}})
        for obj in build(packaged(), "keeper"):
            if obj["kind"] in PATHS:
                plane.request("POST", PATHS[obj["kind"]], obj)
        namespace = plane.create_namespace()
        # An adminAccess claim is refused by the API server where the namespace isn't labelled for it.
        labels = {"resource.kubernetes.io/admin-access": "true"}
        plane.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
        claims = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
        for name, (made, users) in THERE.items():
            plane.request("POST", claims, made)
            plane.merge(f"{claims}/{name}/status", status(users or None))
        with acting_as(plane, plane.kubeconfig_of_service_account("virt-dra", KEEPER)) as ask:
            until(lambda: LABELLED in ask("DELETE", f"{claims}/unused")[1], "the policy of claims")
            until(
                lambda: CLEARED in ask("PATCH", f"{claims}/unused/status", status(None, None))[1],
                "the policy of consumers",
            )
            yield Thief(plane, ask, claims)


@pytest.mark.control_plane
@pytest.mark.parametrize("tried", TRIES, ids=lambda tried: tried.why)
def test_what_a_thief_could_do_with_claims(thief: Thief, tried: Try) -> None:
    path = f"{thief.claims}/{tried.name}".rstrip("/") + ("/status" if tried.status else "")
    code, text = thief.ask(tried.verb, path, tried.body)
    if tried.refused:
        assert code in (403, 422)
        assert tried.refused in text
    else:
        assert code in (200, 201), text


@pytest.mark.control_plane
def test_it_may_change_nothing_else(thief: Thief) -> None:
    vms = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
    policies = "/apis/virt-dra.io/v1alpha1/namespaces/default/keeppolicies"
    for verb, path in (
        ("PATCH", f"{vms}/a"), ("DELETE", f"{vms}/a"), ("POST", vms),
        ("GET", "/api/v1/pods"), ("GET", "/api/v1/secrets"),
        ("DELETE", "/apis/resource.k8s.io/v1/resourceslices/any"),
        ("PATCH", f"{policies}/team"), ("DELETE", f"{policies}/team"), ("POST", policies),
    ):  # fmt: skip
        code, text = thief.ask(verb, path, {})
        assert (code, "cannot" in text) == (403, True), (verb, path, text)


@pytest.mark.control_plane
def test_with_its_rights_it_makes_holds_releases_and_deletes_a_claim(thief: Thief, tmp_path: Path) -> None:
    """The process with the account of the manifests: a VM that starts, stops, and is deleted. No garbage collector runs
    here, as if it had missed that (P-15)."""
    plane = thief.plane
    namespace = plane.create_namespace()
    resources = f"/apis/resource.k8s.io/v1/namespaces/{namespace}"
    claim_path = f"{resources}/resourceclaims/k-gpu"
    vms = f"/apis/kubevirt.io/v1/namespaces/{namespace}"
    spec = {"runStrategy": "Always", "template": {"metadata": {"annotations": {"virt-dra.io/keep-devices": "true"}}}}
    vm = plane.request("POST", f"{vms}/virtualmachines", vm_object("VirtualMachine", spec=spec))
    owner = {**OWNER, "name": "k", "uid": vm["metadata"]["uid"], "controller": True}
    plane.request(
        "POST",
        f"{resources}/resourceclaimtemplates",
        {"metadata": {"name": "one-gpu"}, "spec": {"spec": SPEC}},
    )
    kept = {"virt-dra.io/keep-devices": "true", "virt-dra.io/kept-claims": '{"gpu":"one-gpu"}'}
    vmi = vm_object(
        "VirtualMachineInstance",
        spec={"domain": {"devices": {}}, "resourceClaims": [{"name": "gpu", "resourceClaimName": "k-gpu"}]},
        annotations=kept, ownerReferences=[owner],
    )  # fmt: skip
    plane.request("POST", f"{vms}/virtualmachineinstances", vmi)
    kubeconfig = plane.kubeconfig_of_service_account("virt-dra", KEEPER)
    command = [sys.executable, "-c", PROGRAM, "keeper", "-n", namespace, "--kubeconfig", str(kubeconfig),
               "--no-election", "--plain-port", "0", "--health-port", str(free_port())]  # fmt: skip

    def users() -> list[str]:
        claim = plane.request("GET", claim_path)
        return [consumer["name"] for consumer in claim.get("status", {}).get("reservedFor", [])]

    with (tmp_path / "keeper.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until(lambda: users() == [], "the claim")
            plane.merge(f"{claim_path}/status", status([POD]))
            until(lambda: users() == ["launcher", "k"], "the VM among the claim's users")
            plane.merge(f"{claim_path}/status", status([{**VM, "name": "k", "uid": owner["uid"]}]))
            plane.request("DELETE", f"{vms}/virtualmachineinstances/k")
            until(
                lambda: (
                    "virt-dra.io/stopped-since" in plane.request("GET", claim_path)["metadata"].get("annotations", {})
                ),
                "the note of the stop",
            )
            assert users() == ["k"]
            plane.request("DELETE", f"{vms}/virtualmachines/k")
            until(lambda: is_gone(plane, claim_path), "the deletion")
        finally:
            process.terminate()
            process.wait(30)
    assert process.returncode == 0


def is_gone(plane: ControlPlane, path: str) -> bool:
    try:
        plane.request("GET", path)
    except RequestError as error:
        if error.status != 404:
            raise
        return True
    return False


def vm_object(kind: str, spec: Json, **metadata: Any) -> Json:
    return {"apiVersion": "kubevirt.io/v1", "kind": kind, "metadata": {"name": "k", **metadata}, "spec": spec}
