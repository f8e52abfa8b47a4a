"""What a caller of whom nothing is verified learns from answers: nothing that depends on objects which the review
doesn't carry.

The same review is answered by knowledge of different clusters; the answers must be the same, byte by byte.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devtools.webhooks.serving import decide_body, launcher_pod, review, vm, vmi
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from webhooks.lint import LintInputs, Preflight
from webhooks.review import answer, read_review
from webhooks.validation import WEBHOOKS, verdict_on

Json = dict[str, Any]
NAMESPACE = "team-a"
UID = "5f0c8c0e-0000-4000-8000-000000000001"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
VERSIONS = ("1.8.1", "1.9.0")


def _requests(count: int = 1) -> Json:
    exactly = {
        "deviceClassName": "gpu",
        "count": count,
        "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
    }
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def _meta(name: str, **more: object) -> Json:
    return {"name": name, "namespace": NAMESPACE, "creationTimestamp": "2020-01-01T00:00:00Z", **more}


OBJECTS: tuple[TypedObject, ...] = (
    ResourceClaimTemplate.from_wire({"metadata": _meta("t"), "spec": {"spec": _requests()}}),
    ResourceClaimTemplate.from_wire({"metadata": _meta("several"), "spec": {"spec": _requests(3)}}),
    ResourceClaim.from_wire({"metadata": _meta("c1"), "spec": _requests()}),
    DeviceClass.from_wire(
        {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'x.example'"}}]}}
    ),
    ResourceSlice.from_wire(
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "n",
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "d"}],
            },
        }
    ),
    DeviceTaintRule.from_wire(
        {
            "metadata": {"name": "x"},
            "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "k", "effect": "NoSchedule"}},
        }
    ),
    VirtualMachine.from_wire(vm(namespace=NAMESPACE, uid=UID)),
    VirtualMachineInstance.from_wire(vmi(namespace=NAMESPACE, uid=UID)),
    KubeVirt.from_wire(
        {
            "metadata": {"name": "kubevirt"},
            "spec": {
                "configuration": {
                    "permittedHostDevices": {"pciHostDevices": [{"pciVendorSelector": "1:2", "resourceName": "a/b"}]}
                }
            },
        }
    ),
)


def _spec(*claims: Json, **more: object) -> Json:
    gpus = [
        {"name": f"g{number}", "claimName": claim["name"], "requestName": "r"} for number, claim in enumerate(claims)
    ]
    return {"resourceClaims": [*claims], "domain": {"devices": {"gpus": gpus, **more}}}


SPECS = (
    _spec({"name": "c", "resourceClaimTemplateName": "t"}),
    _spec({"name": "c", "resourceClaimTemplateName": "tt"}),
    _spec({"name": "c", "resourceClaimTemplateName": "several"}),
    _spec({"name": "c", "resourceClaimName": "c1"}),
    _spec({"name": "c", "resourceClaimName": "c2"}),
    _spec({"name": "c", "resourceClaimTemplateName": "t"}, {"name": "d", "resourceClaimName": "c1"}),
    _spec(hostDevices=[{"name": "h", "deviceName": "a/b"}]),
    {"domain": {"devices": {}}, "nodeSelector": {"a": "b"}},
)
OWNER = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "v", "controller": True}
PLUGIN = {"virt-dra.io/device-claims": json.dumps({"h": {"resourceClaimTemplateName": "t", "request": "r"}})}
PODS = tuple(
    launcher_pod(annotations={"kubevirt.io/domain": "v", **more}, ownerReferences=[{**OWNER, "uid": uid}])
    for uid in ("", "u1", UID.replace("1", "2"))
    for more in (
        {},
        {"virt-dra.io/integration-path": "native"},
        {"virt-dra.io/integration-path": "metadata-shim"},
        PLUGIN,
    )
)
REVIEWS: tuple[tuple[str, Json], ...] = (
    *(("/validate-vmi", review(vmi(spec, namespace=NAMESPACE))) for spec in SPECS),
    *(("/validate-vm", review(vm(spec, namespace=NAMESPACE))) for spec in SPECS),
    *(
        ("/validate-vm", review(vm(spec, namespace=NAMESPACE, uid=UID), vm(namespace=NAMESPACE, uid=UID)))
        for spec in SPECS
    ),
    *(
        ("/validate-vmi", review(vmi(spec, namespace=NAMESPACE, uid=UID), vmi(namespace=NAMESPACE, uid=UID)))
        for spec in SPECS
    ),
    *(("/mutate-launcher-pod", review(pod)) for pod in PODS),
)


def _knowledge(objects: tuple[TypedObject, ...], version: str) -> Preflight:
    world = LintInputs.from_objects(
        objects, version=KubeVirtVersion.parse(version), known_kinds=LintInputs().known_kinds
    )
    return Preflight(world, clock=lambda: NOW)


def _answers(knowledge: Preflight, path: str, asked: Json) -> bytes:
    return decide_body(WEBHOOKS[path], json.dumps(asked).encode(), knowledge)[1]


@given(st.sets(st.sampled_from(range(len(OBJECTS)))), st.sampled_from(REVIEWS), st.sampled_from(VERSIONS))
def test_answers_are_the_same_whatever_else_there_is(chosen: set[int], asked: tuple[str, Json], version: str) -> None:
    some = _knowledge(tuple(OBJECTS[number] for number in sorted(chosen)), version).for_unverified
    nothing = _knowledge((), version).for_unverified
    assert _answers(some, *asked) == _answers(nothing, *asked)


def test_a_verified_caller_is_told() -> None:
    """So that the test above could fail: the same objects make a difference for many of these reviews."""
    there, nothing = _knowledge(OBJECTS, "1.9.0"), _knowledge((), "1.9.0")
    differ = [path for path, asked in REVIEWS if _answers(there, path, asked) != _answers(nothing, path, asked)]
    assert {*differ} == {path for path, _ in REVIEWS}
    assert len(differ) > len(REVIEWS) / 3


def _patched(objects: tuple[TypedObject, ...], pod: Json) -> Json:
    knowledge = _knowledge(objects, "1.9.0").for_unverified
    asked = read_review(json.dumps(review(pod)).encode())
    response: Json = answer("u", verdict_on(WEBHOOKS["/mutate-launcher-pod"], asked, knowledge))["response"]
    return response


def _launcher(uid: str, template: str = "t") -> Json:
    pod = launcher_pod(ownerReferences=[{**OWNER, "uid": uid}])
    pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": template}]
    return pod


def test_a_launcher_pod_is_made_as_its_vmi_needs_it_if_it_has_the_vmis_uid() -> None:
    right = _patched(OBJECTS, _launcher(UID))
    assert right["allowed"]
    assert "patch" in right
    forged = _patched(OBJECTS, _launcher(UID.replace("1", "2")))
    unknown = _patched((), _launcher(UID))
    assert not forged["allowed"]
    assert forged == unknown, "a uid that is wrong is answered as one of a VMI that isn't there"
    assert "not known to this webhook yet" in forged["status"]["message"]


def test_with_a_vmis_uid_nothing_is_learnt_of_what_that_vmi_does_not_name() -> None:
    vmis = tuple(obj for obj in OBJECTS if isinstance(obj, VirtualMachineInstance))
    for template in ("several", "none"):
        assert _patched(OBJECTS, _launcher(UID, template)) == _patched(vmis, _launcher(UID, template))


@pytest.mark.parametrize("missing", [ResourceClaimTemplate, DeviceClass, ResourceSlice])
def test_with_a_vmis_uid_answers_name_no_class_and_no_driver(missing: type[TypedObject]) -> None:
    objects = tuple(obj for obj in OBJECTS if not isinstance(obj, missing))
    told = json.dumps(_patched(objects, _launcher(UID)))
    for name in ('\\"gpu\\"', "gpu.example.com", "x.example"):
        assert name not in told
