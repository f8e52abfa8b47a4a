"""Objects of all versions are read, kept whole, and written (C-18.1)."""

from __future__ import annotations

import pytest

from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimConsumerReference
from virt_dra.api.wire import Json, WireError
from virt_dra.classic.objects import ClassicClaim, ClassicDeviceClass, PodSchedulingContext
from virt_dra.classic.pod_claims import is_reservable
from virt_dra.classic.versions import read_classic, write_classic

V1 = "resource.k8s.io/v1alpha1"
V2 = "resource.k8s.io/v1alpha2"
V3 = "resource.k8s.io/v1alpha3"
NODES = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}

ROUND_TRIPS: dict[str, Json] = {
    "class of 1.26": {
        "apiVersion": V1, "kind": "ResourceClass", "metadata": {"name": "c"}, "driverName": "d.io", "new": [1],
        "suitableNodes": NODES
    },
    "claim of 1.26": {
        "apiVersion": V1, "kind": "ResourceClaim", "metadata": {"name": "c", "x": 1},
        "spec": {"resourceClassName": "c", "new": True},
        "status": {"driverName": "d.io",
            "allocation": {"resourceHandle": "opaque", "availableOnNodes": NODES, "new": 1}},
    },
    "scheduling of 1.26": {
        "apiVersion": V1, "kind": "PodScheduling", "metadata": {"name": "p"},
        "spec": {"selectedNode": "n1", "potentialNodes": ["n1"]},
        "status": {"resourceClaims": [{"name": "e", "unsuitableNodes": ["n2"], "new": 1}]},
    },
    "claim of 1.27": {
        "apiVersion": V2, "kind": "ResourceClaim", "metadata": {"name": "c"},
        "spec": {"resourceClassName": "c", "allocationMode": "Immediate",
            "parametersRef": {"kind": "ConfigMap", "name": "m", "new": 1}},
        "status": {"allocation": {"resourceHandles": [{"driverName": "a.io", "data": "1"},
            {"driverName": "b.io", "new": 2}]}},
    },
    "template": {
        "apiVersion": V2, "kind": "ResourceClaimTemplate", "metadata": {"name": "t"},
        "spec": {"metadata": {"labels": {"a": "b"}}, "spec": {"resourceClassName": "c"}, "new": []},
    },
    "slice of 1.30": {
        "apiVersion": V2, "kind": "ResourceSlice", "metadata": {"name": "s"}, "nodeName": "n1", "driverName": "d.io",
        "namedResources": {"instances": [{"name": "i", "attributes": [
            {"name": "b", "bool": True}, {"name": "i", "int": 3}, {"name": "l", "intSlice": {"ints": []}},
            {"name": "q", "quantity": "1Gi"}, {"name": "s", "string": "x"},
            {"name": "t", "stringSlice": {"strings": ["x"]}}, {"name": "v", "version": "1.0.0", "new": 1},
        ]}]},
    },
    "class parameters of 1.30": {
        "apiVersion": V2, "kind": "ResourceClassParameters", "metadata": {"name": "p"},
        "generatedFrom": {"kind": "K", "name": "n"},
        "filters": [{"driverName": "d.io", "namedResources": {"selector": "true"}}],
        "vendorParameters": [{"driverName": "d.io", "parameters": {"any": "thing"}}],
    },
    "claim parameters of 1.30": {
        "apiVersion": V2, "kind": "ResourceClaimParameters", "metadata": {"name": "p"}, "shareable": True,
        "driverRequests": [{"driverName": "d.io",
            "requests": [{"vendorParameters": {"x": 1}, "namedResources": {"selector": "true"}}]}],
    },
    "claim of 1.31": {
        "apiVersion": V3, "kind": "ResourceClaim", "metadata": {"name": "c"},
        "spec": {"controller": "d.io", "devices": {"requests": [{"name": "r", "deviceClassName": "c", "new": 1}]}},
        "status": {"allocation": {"controller": "d.io", "nodeSelector": NODES, "devices": {"results": []}},
            "reservedFor": [{"name": "p"}]},
    },
    "class of 1.31": {"apiVersion": V3, "kind": "DeviceClass", "metadata": {"name": "c"},
        "spec": {"suitableNodes": NODES, "new": 1}},
    "context of 1.31": {"apiVersion": V3, "kind": "PodSchedulingContext", "metadata": {"name": "p"},
        "spec": {"selectedNode": "n"}},
}  # fmt: skip


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_objects_of_every_version_survive_with_what_nobody_knows(name: str) -> None:
    """C-18.1."""
    raw = ROUND_TRIPS[name]
    assert write_classic(read_classic(raw), raw["apiVersion"]) == raw


