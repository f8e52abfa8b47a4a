"""Older API versions read as v1 and written back (A-22.1..A-22.3, K-1.10)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from virt_dra.api.conversion import from_v1, to_v1
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.wire import Json, WireError

CLASSIC = (
    "belongs to classic DRA, where a driver's controller allocates; "
    "Kubernetes removed it in 1.32 and it is not supported"
)


def dra(version: str, kind: str, **rest: Any) -> Json:
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": "x"}, **rest}


def claim(version: str, *requests: Json) -> Json:
    return dra(version, "ResourceClaim", spec={"devices": {"requests": list(requests)}})


def resource_slice(version: str, *devices: Json, **spec: Any) -> Json:
    return dra(version, "ResourceSlice", spec={"driver": "d", **spec, "devices": list(devices)})


INLINED: Json = {
    "deviceClassName": "gpu.example.com",
    "selectors": [{"cel": {"expression": "true"}}],
    "allocationMode": "ExactCount",
    "count": 2,
    "adminAccess": False,
    "tolerations": [{"key": "k"}],
    "capacity": {"requests": {"memory": "1Gi"}},
    "derivedAttributes": [{"name": "a/b", "expression": "1"}],
}
ALTERNATIVE: Json = {"name": "big", "deviceClassName": "c", "count": 1}


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta1"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"name": "r", **INLINED}, {"name": "r", "exactly": INLINED}),
        ({"name": "r", "firstAvailable": [ALTERNATIVE]}, {"name": "r", "firstAvailable": [ALTERNATIVE]}),
        ({"name": "r"}, {"name": "r"}),
        (
            {"name": "r", "deviceClassName": "c", "future": 1},
            {"name": "r", "future": 1, "exactly": {"deviceClassName": "c"}},
        ),
    ],
)
def test_a_requests_exact_part_is_wrapped_and_inlined_again(version: str, old: Json, new: Json) -> None:
    assert to_v1(claim(version, old)) == claim("v1", new)
    assert from_v1(claim("v1", new), f"resource.k8s.io/{version}") == claim(version, old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            {"name": "r", "deviceClassName": "", "count": 0, "firstAvailable": [ALTERNATIVE]},
            {"name": "r", "firstAvailable": [ALTERNATIVE]},
        ),
        ({"name": "r", "adminAccess": False}, {"name": "r", "exactly": {"adminAccess": False}}),
        ({"name": "r", "selectors": []}, {"name": "r", "exactly": {"selectors": []}}),
        ({"name": "r", "selectors": None}, {"name": "r"}),
        ({"name": "r", "deviceClassName": "c", "tolerations": []}, {"name": "r", "exactly": {"deviceClassName": "c"}}),
        (
            {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c", "tolerations": []}]},
            {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c"}]},
        ),
        (
            {"name": "r", "deviceClassName": "c", "exactly": {"deviceClassName": "c", "count": 2}},
            {"name": "r", "exactly": {"deviceClassName": "c", "count": 2}},
        ),
    ],
)
def test_what_counts_as_set(old: Json, new: Json) -> None:
    assert to_v1(claim("v1beta1", old)) == claim("v1", new)


def test_a_template_is_converted_below_its_inner_spec() -> None:
    old = dra(
        "v1beta1",
        "ResourceClaimTemplate",
        spec={"spec": {"devices": {"requests": [{"name": "r", **INLINED}]}}, "metadata": {}},
    )
    new = dra(
        "v1",
        "ResourceClaimTemplate",
        spec={"spec": {"devices": {"requests": [{"name": "r", "exactly": INLINED}]}}, "metadata": {}},
    )
    assert to_v1(old) == new
    assert from_v1(new, "resource.k8s.io/v1beta1") == old


ATTRIBUTES: Json = {"model": {"string": "a100"}}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            {"name": "d", "basic": {"attributes": ATTRIBUTES, "future": 1}},
            {"name": "d", "attributes": ATTRIBUTES, "future": 1},
        ),
        ({"name": "d", "basic": {}}, {"name": "d"}),
        (
            {"name": "d", "basic": {"capacity": {"memory": {"value": "1Gi", "requestPolicy": {"default": "1"}}}}},
            {"name": "d", "capacity": {"memory": {"value": "1Gi", "requestPolicy": {"default": "1"}}}},
        ),
    ],
)
def test_a_devices_fields_move_out_of_basic_and_back(old: Json, new: Json) -> None:
    assert to_v1(resource_slice("v1beta1", old)) == resource_slice("v1", new)
    assert from_v1(resource_slice("v1", new), "resource.k8s.io/v1beta1") == resource_slice("v1beta1", old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"name": "d"}, {"name": "d"}),
        ({"name": "d", "attributes": ATTRIBUTES}, {"name": "d", "attributes": ATTRIBUTES}),
        ({"name": "d", "basic": {"taints": [], "consumesCounters": []}}, {"name": "d"}),
        ({"name": "d", "basic": None}, {"name": "d"}),
    ],
)
def test_a_device_without_basic_keeps_what_it_has(old: Json, new: Json) -> None:
    assert to_v1(resource_slice("v1beta1", old)) == resource_slice("v1", new)


def test_an_empty_node_name_and_all_nodes_false_mean_absent() -> None:
    old = resource_slice("v1beta1", nodeName="", allNodes=False, perDeviceNodeSelection=True)
    assert to_v1(old) == resource_slice("v1", perDeviceNodeSelection=True)
    assert to_v1(resource_slice("v1beta1", nodeName="n", allNodes=True)) == resource_slice(
        "v1", nodeName="n", allNodes=True
    )
    unchanged = resource_slice("v1", nodeName="", allNodes=False)
    assert to_v1(unchanged) is unchanged


def test_the_first_alpha_wrote_capacities_as_bare_quantities() -> None:
    old = resource_slice(
        "v1alpha3", {"name": "d", "basic": {"capacity": {"memory": "80Gi", "cores": 7, "new": {"value": "1"}}}}
    )
    new = resource_slice(
        "v1", {"name": "d", "capacity": {"memory": {"value": "80Gi"}, "cores": {"value": 7}, "new": {"value": "1"}}}
    )
    assert to_v1(old) == new
    back = from_v1(new, "resource.k8s.io/v1alpha3")
    assert back["spec"]["devices"] == [{"name": "d", "basic": {"capacity": {"memory": "80Gi", "cores": 7, "new": "1"}}}]
    assert to_v1(back) == new


@pytest.mark.parametrize(
    "kind", ["ResourceClaim", "ResourceSlice", "DeviceClass", "ResourceClaimTemplate", "DeviceTaintRule"]
)
def test_the_second_beta_differs_by_its_name_only(kind: str) -> None:
    spec = {"devices": [{"name": "d", "basic": {"kept": True}}], "anything": [1]}
    assert to_v1(dra("v1beta2", kind, spec=spec)) == dra("v1", kind, spec=spec)
    assert from_v1(dra("v1", kind, spec=spec), "resource.k8s.io/v1beta2") == dra("v1beta2", kind, spec=spec)


def test_tolerations_of_results_are_treated_like_those_of_requests() -> None:
    status = {
        "allocation": {
            "devices": {
                "results": [{"request": "r", "tolerations": []}, {"request": "s", "tolerations": [{"key": "k"}]}]
            }
        }
    }
    results = to_v1(dra("v1beta1", "ResourceClaim", status=status))["status"]["allocation"]["devices"]["results"]
    assert results == [{"request": "r"}, {"request": "s", "tolerations": [{"key": "k"}]}]


def test_a_pool_request_stays_in_its_only_version() -> None:
    request = dra("v1alpha3", "ResourcePoolStatusRequest", spec={"driver": "d"})
    assert to_v1(request) is request
    assert read_object(request).to_wire() == request


@pytest.mark.parametrize(
    "kind", ["VirtualMachine", "VirtualMachineInstance", "KubeVirt", "VirtualMachineInstanceReplicaSet"]
)
def test_kubevirts_alpha_differs_by_its_name_only(kind: str) -> None:
    old: Json = {"apiVersion": "kubevirt.io/v1alpha3", "kind": kind, "spec": {"x": [1]}}
    new = old | {"apiVersion": "kubevirt.io/v1"}
    assert to_v1(old) == new
    assert from_v1(new, "kubevirt.io/v1alpha3") == old


@pytest.mark.parametrize(
    ("api_version", "kind", "nest"),
    [
        ("v1", "Pod", lambda claims: {"resourceClaims": claims}),
        ("kubevirt.io/v1", "VirtualMachineInstance", lambda claims: {"resourceClaims": claims}),
        ("kubevirt.io/v1alpha3", "VirtualMachine", lambda claims: {"template": {"spec": {"resourceClaims": claims}}}),
    ],
)
def test_the_nested_claim_source_of_old_examples_is_flattened(api_version: str, kind: str, nest: Any) -> None:
    old = {
        "apiVersion": api_version,
        "kind": kind,
        "spec": nest([{"name": "g", "source": {"resourceClaimTemplateName": "t", "future": 1}}]),
    }
    flat = nest([{"name": "g", "source": {"future": 1}, "resourceClaimTemplateName": "t"}])
    assert to_v1(old)["spec"] == flat


def test_a_list_stays_as_it_is() -> None:
    listed = dra("v1beta1", "ResourceClaimList", items=[{"spec": {}}])
    assert to_v1(listed) is listed
    assert from_v1(listed, "resource.k8s.io/v1") is listed


@pytest.mark.parametrize(
    "raw",
    [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": {"resourceClaims": [{"source": {"resourceClaimName": "c"}}]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "spec": {"controller": "kept, as any unknown field"},
        },
        {"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineInstancetype"},
        {"apiVersion": 7, "kind": "Pod"},
        {"kind": "Pod"},
        {},
    ],
)
def test_what_is_no_older_version_comes_back_untouched(raw: Json) -> None:
    assert to_v1(raw) is raw


REFUSED: list[tuple[Json, str]] = [
    (
        dra("v1alpha2", "ResourceClaim"),
        f"apiVersion: resource.k8s.io/v1alpha2 {CLASSIC}; supported are v1, v1beta2, v1beta1, v1alpha3",
    ),
    (
        dra("v2", "ResourceClaim"),
        "apiVersion: resource.k8s.io/v2 is not supported; supported are v1, v1beta2, v1beta1, v1alpha3",
    ),
    (dra("v1alpha2", "ResourceClass"), f"kind: ResourceClass {CLASSIC}"),
    (dra("v1alpha3", "PodSchedulingContext"), f"kind: PodSchedulingContext {CLASSIC}"),
    (
        dra(
            "v1alpha3",
            "ResourceClaim",
            spec={"controller": "c"},
            status={"allocation": {"controller": "c"}, "deallocationRequested": True},
        ),
        f"spec.controller: {CLASSIC}; status.allocation.controller: {CLASSIC}; status.deallocationRequested: {CLASSIC}",
    ),
    (dra("v1alpha3", "ResourceClaimTemplate", spec={"spec": {"controller": "c"}}), f"spec.spec.controller: {CLASSIC}"),
    (
        dra("v1alpha3", "DeviceClass", spec={"suitableNodes": {"nodeSelectorTerms": []}}),
        f"spec.suitableNodes: {CLASSIC}",
    ),
    (
        dra("v1alpha3", "DeviceTaintRule", spec={"deviceSelector": {"deviceClassName": "c"}}),
        "spec.deviceSelector.deviceClassName: was removed in Kubernetes 1.35 and "
        "is not supported; select by driver, pool and device",
    ),
    (
        dra("v1beta1", "DeviceTaintRule"),
        "apiVersion: DeviceTaintRule does not exist in resource.k8s.io/v1beta1; it does in v1, v1beta2, v1alpha3",
    ),
    (
        dra("v1", "ResourcePoolStatusRequest"),
        "apiVersion: ResourcePoolStatusRequest does not exist in resource.k8s.io/v1; it does in v1alpha3",
    ),
    (dra("v1", "ResourceThing"), "kind: resource.k8s.io/v1 has no kind ResourceThing"),
    (
        {"apiVersion": "kubevirt.io/v1beta1", "kind": "VirtualMachine"},
        "apiVersion: 'kubevirt.io/v1beta1' is not supported; supported are kubevirt.io/v1 and v1alpha3",
    ),
    (
        claim("v1beta1", {"name": "r"}, {"name": "s", "count": 1, "exactly": {"count": 2}}),
        "spec.devices.requests[1].exactly.count: differs from count beside exactly; give only one of them",
    ),
    (
        resource_slice("v1beta1", {"name": "d", "allNodes": True, "basic": {"name": "e", "allNodes": False}}),
        "spec.devices[0].basic.name: differs from name beside basic; give only one of them",
    ),
    (
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "spec": {"resourceClaims": [{"resourceClaimName": "a", "source": {"resourceClaimName": "b"}}]},
        },
        "spec.resourceClaims[0].source.resourceClaimName: differs from "
        "resourceClaimName beside source; give only one of them",
    ),
]


@pytest.mark.parametrize(("raw", "message"), REFUSED, ids=[message[:60] for _, message in REFUSED])
def test_what_is_refused_says_why(raw: Json, message: str) -> None:
    with pytest.raises(WireError) as refused:
        to_v1(raw)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("raw", "version", "message"),
    [
        (
            dra("v1", "DeviceTaintRule"),
            "resource.k8s.io/v1beta1",
            "apiVersion: DeviceTaintRule does not exist in resource.k8s.io/v1beta1; it does in v1, v1beta2, v1alpha3",
        ),
        (
            dra("v1", "ResourceClaim"),
            "kubevirt.io/v1",
            "apiVersion: 'resource.k8s.io/v1' cannot be written as 'kubevirt.io/v1'",
        ),
        ({"apiVersion": "v1", "kind": "Pod"}, "v2", "apiVersion: 'v1' cannot be written as 'v2'"),
        (
            {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt"},
            "kubevirt.io/v3",
            "apiVersion: 'kubevirt.io/v3' is not supported; supported are kubevirt.io/v1 and v1alpha3",
        ),
    ],
)
def test_what_cannot_be_written_says_why(raw: Json, version: str, message: str) -> None:
    with pytest.raises(WireError) as refused:
        from_v1(raw, version)
    assert str(refused.value) == message


MALFORMED: list[Any] = [None, 1, "x", [], {}, [1], [None], [[]], {"a": 1}, True]


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta1", "v1beta2", "v1"])
@pytest.mark.parametrize("wrong", MALFORMED, ids=repr)
def test_a_value_of_the_wrong_type_is_left_for_the_reader(version: str, wrong: Any) -> None:
    for kind in ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass"):
        shapes = [
            wrong,
            {"spec": wrong, "devices": wrong},
            {"devices": {"requests": wrong, "results": wrong}, "spec": {"devices": wrong}},
            {"devices": [{"name": wrong, "basic": wrong, "capacity": wrong}], "nodeName": wrong, "allNodes": wrong},
            {
                "devices": {
                    "requests": [
                        {"name": wrong, "exactly": wrong, "firstAvailable": wrong, "tolerations": wrong, "count": 1}
                    ]
                }
            },
        ]
        for shape in shapes:
            raw = dra(version, kind, spec=shape, status=shape)
            before = copy.deepcopy(raw)
            assert to_v1(raw)["apiVersion"] == "resource.k8s.io/v1"
            assert from_v1(to_v1(raw), f"resource.k8s.io/{version}")["kind"] == kind
            assert raw == before


def test_reading_reports_the_wrong_type_with_its_path() -> None:
    with pytest.raises(WireError) as refused:
        read_object(resource_slice("v1beta1", {"name": 7, "basic": {"attributes": []}}, {"name": "b", "basic": 1}))
    assert refused.value.problems == (
        ("spec.devices[0].name", "must be a string, not an integer"),
        ("spec.devices[0].attributes", "must be an object, not a list"),
    )


def test_the_input_is_never_changed() -> None:
    for raw in (
        claim("v1beta1", {"name": "r", **INLINED}),
        resource_slice("v1alpha3", {"name": "d", "basic": {"capacity": {"m": "1"}}}),
    ):
        before = copy.deepcopy(raw)
        converted = to_v1(raw)
        assert raw == before
        between = copy.deepcopy(converted)
        from_v1(converted, "resource.k8s.io/v1beta1")
        assert converted == between
