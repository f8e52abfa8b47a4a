"""A line of profiles on a real API server, with the webhook as it is installed: as its processes run with the accounts
of the manifests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from devtools.cluster.control_plane import RequestError
from devtools.deployed.webhook import until
from tests.manifests.live_cluster import Cluster

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]
PROFILES = "/apis/virt-dra.io/v1alpha1/deviceprofiles"
NAME = "two-gpus-and-card"
SPEC = {
    "devices": [
        {"name": "gpu", "count": 2, "deviceClassName": "gpu"},
        {"name": "card", "deviceClassName": "gpu", "tag": "main"},
    ],
    "align": [{"attribute": "pcieRoot"}],
}


@pytest.fixture
def profile(cluster: Cluster) -> Iterator[Json]:
    metadata = {"name": NAME}
    raw = {"apiVersion": "virt-dra.io/v1alpha1", "kind": "DeviceProfile", "metadata": metadata, "spec": SPEC}
    made = cluster.plane.request("POST", PROFILES, raw)
    until(lambda: "there is no DeviceProfile" not in refusal(cluster, NAME))
    yield made
    cluster.plane.request("DELETE", f"{PROFILES}/{NAME}")


def created(cluster: Cluster, line: str, **spec: Any) -> Json:
    metadata = {"name": "dry", "annotations": {"virt-dra.io/devices": line}}
    domain = {"devices": {}, "memory": {"guest": "1Gi"}}
    raw = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": metadata,
        "spec": {"domain": domain, **spec},
    }
    path = f"/apis/kubevirt.io/v1/namespaces/{cluster.namespace}/virtualmachineinstances"
    answer: Json = cluster.plane.request("POST", f"{path}?dryRun=All", raw)
    return answer


def refusal(cluster: Cluster, line: str, **spec: Any) -> str:
    """Why a VMI isn't created; "" if it is."""
    try:
        created(cluster, line, **spec)
    except RequestError as error:
        return str(error)
    return ""


def test_a_vmi_gets_the_devices_of_its_line_and_is_judged_with_them(cluster: Cluster, profile: Json) -> None:
    """The templates that the operator makes aren't there yet, and nobody refuses the VMI for that."""
    vmi = created(cluster, f"a={NAME}")
    assert vmi["spec"]["domain"]["devices"]["gpus"] == [
        {"name": "a-gpu-1", "claimName": "a", "requestName": "a-gpu-1"},
        {"name": "a-gpu-2", "claimName": "a", "requestName": "a-gpu-2"},
        {"name": "a-card", "claimName": "a", "requestName": "a-card", "tag": "main"},
    ]
    assert vmi["spec"]["resourceClaims"] == [{"name": "a", "resourceClaimTemplateName": "dry-a"}]
    record = json.loads(vmi["metadata"]["annotations"]["virt-dra.io/devices-from-profiles"])
    version = {"uid": profile["metadata"]["uid"], "generation": 1}
    assert record == {"line": f"a={NAME}", "profiles": {NAME: version}}


def test_a_line_that_stands_for_nothing_is_refused_with_the_reason(cluster: Cluster, profile: Json) -> None:
    line = "metadata.annotations[virt-dra.io/devices]"
    missing = f'{line}: Not found: "two-gpu-and-card": there is no DeviceProfile of this name; did you mean {NAME}?'
    assert missing in refusal(cluster, "two-gpu-and-card")
    taken = 'spec.resourceClaims[0].name: Invalid value: "a": virt-dra.io/devices makes another entry of this name'
    mine = [{"name": "a", "resourceClaimTemplateName": "gpu"}]
    assert taken in refusal(cluster, f"a={NAME}", resourceClaims=mine)
