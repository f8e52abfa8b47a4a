"""What a real API server makes of our definitions: what is refused, in which words, what is kept, and what kubectl
shows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from devtools.cluster.control_plane import ControlPlane, RequestError
from devtools.deployed.operator import devices_kind, keep_policies_kind, policies_kind, profiles_kind
from devtools.deployed.webhook import until
from tests.api.validation.test_validation import CASES, changed
from tests.conftest import Golden
from tests.manifests.described import undescribed
from tests.manifests.live_cluster import Cluster
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.validation import validate_create
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]
NAMESPACE = "virt-dra"
"""The webhook isn't asked about what is in it, so that only the schema judges."""
VMIS = f"/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/virtualmachineinstances"
VMS = f"/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/virtualmachines"
DEVICES = f"/apis/virt-dra.io/v1alpha1/namespaces/{NAMESPACE}/virtualmachineinstancedevices"
CLAIMS = [{"name": "c", "resourceClaimTemplateName": "t"}]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


on_standalone = pytest.mark.parametrize("cluster", [STANDALONE], indirect=True)
beside_kubevirt = pytest.mark.parametrize("cluster", [BESIDE_KUBEVIRT], indirect=True)


def vmi(spec: Json, **rest: Any) -> Json:
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "schema"},
        "spec": spec,
        **rest,
    }


def with_gpu(**entry: Any) -> Json:
    return vmi({"resourceClaims": CLAIMS, "domain": {"devices": {"gpus": [{"name": "g", **entry}]}}})


def created(cluster: Cluster, path: str, obj: Json) -> Json:
    return cluster.plane.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", obj)


def vm(**spec: Any) -> Json:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"domain": {"devices": {}}}}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "schema"},
        "spec": {"template": template, **spec},
    }


@on_standalone
@pytest.mark.parametrize(
    "obj",
    [
        with_gpu(claimName="c", requestName="r"),
        with_gpu(claim={"name": "c", "request": "r"}),
        with_gpu(claim={"name": "c", "request": "r"}, claimName="c", requestName="r"),
        with_gpu(
            deviceName="vendor.com/gpu",
            virtualGPUOptions={"display": {"enabled": True, "ramFB": {"enabled": False}}},
            tag="x",
        ),
        vmi(
            {
                "domain": {
                    "devices": {"rng": {}, "disks": [{"name": "d", "disk": {"bus": "virtio"}}]},
                    "clock": {"utc": {}},
                },
                "hostname": "h",
            }
        ),
        vmi({"domain": {"memory": {"guest": 1}, "resources": {"requests": {"memory": "1.5Gi", "cpu": "100m"}}}}),
        vmi(
            {
                "domain": {},
                "volumes": [{"name": "v", "containerDisk": {"image": "i"}}],
                "networks": [{"name": "n", "pod": {}}],
            }
        ),
    ],
)
def test_a_vm_made_for_kubevirt_is_kept_as_it_is(cluster: Cluster, obj: Json) -> None:
    assert created(cluster, VMIS, obj)["spec"] == obj["spec"]


