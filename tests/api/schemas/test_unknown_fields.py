"""Fields that don't exist: found where they stand, in the version that the object names, and in no object that is
right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.random_objects import RANDOMS, random_object
from virt_dra.api import resource_v1
from virt_dra.api.conversion import from_v1
from virt_dra.api.schemas.unknown_fields import FOUND_MAX, unknown_fields

KINDS = (
    resource_v1.ResourceClaim,
    resource_v1.ResourceClaimTemplate,
    resource_v1.ResourceSlice,
    resource_v1.DeviceClass,
    resource_v1.DeviceTaintRule,
)


def _template(version: str, *requests: Any, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t"},
        "spec": {"spec": {"devices": {"requests": list(requests)}}, **more},
    }


def _slice(version: str, device: Any) -> dict[str, Any]:
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceSlice", "spec": {"devices": [device]}}


MODE = 'unknown field, did you mean "allocationMode"?'
UNDER_EXACTLY = "unknown field; put it under exactly, or say apiVersion: resource.k8s.io/v1beta1, which has it here"
REQUEST = "spec.spec.devices.requests[0]"


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (_template("v1", {"name": "a", "deviceClassName": "c"}), {f"{REQUEST}.deviceClassName": UNDER_EXACTLY}),
        (
            _template("v1", {"name": "a", "alocationMode": "All"}),
            {f"{REQUEST}.alocationMode": 'unknown field, did you mean "exactly.allocationMode"?'},
        ),
        (_template("v1beta2", {"name": "a", "count": 1}), {f"{REQUEST}.count": UNDER_EXACTLY}),
        (_template("v1beta1", {"name": "a", "deviceClassName": "c"}), {}),
        (
            _template("v1beta1", {"name": "a", "exactly": {"deviceClassName": "c"}}),
            {
                f"{REQUEST}.exactly": "unknown field; this version has its members beside name; put them there, "
                "or say apiVersion: resource.k8s.io/v1"
            },
        ),
        (
            _template("v1", {"name": "a", "exactly": {"deviceClassName": "c", "alocationMode": "All"}}),
            {f"{REQUEST}.exactly.alocationMode": MODE},
        ),
        (
            _template("v1beta1", {"name": "a", "alocationMode": "All"}),
            {f"{REQUEST}.alocationMode": MODE},
        ),
        (
            _template("v1", devices={}),
            {
                "spec.devices": "unknown field; a template has the spec of its claims "
                "one level deeper: spec.spec.devices"
            },
        ),
        (
            _slice("v1", {"name": "d", "basic": {}}),
            {
                "spec.devices[0].basic": "unknown field; put its members into the device, "
                "or say apiVersion: resource.k8s.io/v1beta1, which has it here"
            },
        ),
        (_slice("v1beta1", {"name": "d", "basic": {"attributes": {"a": {"string": "x"}}}}), {}),
        (
            _slice("v1beta1", {"name": "d", "basic": {"atributes": {}}}),
            {"spec.devices[0].basic.atributes": 'unknown field, did you mean "attributes"?'},
        ),
        (_slice("v1alpha3", {"name": "d", "basic": {"capacity": {"memory": "80Gi"}}}), {}),
        (
            _slice("v1", {"name": "d", "attributes": {"a": {"text": "x"}}}),
            {"spec.devices[0].attributes.a.text": "unknown field"},
        ),
        ({**_template("v1"), "metadata": {"lables": {}}}, {"metadata.lables": 'unknown field, did you mean "labels"?'}),
        (
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "spec": {"resourceClaims": [{"name": "a", "source": {}}], "whatever": 1},
            },
            {
                "spec.resourceClaims[0].source": "unknown field; write what is in it, resourceClaimName "
                "or resourceClaimTemplateName, "
                "beside name (Kubernetes had source until 1.30)"
            },
        ),
        (
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "spec": {"containers": [{"resources": {"claims": [{"name": "a", "requests": "b"}]}}]},
            },
            {"spec.containers[0].resources.claims[0].requests": 'unknown field, did you mean "request"?'},
        ),
        ({"apiVersion": "apps/v1", "kind": "Deployment", "x": 1}, {}),
        ({"apiVersion": "resource.k8s.io/v1", "kind": 3}, {}),
        ({"apiVersion": "resource.k8s.io/v1", "kind": []}, {}),
        ({"apiVersion": {}, "kind": "Pod"}, {}),
        (_template("v1", 3, None, {"name": {"a": 1}}, config=[]), {"spec.config": "unknown field"}),
        ([], {}),
    ],
)
def test_unknown_fields(raw: Any, found: dict[str, str]) -> None:
    assert {field.path: field.message for field in unknown_fields(raw)} == found


def test_of_very_many_only_some_are_told() -> None:
    raw = {**_template("v1"), "spec": {f"x{n}": 1 for n in range(10_000)}}
    assert len(unknown_fields(raw)) == FOUND_MAX


@given(RANDOMS, st.sampled_from(KINDS), st.sampled_from(["v1", "v1beta2", "v1beta1", "v1alpha3"]))
def test_only_fields_of_the_future_are_unknown(rng: Any, kind: Any, version: str) -> None:
    raw = random_object(kind, rng)
    if kind is not resource_v1.DeviceTaintRule or version != "v1beta1":
        raw = from_v1(raw, f"resource.k8s.io/{version}")
    assert {field.path.rpartition(".")[2] for field in unknown_fields(raw)} <= {"fieldOfTheFuture", "exactly"}
