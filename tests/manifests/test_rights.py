"""Least privilege, measured: the components run with their ServiceAccounts on a real API server, whose audit log says
what they asked.

Every right that the manifests give was used, and no request was refused for want of one; what isn't given is refused.
"""

from __future__ import annotations

from typing import Any

import pytest

from devtools.deployed.audit_policy import Right, asked, rights, used
from tests.manifests.acting import acting_as
from tests.manifests.live_cluster import CERTIFICATES, OPERATOR, WEBHOOK, Cluster
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE, Choices, Overlay, packaged, planned

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]
PROGRAM = "from virt_dra.cli.main import main; main()"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RESOURCE = "/apis/resource.k8s.io/v1"
JSON_PATCH = "application/json-patch+json"

# Of a template that the garbage collector forgot; test_thief_by_verb.py tries it.
FORGOTTEN = Right(OPERATOR, "delete", "resource.k8s.io", "resourceclaimtemplates")
UNSEEN: dict[Overlay, set[Right]] = {
    BESIDE_KUBEVIRT: {
        # Only of a pod that was made before its driver was known, or whose devices were taken; test_thief.py tries it.
        Right(OPERATOR, "delete", "", "pods"),
        FORGOTTEN,
    },
    STANDALONE: {
        # Asked for by an admission plugin that is off in most clusters.
        Right(OPERATOR, "update", "kubevirt.io", "virtualmachineinstances/finalizers"),
        Right(OPERATOR, "update", "kubevirt.io", "virtualmachines/finalizers"),
        # Of kinds that come with KubeVirt, or with the other overlay: looked for, and only watched once they are there.
        Right(OPERATOR, "watch", "kubevirt.io", "kubevirts"),
        Right(OPERATOR, "watch", "virt-dra.io", "virtualmachineinstancedevices"),
        Right(WEBHOOK, "watch", "kubevirt.io", "kubevirts"),
        FORGOTTEN,
        # The other overlay's configuration.
        Right(CERTIFICATES, "patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "virt-dra"),
    },
}
"""Rights that no request needs here, and why they are given."""


def test_every_right_is_used(cluster: Cluster) -> None:
    requests = [request.right for request in asked(cluster.log)]
    given = set(rights(planned(Choices(cluster.overlay), packaged()))) - UNSEEN[cluster.overlay]
    unused = [str(right) for right in sorted(given) if not used(right, requests)]
    assert unused == [], unused


def test_nothing_was_refused_for_want_of_a_right(cluster: Cluster) -> None:
    assert sorted({str(request.right) for request in asked(cluster.log, cluster.lived) if request.code == 403}) == []


FORBIDDEN = [
    ("GET", "/api/v1/secrets"),
    ("GET", "/api/v1/namespaces/virt-dra/secrets/another"),
    ("POST", "/api/v1/namespaces/virt-dra/secrets"),
    ("DELETE", "/api/v1/namespaces/virt-dra/secrets/virt-dra-webhook-tls"),
    ("GET", "/api/v1/configmaps"),
    ("DELETE", "/api/v1/namespaces/{namespace}/pods/virt-launcher-good-x"),
    ("POST", "/api/v1/namespaces/{namespace}/pods/virt-launcher-good-x/exec"),
    ("POST", "/api/v1/namespaces/{namespace}/pods/virt-launcher-good-x/eviction"),
    ("PATCH", "/api/v1/nodes/node-1"),
    ("DELETE", "/apis/resource.k8s.io/v1/resourceslices/node-1-gpu"),
    ("POST", "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"),
    ("PATCH", "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/x/status"),
    ("POST", "/apis/resource.k8s.io/v1/devicetaintrules"),
    ("DELETE", "/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachines/vm"),
    ("PUT", "/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachines/vm"),
    ("PATCH", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/another"),
    ("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/virt-dra"),
    ("GET", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"),
    ("PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/virtualmachines.kubevirt.io"),
    ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    ("POST", "/api/v1/namespaces/virt-dra/serviceaccounts/virt-dra-operator/token"),
    ("DELETE", "/apis/coordination.k8s.io/v1/namespaces/virt-dra/leases/virt-dra-operator"),
    ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/virt-dra-operator"),
]
"""What would harm, asked by each account."""
ONLY_OPERATOR = [
    ("POST", "/api/v1/namespaces/{namespace}/events"),
    ("GET", "/api/v1/pods"),
    ("POST", "/apis/virt-dra.io/v1alpha1/namespaces/{namespace}/virtualmachineinstancedevices"),
    ("PATCH", "/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances/good"),
    ("GET", "/apis/coordination.k8s.io/v1/namespaces/virt-dra/leases/virt-dra-operator"),
]
NOT_CERTIFICATES = [
    ("GET", "/api/v1/namespaces"),
    ("GET", "/apis/resource.k8s.io/v1/resourceclaimtemplates"),
]
"""What operator and webhook may both ask."""
ONLY_CERTIFICATES = [
    ("GET", "/api/v1/namespaces/virt-dra/secrets/virt-dra-webhook-tls"),
    ("GET", "/api/v1/namespaces/virt-dra/secrets/virt-dra-webhook-authority"),
    ("GET", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/virt-dra"),
    ("PATCH", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/virt-dra"),
    ("PATCH", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/virt-dra"),
]


@pytest.mark.parametrize(
    ("account", "others"),
    [
        (OPERATOR, ONLY_CERTIFICATES),
        (WEBHOOK, [*ONLY_OPERATOR, *ONLY_CERTIFICATES]),
        (CERTIFICATES, [*ONLY_OPERATOR, *NOT_CERTIFICATES]),
    ],
)
def test_what_is_not_given_is_refused(cluster: Cluster, account: str, others: list[tuple[str, str]]) -> None:
    kubeconfig = cluster.plane.kubeconfig_of_service_account("virt-dra", account)
    with acting_as(cluster.plane, kubeconfig) as ask:
        codes = {
            f"{verb} {path}": ask(verb, path.format(namespace=cluster.namespace))[0]
            for verb, path in (*FORBIDDEN, *others)
        }
    assert {request: code for request, code in codes.items() if code != 403} == {}


@pytest.mark.parametrize(
    ("patch", "refusal"),
    [
        ({"metadata": {"annotations": {"metadata.virt-dra.io/gpu.gpu": "{}"}}}, ""),
        ({"metadata": {"annotations": {"virt-dra.io/device-status": None}}}, ""),
        (
            {"metadata": {"annotations": {"kubevirt.io/domain": "another"}}},
            "may change annotations of virt-dra.io only",
        ),
        ({"metadata": {"annotations": {"kubevirt.io/domain": None}}}, "may change annotations of virt-dra.io only"),
        (
            {"metadata": {"annotations": {"evil.example/virt-dra.io": "x"}}},
            "may change annotations of virt-dra.io only",
        ),
        ({"metadata": {"labels": {"a": "b"}}}, "may change annotations only"),
        ({"metadata": {"finalizers": ["virt-dra.io/x"]}}, "may change annotations only"),
        ({"spec": {"containers": [{"name": "compute", "image": "evil"}]}}, "may change annotations only"),
    ],
)
def test_of_a_pod_the_operator_may_change_our_annotations_only(cluster: Cluster, patch: Json, refusal: str) -> None:
    namespace = f"/api/v1/namespaces/{cluster.namespace}/pods"
    pods = cluster.plane.request("GET", f"{namespace}?labelSelector=kubevirt.io=virt-launcher")["items"]
    kubeconfig = cluster.plane.kubeconfig_of_service_account("virt-dra", OPERATOR)
    with acting_as(cluster.plane, kubeconfig) as ask:
        code, message = ask(
            "PATCH", f"{namespace}/{pods[0]['metadata']['name']}", patch, "application/strategic-merge-patch+json"
        )
    assert (code, refusal in message) == (403 if refusal else 200, True), message


def test_the_operator_may_not_change_other_pods(cluster: Cluster) -> None:
    pods = f"/api/v1/namespaces/{cluster.namespace}/pods"
    cluster.create(pods, "Pod", "of-others", "v1", spec={"containers": [{"name": "c", "image": "i"}]})
    patch = {"metadata": {"annotations": {"virt-dra.io/x": "y"}}}
    kubeconfig = cluster.plane.kubeconfig_of_service_account("virt-dra", OPERATOR)
    with acting_as(cluster.plane, kubeconfig) as ask:
        code, message = ask("PATCH", f"{pods}/of-others", patch)
    cluster.plane.request("DELETE", f"{pods}/of-others?gracePeriodSeconds=0")
    assert (code, "virt-dra's operator may change launcher pods only" in message) == (403, True), message
