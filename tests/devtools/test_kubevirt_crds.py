"""KubeVirt's kinds by version: what their schemas keep, and that an API server takes them."""

from __future__ import annotations

import pytest

from devtools.agents.kubevirt_crds import definitions, pruned_object, stored_schemas
from devtools.cluster.control_plane import ControlPlane
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.wire import Json

VERSIONS = ("1.5.0", "1.6.0", "1.7.0", "1.8.0", "1.8.3", "1.9.0", "main")


def kept(version: str, **fields: object) -> Json:
    """A VMI with fields in its first GPU, its first network and its status, as it is stored."""
    vmi = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm", "anything": 1},
        "spec": {
            "domain": {
                "devices": {
                    "gpus": [
                        {"name": "g", "claimName": "c", "requestName": "r", "claim": {"name": "c"}, "color": "red"}
                    ]
                }
            },
            "networks": [{"name": "n", "resourceClaim": {"claimName": "c"}, "multus": {"networkName": "x"}}],
            "resourceClaims": [{"name": "c", "source": {}}],
            "hostname": "vm",
            "unknown": True,
        },
        "status": {
            "phase": "Running",
            "deviceStatus": {"gpuStatuses": [{"name": "g", "color": "red"}]},
            "unknown": True,
        },
    }
    return pruned_object(vmi, stored_schemas(KubeVirtVersion.parse(version))["VirtualMachineInstance"])


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_stored_of_a_vmi(version: str) -> None:
    parsed = KubeVirtVersion.parse(version)
    with_claims = parsed >= KubeVirtVersion.parse("1.6.0")
    network: Json = {"name": "n", "multus": {"networkName": "x"}}
    if parsed >= KubeVirtVersion.parse("1.9.0"):
        network["resourceClaim"] = {"claimName": "c"}
    spec: Json = {
        "domain": {
            "devices": {"gpus": [{"name": "g", **({"claimName": "c", "requestName": "r"} if with_claims else {})}]}
        },
        "networks": [network],
        "hostname": "vm",
    }
    status: Json = {"phase": "Running"}
    if with_claims:
        spec["resourceClaims"] = [{"name": "c"}]
    if version in ("1.6.0", "1.7.0"):
        status["deviceStatus"] = {"gpuStatuses": [{"name": "g"}]}
    head = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "vm", "anything": 1}}
    assert kept(version) == {**head, "spec": spec, "status": status}


@pytest.mark.control_plane
@pytest.mark.parametrize("version", VERSIONS)
def test_an_api_server_takes_the_definitions(control_plane: ControlPlane, version: str) -> None:
    for definition in definitions(KubeVirtVersion.parse(version)):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All"
        stored = control_plane.request("POST", path, definition)
        assert stored["spec"]["versions"] == definition["spec"]["versions"]