def test_versions_differ_in_names_and_shapes_and_mean_the_same() -> None:
    """C-18.1: PodScheduling; one handle of the claim's driver; controller and nodeSelector."""
    context = read_classic(ROUND_TRIPS["scheduling of 1.26"])
    assert isinstance(context, PodSchedulingContext)
    assert (context.spec.selected_node, context.unsuitable("e"), context.unsuitable("f")) == (
        "n1",
        frozenset({"n2"}),
        None,
    )
    assert write_classic(context)["kind"] == "PodSchedulingContext"
    old = read_classic(ROUND_TRIPS["claim of 1.26"])
    assert write_classic(old)["status"]["allocation"]["resourceHandles"] == [{"driverName": "d.io", "data": "opaque"}]
    new = read_classic(ROUND_TRIPS["claim of 1.31"])
    assert isinstance(new, ClassicClaim)
    assert new.status.allocation is not None
    assert new.status.driver_name == "d.io"
    used = new.with_(status=new.status.with_(reserved_for=(ResourceClaimConsumerReference(name="p", uid="1"),)))
    assert is_reservable(used)
    assert new.status.allocation.available_on_nodes is not None


def test_a_claim_of_131_without_a_controller_is_not_classic() -> None:
    """C-18.1: it is read as every other claim."""
    raw = {**ROUND_TRIPS["claim of 1.31"], "spec": {"devices": {"requests": []}}, "status": {}}
    assert isinstance(read_classic(raw), ResourceClaim)
    assert isinstance(read_classic(ROUND_TRIPS["class of 1.31"]), ClassicDeviceClass)


REFUSED = (
    (
        "claim of 1.27",
        V1,
        "status.allocation.resourceHandles: resource.k8s.io/v1alpha1 has one opaque handle, of the claim's driver",
    ),
    (
        "claim of 1.27",
        V3,
        "spec.resourceClassName: resource.k8s.io/v1alpha3 has claims with a controller, without class and mode",
    ),
    ("claim of 1.31", V2, "spec.controller: resource.k8s.io/v1alpha2 knows the driver by the class only"),
    ("slice of 1.30", V1, "apiVersion: resource.k8s.io/v1alpha1 has no ResourceSlice"),
    ("class of 1.31", V2, "apiVersion: resource.k8s.io/v1alpha2 has no DeviceClass"),
    ("class of 1.26", "resource.k8s.io/v1", "apiVersion: resource.k8s.io/v1 has no ResourceClass"),
)


@pytest.mark.parametrize(("name", "version", "text"), REFUSED)
def test_what_a_version_cant_express_is_refused_with_its_path(name: str, version: str, text: str) -> None:
    """C-18.1."""
    with pytest.raises(WireError) as refused:
        write_classic(read_classic(ROUND_TRIPS[name]), version)
    assert str(refused.value) == text


@pytest.mark.parametrize("raw", [
    {"apiVersion": V1, "kind": "ResourceClaim", "status": {"allocation": {"resourceHandle": {"a": 1}}}},
    {"apiVersion": V1, "kind": "ResourceClaim", "status": {"allocation": [1]}},
    {"apiVersion": V3, "kind": "ResourceClaim", "spec": {"controller": 7}, "status": {"allocation": {}}},
    {"apiVersion": V2, "kind": "ResourceClaim", "spec": "x"},
    {"apiVersion": V2, "kind": "PodSchedulingContext", "spec": {"potentialNodes": "n1"}},
])  # fmt: skip
def test_wrong_shapes_are_named_not_raised_through(raw: Json) -> None:
    """C-18.1: bad input."""
    with pytest.raises(WireError):
        read_classic(raw)
