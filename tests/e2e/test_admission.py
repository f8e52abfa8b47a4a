"""What users are told by the webhook as installed: refusals with their causes, findings as warnings, and what an outage
of it does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from devtools.deployed.overlay import configurations
from devtools.deployed.worlds import Json, World
from tests.e2e import cases
from tests.e2e.conftest import InWorld

pytestmark = pytest.mark.control_plane

PLACE = "1.9.0"

DENIALS = [
    pytest.param(place, case, id=f"{place}-{case['name']}")
    for case in yaml.safe_load((cases.FOLDER / "denials.yaml").read_text(encoding="utf-8"))
    for place in case["places"]
]
KUBEVIRTS_VALIDATION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/virt-api-validator"


@contextmanager
def ours_alone(world: World) -> Iterator[None]:
    """KubeVirt's own validation, which the tests' KubeVirt does by the same rules, is off while it lasts."""
    if world.kubevirt is None:
        yield
        return
    kept = world.plane.request("GET", KUBEVIRTS_VALIDATION)
    world.plane.request("DELETE", KUBEVIRTS_VALIDATION)
    try:
        yield
    finally:
        kept["metadata"] = {"name": kept["metadata"]["name"]}
        world.plane.request("POST", KUBEVIRTS_VALIDATION.rpartition("/")[0], kept)


def _object(case: Json) -> tuple[str, Json]:
    kind = case.get("kind", "VirtualMachineInstance")
    spec = (
        case["spec"]
        if kind == "VirtualMachineInstance"
        else {"runStrategy": "Always", "template": {"spec": case["spec"]}}
    )
    return f"{kind.lower()}s", {
        "kind": kind,
        "metadata": {"name": "bad", "annotations": case.get("annotations", {})},
        "spec": spec,
    }


@pytest.mark.parametrize(("place", "case"), DENIALS)
def test_a_bad_one_is_refused_with_its_causes(in_world: InWorld, place: str, case: Json) -> None:
    world = in_world(place)
    plural, body = _object(case)
    with ours_alone(world):
        name = f"{'vm' if plural == 'virtualmachines' else 'vmi'}.virt-dra.io"
        denied = (
            f'admission webhook "{name}" denied the request: {", ".join(cause["message"] for cause in case["causes"])}'
        )
        answer = world.eventually(lambda: world.post(plural, body), lambda answer: "virt-api" not in str(answer.body))
    assert answer.code == 422
    assert (answer.body["reason"], answer.body["message"]) == ("Invalid", denied)
    assert answer.body["details"]["causes"] == case["causes"]
    assert world.find(plural, "bad") is None


@pytest.fixture
def world(in_world: InWorld) -> World:
    return in_world(PLACE)


def test_what_a_vm_names_is_judged_too(world: World) -> None:
    """A finding is a warning and doesn't keep anything from being made: templates and classes may come later."""
    spec = {
        "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "missing"},
            {"name": "d", "resourceClaimTemplateName": "native"}],
        "domain": {"devices": {"gpus": [
            {"name": "g", "claimName": "c", "requestName": "r"},
            {"name": "h", "claimName": "d", "requestName": "other"},
        ]}},
    }  # fmt: skip
    body: Json = {"kind": "VirtualMachineInstance", "metadata": {"name": "w"}, "spec": spec}
    answer = world.post("virtualmachineinstances", body, "?dryRun=All")
    assert answer.code == 201
    assert list(answer.warnings) == [
        "spec.resourceClaims[0].resourceClaimTemplateName: [template-missing] there "
        'is no ResourceClaimTemplate "missing" in namespace '
        f"{world.namespace}. The VM doesn't start until it exists: create it, or correct the name",
        "spec.domain.devices.gpus[1].requestName: [request-missing] ResourceClaimTemplate "
        '"native" has no request "other": it has "gpu"; '
        "name one of them",
    ]
    silenced = {"name": "w", "annotations": {"virt-dra.io/lint-ignore": "template-missing,request-missing"}}
    body = {"kind": "VirtualMachineInstance", "metadata": silenced, "spec": spec}
    assert world.post("virtualmachineinstances", body, "?dryRun=All").warnings == ()