@on_standalone
@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (with_gpu(claimNam="c"), 'unknown field "spec.domain.devices.gpus[0].claimNam"'),
        (with_gpu(claim={"nam": "c"}), 'unknown field "spec.domain.devices.gpus[0].claim.nam"'),
        (
            vmi({"domain": {"devices": {"hostDevices": [{"deviceName": "x"}]}}}),
            "spec.domain.devices.hostDevices[0].name: Required value",
        ),
        (
            with_gpu(claim={"name": "c"}, claimName="d"),
            "spec.domain.devices.gpus[0]: Invalid value: claim.name and claimName differ; give only one of them",
        ),
        (
            with_gpu(claim={"request": "c"}, requestName="d"),
            "spec.domain.devices.gpus[0]: Invalid value: claim.request and requestName differ; give only one of them",
        ),
        (
            vmi({"domain": {}, "resourceClaims": [*CLAIMS, *CLAIMS]}),
            'spec.resourceClaims[1]: Duplicate value: {"name":"c"}',
        ),
        (vmi({"domain": {"memory": {"guest": "many"}}}), "spec.domain.memory.guest in body should match"),
        (
            vmi({"domain": {"devices": {"gpus": [{"name": "g"}] * 257}}}),
            "spec.domain.devices.gpus: Too many: 257: must have at most 256 items",
        ),
        (vm(running=True, runStrategy="Always"), "spec: Invalid value: Running and RunStrategy are mutually exclusive"),
        (vm(runStrategy="Sometimes"), 'spec.runStrategy: Unsupported value: "Sometimes"'),
    ],
)
def test_what_cannot_be_meant_is_refused(cluster: Cluster, obj: Json, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        created(cluster, VMS if obj["kind"] == "VirtualMachine" else VMIS, obj)
    assert message in str(refused.value)


@pytest.fixture
def stored(cluster: Cluster) -> Iterator[str]:
    cluster.plane.request("POST", VMIS, vmi({"domain": {"devices": {"rng": {}}}}))
    yield f"{VMIS}/schema"
    with contextlib.suppress(RequestError):
        cluster.plane.request("DELETE", f"{VMIS}/schema")


@on_standalone
@pytest.mark.parametrize(
    "spec", [{"architecture": "arm64"}, {"domain": {"devices": {"rng": {"unknown": 1}}}}, {"unknown": {}}]
)
def test_the_spec_of_an_instance_does_not_change(cluster: Cluster, stored: str, spec: Json) -> None:
    with pytest.raises(RequestError) as refused:
        cluster.plane.merge(stored, {"spec": spec})
    assert "spec: Invalid value: update of VMI object is restricted" in str(refused.value)


@on_standalone
def test_only_the_operator_writes_a_status(cluster: Cluster, stored: str) -> None:
    status = {
        "deviceStatus": {
            "gpuStatuses": [{"name": "g", "deviceResourceClaimStatus": {"attributes": {"pciAddress": "0000:01:00.0"}}}]
        }
    }
    ours = "the status of a VirtualMachineInstance is written by virt-dra's operator only; leave it out"
    with pytest.raises(RequestError) as changed:
        cluster.plane.merge(stored, {"status": status})
    assert (changed.value.status, ours in str(changed.value)) == (403, True)
    forged = vmi({"domain": {}}, status=status)
    with pytest.raises(RequestError) as made:
        cluster.plane.request("POST", f"{VMIS}?dryRun=All", forged)
    assert ours in str(made.value)
    annotated = cluster.plane.merge(stored, {"metadata": {"annotations": {"mine": "yes"}}})
    assert annotated["metadata"]["annotations"]["mine"] == "yes"


GOOD = {
    "name": "g",
    "kind": "gpus",
    "claimName": "c",
    "requestName": "r",
    "state": "Resolved",
    "pciAddress": "0000:01:00.0",
}


def devices(*entries: Json, **status: Any) -> Json:
    metadata = {"name": "schema"}
    return {
        "apiVersion": "virt-dra.io/v1alpha1",
        "kind": "VirtualMachineInstanceDevices",
        "metadata": metadata,
        "status": {"devices": list(entries), **status},
    }


@beside_kubevirt
@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (devices({**GOOD, "pciAddress": "1:0.0"}), "status.devices[0].pciAddress in body should match"),
        (devices({**GOOD, "mdevUUID": "x"}), "status.devices[0].mdevUUID in body should match"),
        (devices({**GOOD, "state": "Fine"}), 'status.devices[0].state: Unsupported value: "Fine"'),
        (devices({**GOOD, "kind": "usb"}), 'status.devices[0].kind: Unsupported value: "usb"'),
        (
            devices({key: value for key, value in GOOD.items() if key != "pciAddress"}),
            "status.devices[0]: Invalid value: a resolved device has an address",
        ),
        (
            devices({**GOOD, "state": "Pending"}),
            "status.devices[0]: Invalid value: a device that isn't resolved has a reason",
        ),
        (devices(ready="all"), "status.ready in body should match"),
        (
            devices(conditions=[{"type": "A", "status": "True"}] * 2),
            'status.conditions[1]: Duplicate value: {"type":"A"}',
        ),
        (devices(conditions=[{"type": "A", "status": "Yes"}]), 'status.conditions[0].status: Unsupported value: "Yes"'),
        (devices({**GOOD, "spec": 1}), 'unknown field "status.devices[0].spec"'),
        (
            devices(migrationTarget={"podName": "p", "podUID": "u", "devices": [{**GOOD, "kind": "usb"}]}),
            'status.migrationTarget.devices[0].kind: Unsupported value: "usb"',
        ),
        (devices(migrationTarget={"podName": "p"}), "status.migrationTarget.podUID: Required value"),
    ],
)
def test_devices_that_cannot_be_are_refused(cluster: Cluster, obj: Json, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        created(cluster, DEVICES, obj)
    assert message in str(refused.value)


@beside_kubevirt
def test_a_network_of_a_binding_plugin_has_no_address(cluster: Cluster) -> None:
    network = {key: value for key, value in GOOD.items() if key != "pciAddress"} | {"kind": "networks"}
    target = {"podName": "p", "podUID": "u", "ready": "2/2", "nodeName": "n", "devices": [GOOD, network]}
    made = created(cluster, DEVICES, devices(GOOD, network, migrationTarget=target))
    assert made["status"] == {"devices": [GOOD, network], "migrationTarget": target}


@beside_kubevirt
def test_kubectl_shows_what_a_user_looks_for(cluster: Cluster) -> None:
    path = DEVICES.replace(f"/{NAMESPACE}/", f"/{cluster.namespace}/")
    table = cluster.plane.request("GET", path, accept=TABLE)
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns == ["Name", "Ready", "Node", "Path", "Healthy", "Reason", "Age", "Pod", "Message"]
    rows = {row["cells"][0]: row["cells"] for row in table["rows"]}
    assert rows["good"][1:4] == ["1/1", "node-1", "metadata-shim"]
    assert rows["waiting"][1] == "0/1"


def test_what_kubectl_explain_reads_describes_every_field(control_plane: ControlPlane) -> None:
    """It reads OpenAPI v3, in which the API server has put its own words for apiVersion, kind and metadata."""
    path = "/openapi/v3/apis/virt-dra.io/v1alpha1"

    def published() -> Json | None:
        try:
            schemas: Json = control_plane.request("GET", path)["components"]["schemas"]
        except RequestError as error:
            if error.status != 404:
                raise
            return None
        return schemas.get("io.virt-dra.v1alpha1.VirtualMachineInstanceDevices")

    with devices_kind(control_plane):
        schema = until(published)
    assert undescribed(schema) == []
    assert "Allocatable" in schema["properties"]["status"]["properties"]["conditions"]["description"]


def test_short_names_and_categories(cluster: Cluster) -> None:
    base = "/apis/virt-dra.io/v1alpha1" if cluster.overlay == BESIDE_KUBEVIRT else "/apis/kubevirt.io/v1"
    found = {
        resource["name"]: (resource.get("shortNames"), resource.get("categories"))
        for resource in cluster.plane.request("GET", base)["resources"]
    }
    if cluster.overlay == BESIDE_KUBEVIRT:
        assert found == {
            "virtualmachineinstancedevices": (["vmid"], ["all"]),
            "deviceprofiles": (["dprof"], ["all"]),
            "deviceprofiles/status": (None, None),
        }
    else:
        assert found["virtualmachineinstances"] == (["vmi", "vmis"], ["all"])
        assert found["virtualmachines"] == (["vm", "vms"], ["all"])


OURS = "/apis/virt-dra.io/v1alpha1/{}?dryRun=All&fieldValidation=Strict"
LABEL_KEYS = {"matchLabels": {"a b": "x"}}
"""A schema can't say what keys of a map are; such a label matches no node."""


def answer(plane: ControlPlane, resource: str, obj: Json) -> str:
    """What is wrong with the object; "" if nothing is."""
    try:
        assert plane.request("POST", OURS.format(resource), obj)["spec"] == obj["spec"]
    except RequestError as error:
        return str(error).partition(" is invalid: ")[2]
    return ""


def each_alone(changes: Json) -> Iterator[tuple[str, Any]]:
    """The changes of a case one by one, fields of an object too: rules of CEL are only asked about what the rest of
    the schema takes."""
    for path, value in changes.items():
        if isinstance(value, dict) and len(value) > 1 and not path.endswith("vfIndexes"):
            yield from ((path, {name: field}) for name, field in value.items())
        else:
            yield path, value


def test_policies_of_nodes_are_judged_as_the_driver_judges_them(control_plane: ControlPlane, golden: Golden) -> None:
    cases = yaml.safe_load((CASES / "node_policies.yaml").read_text(encoding="utf-8"))
    base, answers = cases["base"], []
    with policies_kind(control_plane):
        assert answer(control_plane, "virtdranodepolicies", base) == ""
        for case in cases["cases"]:
            assert answer(control_plane, "virtdranodepolicies", changed(base, case["set"])), case["name"]
            for path, value in each_alone(case["set"]):
                policy = changed(base, {path: value})
                said = answer(control_plane, "virtdranodepolicies", policy)
                refused = bool(validate_create(read_object(policy))) and value != LABEL_KEYS
                assert bool(said) == refused, (path, value, said)
                answers.append(f"{path}: {value}\n  {said or 'admitted'}\n")
    golden("node_policies.txt", "".join(answers))


def test_profiles_are_judged_as_those_who_write_them_out_judge_them(
    control_plane: ControlPlane, golden: Golden
) -> None:
    with profiles_kind(control_plane):
        golden("device_profiles.txt", answers_to_cases(control_plane, "deviceprofiles", "device_profiles.yaml"))


def test_keep_policies_are_judged_as_the_commands_judge_them(control_plane: ControlPlane, golden: Golden) -> None:
    with keep_policies_kind(control_plane):
        resource = "namespaces/default/keeppolicies"
        golden("keep_policies.txt", answers_to_cases(control_plane, resource, "keep_policies.yaml"))


def answers_to_cases(plane: ControlPlane, resource: str, file: str) -> str:
    """What an API server says to each case, which is wrong if and only if our rules say so."""
    cases = yaml.safe_load((CASES / file).read_text(encoding="utf-8"))
    answers = []
    assert answer(plane, resource, cases["base"]) == ""
    for case in cases["cases"]:
        said = answer(plane, resource, changed(cases["base"], case["set"]))
        assert bool(said) == bool(case["errors"] and not case.get("beyond-a-schema")), (case["name"], said)
        answers.append(f"{case['name']}\n  {said or 'admitted'}\n")
    return "".join(answers)
