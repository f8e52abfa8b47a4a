"""``virt-dra doctor`` on a real API server, with virt-dra's processes beside it: all is well, and what isn't is
found."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner, Result

from devtools.cluster.control_plane import RequestError
from tests.manifests.live_cluster import Cluster, until
from virt_dra.cli.main import cli
from virt_dra.installation.plan import BESIDE_KUBEVIRT
from webhooks.tls.authority import SystemKeys, bootstrap

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]


def doctor(cluster: Cluster, *arguments: str) -> Result:
    kubeconfig = str(cluster.plane.kubeconfig)
    return CliRunner().invoke(
        cli, ["doctor", "--kubeconfig", kubeconfig, "--probe-namespace", cluster.namespace, *arguments]
    )


def findings(cluster: Cluster, *levels: str) -> dict[tuple[str, str], str]:
    """(check, where) -> message, of the given levels."""
    document = json.loads(doctor(cluster, "-o", "json").stdout)
    return {
        (finding["id"], finding["where"]): finding["message"]
        for finding in document["findings"]
        if finding["level"] in levels
    }


@pytest.fixture(scope="module")
def well(cluster: Cluster) -> Iterator[Cluster]:
    """With what no kubelet and no controller is there to say: that the pods are ready."""
    plane = cluster.plane
    for name, count in (("virt-dra-operator", 2), ("virt-dra-webhook", 2), ("virt-dra-certificates", 1)):
        path = f"/apis/apps/v1/namespaces/virt-dra/deployments/{name}"
        generation = plane.request("GET", path)["metadata"]["generation"]
        status = {"observedGeneration": generation}
        status |= dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), count)
        plane.merge(f"{path}/status", {"status": status})
    slices = "/apis/discovery.k8s.io/v1/namespaces/virt-dra/endpointslices"
    labels = {"kubernetes.io/service-name": "virt-dra-webhook"}
    endpoints = [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}]
    rest = {"addressType": "IPv4", "endpoints": endpoints, "ports": [{"port": 8443}]}
    cluster.create(slices, "EndpointSlice", "webhook", "discovery.k8s.io/v1", metadata={"labels": labels}, **rest)
    yield cluster
    with contextlib.suppress(RequestError):
        plane.request("DELETE", f"{slices}/webhook")


def test_where_all_is_well_it_finds_nothing(well: Cluster) -> None:
    # The certificate is for localhost, since the API server of these tests can't reach a Service.
    service = ("certificate", "Secret virt-dra/virt-dra-webhook-tls")
    expected = {service: "the certificate isn't for virt-dra-webhook.virt-dra.svc, but for localhost"}
    assert findings(well, "warning", "error") == expected
    told = findings(well, "ok")
    assert (
        told["webhook-answer", "webhook"] == "the API server called it for a VMI (dry run), and it answered correctly"
    )
    assert (
        told["drivers", "driver gpu.example.com"]
        == "4 devices in 1 pool; isn't known to write metadata (metadata-shim)"
    )
    assert told["classes", "DeviceClasses"] == "with matching devices: gpu (4)"
    assert {key for key, _ in told} >= {
        "kubernetes",
        "feature-gates",
        "installation",
        "definitions",
        "workloads",
        "rights",
        "leader",
    }
    if well.overlay == BESIDE_KUBEVIRT:
        assert told["kubevirt-version", f"KubeVirt {well.namespace}/kubevirt"] == "KubeVirt 1.9.0"


def test_text_says_what_to_do(well: Cluster) -> None:
    result = doctor(well, "--quiet")
    assert result.exit_code == 2
    lines = result.stdout.splitlines()
    assert lines[:2] == [
        "error    Secret virt-dra/virt-dra-webhook-tls: the certificate isn't "
        "for virt-dra-webhook.virt-dra.svc, but for localhost",
        "         -> delete the Secret's data; virt-dra-certificates makes another",
    ]
    assert lines[2].startswith("1 error, ")


def test_a_right_that_is_missing_is_found(well: Cluster) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/virt-dra-webhook"
    there = well.plane.request("GET", path)
    well.plane.request("DELETE", path)
    try:
        key = ("rights", "ServiceAccount virt-dra/virt-dra-webhook")
        until(lambda: "list nodes" in findings(well, "error").get(key, ""), "the authorizer's knowledge")
        assert findings(well, "error")["installation", "ClusterRoleBinding virt-dra-webhook"] == "it is missing"
    finally:
        metadata = {"name": "virt-dra-webhook", "labels": there["metadata"]["labels"]}
        well.plane.request("POST", path.rpartition("/")[0], {**there, "metadata": metadata})
    until(lambda: not any(check == "rights" for check, _ in findings(well, "error")), "the right")


def test_a_webhook_that_is_not_reached_and_one_that_is_not_trusted_are_found(well: Cluster) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/virt-dra"
    key = ("webhook-answer", "webhook")

    def changed(member: str, value: str) -> dict[tuple[str, str], str]:
        where = f"/webhooks/0/clientConfig/{member}"
        before = well.plane.request("GET", path)["webhooks"][0]["clientConfig"][member]
        replace = [{"op": "replace", "path": where, "value": value}]
        seen: dict[tuple[str, str], str] = {}

        def found() -> bool:
            # Again each time: virt-dra-certificates corrects the caBundle. The API server learns of it a moment later.
            well.plane.request("PATCH", path, replace, "application/json-patch+json")
            seen.update(findings(well, "error"))
            return key in seen

        try:
            until(found, f"the fault of {member}")
            return seen
        finally:
            well.plane.request("PATCH", path, [{**replace[0], "value": before}], "application/json-patch+json")
            until(lambda: key not in findings(well, "error"), "the webhook's answer")

    ignored = "a VMI that it must deny was accepted (dry run): "
    failed = "the API server can't reach it: Internal error occurred: failed calling webhook"
    expected = ignored if well.overlay == BESIDE_KUBEVIRT else failed
    assert changed("url", "https://localhost:1/validate-vmi")[key].startswith(expected)
    other = bootstrap(["localhost"], datetime.now(UTC), SystemKeys()).ca_bundle
    message = changed("caBundle", base64.b64encode(other).decode())
    assert message[key].startswith(expected)


def test_who_may_read_little_is_told_what_could_not_be_read(well: Cluster) -> None:
    kubeconfig = str(well.plane.kubeconfig_of_user("nobody"))
    result = CliRunner().invoke(cli, ["doctor", "--kubeconfig", kubeconfig, "-o", "json"])
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    assert "Traceback" not in result.output
    (deployments,) = (finding for finding in document["findings"] if finding["id"] == "installation")
    assert (deployments["level"], deployments["advice"]) == ("warning", "run doctor with an account that may read it")
    assert 'User "nobody" cannot list resource "deployments"' in deployments["message"]