def test_the_configurations_are_as_installed_but_for_the_place(world: World) -> None:
    policies = {
        webhook["name"]: (webhook["failurePolicy"], "caBundle" in webhook["clientConfig"])
        for _, configuration in configurations(world.plane)
        for webhook in configuration["webhooks"]
    }
    assert policies == {
        "vmi.virt-dra.io": ("Ignore", True),
        "vm.virt-dra.io": ("Ignore", True),
        "launcher-pods.virt-dra.io": ("Fail", True),
        "profiles.virt-dra.io": ("Fail", True),
    }


def test_what_only_virt_dra_may_say_of_a_pod_is_not_taken_from_its_vmi(world: World) -> None:
    """KubeVirt copies a VMI's annotations to its pod, and users write those."""
    template = {"kind": "ResourceClaimTemplate", "metadata": {"name": "forged"}}
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "e2e-forged"}}]
    world.create("resourceclaimtemplates", {**template, "spec": {"spec": {"devices": {"requests": requests}}}})
    forged = {
        "virt-dra.io/integration": '{"format":1,"pairs":[{"claim":"gpu","request":"gpu","path":"native"}]}',
        "virt-dra.io/device-status": '{"gpuStatuses":[{"name":"gpu1"}]}',
        "metadata.virt-dra.io/gpu.gpu": '{"apiVersion":"metadata.resource.k8s.io/v1alpha1"}',
        "metadata.virt-dra.io/other.other": "{}",
        "addresses.virt-dra.io/ready": "true",
    }
    spec: Json = {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "forged"}],
        "domain": {"devices": {"gpus": [{"name": "gpu1", "claimName": "gpu", "requestName": "gpu"}]}},
    }
    metadata = {"name": "forged", "annotations": forged}
    world.create("virtualmachineinstances", {"kind": "VirtualMachineInstance", "metadata": metadata, "spec": spec})
    vmi = world.in_phase("forged", "Running")
    ours = {key for key in world.launcher_pod(vmi)["metadata"]["annotations"] if "virt-dra.io" in key}
    assert ours == {"virt-dra.io/integration", "metadata.virt-dra.io/gpu.gpu"}
    assert world.kubevirt is not None
    (device,) = world.kubevirt.domains[world.namespace, "forged"].hostdevs
    assert str(device.address) == "0000:65:00.0"
    told = world.eventually(
        lambda: world.get("virtualmachineinstances", "forged")["metadata"]["annotations"]["virt-dra.io/device-status"],
        lambda text: text != forged["virt-dra.io/device-status"],
    )
    assert "0000:65:00.0" in told


def test_during_an_outage_only_launcher_pods_with_claims_wait(world: World) -> None:
    world.in_phase("native", "Running")
    world.running.webhook.kill()
    try:
        template = {"kind": "ResourceClaimTemplate", "metadata": {"name": "outage"}}
        requests = [{"name": "gpu", "exactly": {"deviceClassName": "e2e-outage"}}]
        world.create("resourceclaimtemplates", {**template, "spec": {"spec": {"devices": {"requests": requests}}}})
        spec: Json = {
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "outage"}],
            "domain": {"devices": {"gpus": [{"name": "gpu1", "claimName": "gpu", "requestName": "gpu"}]}},
        }
        for name, given in (("during-outage", spec), ("during-outage-plain", {"domain": {"devices": {}}})):
            world.create(
                "virtualmachineinstances", {"kind": "VirtualMachineInstance", "metadata": {"name": name}, "spec": given}
            )
            assert world.warnings[name] == ()
        world.in_phase("during-outage-plain", "Running")

        def refused() -> str:
            conditions = world.get("virtualmachineinstances", "during-outage")["status"].get("conditions", ())
            return next(
                (condition["message"] for condition in conditions if condition.get("reason") == "FailedCreate"), ""
            )

        assert 'failed calling webhook "launcher-pods.virt-dra.io"' in world.eventually(refused)
        assert world.launcher_pods("during-outage") == []
        plain = {"kind": "Pod", "metadata": {"name": "plain"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        world.create("pods", plain)
        world.delete("pods", "plain?gracePeriodSeconds=0")
    finally:
        world.running.start_webhook()
    vmi = world.in_phase("during-outage", "Running")
    integration = world.launcher_pod(vmi)["metadata"]["annotations"]["virt-dra.io/integration"]
    assert '"path":"metadata-shim"' in integration
