"""Pods of the manifests, and launcher pods, under the Pod Security Standard "restricted" as a real API server enforces
it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from devtools.cluster.control_plane import ControlPlane, RequestError
from tests.manifests.test_thief_of_pods import FULL, SIDECARS, launcher
from virt_dra.controllers.pods.launcher_pods import HOOK_SIDECARS_ANNOTATION
from virt_dra.installation.kustomize import build
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE, Choices, packaged, planned

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]
ENFORCED = "pod-security.kubernetes.io/enforce"
SETS = {
    **{
        f"{overlay}{' with cert-manager' * cert_manager}": planned(
            Choices(overlay, cert_manager=cert_manager, client_ca=b"PEM"), packaged()
        )
        for overlay in (BESIDE_KUBEVIRT, STANDALONE)
        for cert_manager in (False, True)
    },
    "report": build(packaged(), "report"),
    "keeper": build(packaged(), "keeper"),
}
OURS = {
    f"{name}: {obj['metadata']['name']}": obj["spec"]["template"]
    for name, objects in SETS.items()
    for obj in objects
    if obj["kind"] in ("Deployment", "DaemonSet")
}
HOOK = {HOOK_SIDECARS_ANNOTATION: json.dumps([{"image": "hook:1"}])}
OF_VMS = {
    "least": launcher(),
    "claims and networks": launcher(spec=FULL),
    "a hook sidecar": launcher(SIDECARS, annotations=HOOK),
}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        for obj in SETS[BESIDE_KUBEVIRT]:
            if obj["kind"] == "Namespace":
                plane.request("POST", "/api/v1/namespaces", obj)
            if obj["kind"] == "PriorityClass":
                plane.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", obj)
        yield plane


def test_our_namespace_enforces_restricted(plane: ControlPlane) -> None:
    assert plane.request("GET", "/api/v1/namespaces/virt-dra")["metadata"]["labels"][ENFORCED] == "restricted"


@pytest.mark.parametrize("name", OURS)
def test_pods_of_the_manifests_are_restricted(plane: ControlPlane, name: str) -> None:
    _try_all(plane, "virt-dra", {"metadata": {"name": "ours"}, "spec": OURS[name]["spec"]})


@pytest.mark.parametrize("name", OF_VMS)
def test_launcher_pods_are_restricted(plane: ControlPlane, name: str) -> None:
    namespace = plane.create_namespace(labels={ENFORCED: "restricted"})
    _try_all(plane, namespace, OF_VMS[name])
    plane.delete_namespace(namespace)


def _try_all(plane: ControlPlane, namespace: str, pod: Json) -> None:
    """The pod is admitted; without any of its restrictions it isn't."""
    assert _refusal(plane, namespace, pod) == ""
    (container, *others) = pod["spec"]["containers"]
    for field in ("allowPrivilegeEscalation", "capabilities"):
        security = {key: value for key, value in container["securityContext"].items() if key != field}
        loose = {**pod["spec"], "containers": [{**container, "securityContext": security}, *others]}
        refusal = _refusal(plane, namespace, {**pod, "spec": loose})
        assert (f'violates PodSecurity "restricted:latest": {_WORDS[field]}') in refusal


_WORDS = {"allowPrivilegeEscalation": "allowPrivilegeEscalation != false", "capabilities": "unrestricted capabilities"}


def _refusal(plane: ControlPlane, namespace: str, pod: Json) -> str:
    try:
        plane.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
    except RequestError as error:
        return str(error)
    return ""
