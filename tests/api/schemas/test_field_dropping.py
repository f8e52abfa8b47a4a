"""Fields of gates that are off (A-2.5, C-13.4). A real API server's answers are in
tests/cluster/memory/recorded/gates.jsonl; here are the gates that a 1.37 server no longer lets anyone switch off, and
what holds for every object.
"""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.random_objects import RANDOMS, random_object
from tests.sampling import sample
from virt_dra.api.feature_gates import FeatureGates
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.scheme import all_kinds, read_object
from virt_dra.api.resource_v1 import (
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
    ResourcePoolStatusRequest,
    ResourcePoolStatusRequestSpec,
    ResourceSlice,
)
from virt_dra.api.schemas.field_dropping import without_disabled_fields, without_disabled_status
from virt_dra.api.wire import Json

GATES = st.builds(FeatureGates, **{field.name: st.booleans() for field in fields(FeatureGates)})
KINDS_WITH_GATES = (ResourceClaim, ResourceClaimTemplate, ResourceSlice, DeviceClass, ResourcePoolStatusRequest)


@pytest.mark.slow
@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.__name__)
@settings(max_examples=sample(15))
@given(rng=RANDOMS)
def test_with_every_gate_on_nothing_is_lost(kind: type[TypedObject], rng: Random) -> None:
    new, old = read_object(random_object(kind, rng)), read_object(random_object(kind, rng))
    assert without_disabled_fields(new, None, FeatureGates.all()) is new
    assert without_disabled_fields(new, old, FeatureGates.all()) is new
    assert without_disabled_status(new, old, FeatureGates.all()) is new


@pytest.mark.parametrize("kind", KINDS_WITH_GATES, ids=lambda kind: kind.__name__)
@settings(max_examples=sample(60))
@given(rng=RANDOMS, gates=GATES)
def test_dropping_is_done_once_and_keeps_what_is_in_use(
    kind: type[TypedObject], rng: Random, gates: FeatureGates
) -> None:
    new = read_object(random_object(kind, rng))
    dropped = without_disabled_fields(new, None, gates)
    assert type(dropped) is kind
    assert without_disabled_fields(dropped, None, gates) == dropped
    assert without_disabled_fields(dropped, dropped, gates) == dropped
    assert without_disabled_fields(new, new, gates) == without_disabled_fields(new, new, FeatureGates.all())
    status = without_disabled_status(new, dropped, gates)
    assert without_disabled_status(status, dropped, gates) == status
    assert without_disabled_status(new, new, gates) == new


def a_request(**fields: object) -> DeviceRequest:
    return DeviceRequest(
        name="r", exactly=ExactDeviceRequest.model_validate({"device_class_name": "c", **fields}, by_name=True)
    )


ALTERNATIVES = DeviceRequest(name="f", first_available=(DeviceSubRequest(name="a", device_class_name="c"),))


def a_claim(*requests: DeviceRequest, status: ResourceClaimStatus | None = None) -> ResourceClaim:
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=requests))
    return ResourceClaim(spec=spec) if status is None else ResourceClaim(spec=spec, status=status)


def a_template(*requests: DeviceRequest) -> ResourceClaimTemplate:
    return ResourceClaimTemplate(spec=ResourceClaimTemplateSpec(spec=a_claim(*requests).spec))


def a_class(spec: DeviceClassSpec) -> DeviceClass:
    return DeviceClass(spec=spec)


@pytest.mark.parametrize(
    ("gate", "full", "bare"),
    [
        ("prioritized_list", a_claim(ALTERNATIVES), a_claim(DeviceRequest(name="f"))),
        ("prioritized_list", a_template(ALTERNATIVES), a_template(DeviceRequest(name="f"))),
        ("admin_access", a_claim(a_request(admin_access=False)), a_claim(a_request())),
        ("admin_access", a_template(a_request(admin_access=True)), a_template(a_request())),
        (
            "extended_resource",
            a_class(DeviceClassSpec(extended_resource_name="example.com/gpu")),
            a_class(DeviceClassSpec()),
        ),
        (
            "partitionable_devices_type",
            ResourcePoolStatusRequest(
                spec=ResourcePoolStatusRequestSpec(driver="d", default_partition_type_attribute="a.b/t")
            ),
            ResourcePoolStatusRequest(spec=ResourcePoolStatusRequestSpec(driver="d")),
        ),
    ],
)
def test_a_gate_that_is_off_takes_its_fields_unless_they_are_stored(
    gate: str, full: TypedObject, bare: TypedObject
) -> None:
    off = replace(FeatureGates.all(), **{gate: False})
    assert without_disabled_fields(full, None, off).to_wire() == bare.to_wire()
    assert without_disabled_fields(full, bare, off).to_wire() == bare.to_wire()
    assert without_disabled_fields(full, full, off) is full


RESULT = DeviceRequestAllocationResult(request="r", driver="d", pool="p", device="x")


def allocated(
    *results: DeviceRequestAllocationResult, devices: tuple[AllocatedDeviceStatus, ...] | None = None
) -> ResourceClaimStatus:
    status = ResourceClaimStatus(allocation=AllocationResult(devices=DeviceAllocationResult(results=results)))
    return status if devices is None else status.with_(devices=devices)


DATA = AllocatedDeviceStatus(driver="d", pool="p", device="x")


@pytest.mark.parametrize(
    ("gate", "full", "bare"),
    [
        ("device_status", allocated(RESULT, devices=(DATA,)), allocated(RESULT)),
        ("admin_access", allocated(RESULT.with_(admin_access=True)), allocated(RESULT)),
        (
            "consumable_capacity",
            allocated(RESULT.with_(share_id="s", consumed_capacity={}), devices=(DATA.with_(share_id="s"),)),
            allocated(RESULT, devices=(DATA,)),
        ),
        (
            "device_binding_conditions",
            allocated(RESULT.with_(binding_conditions=("a",), binding_failure_conditions=("b",))),
            allocated(RESULT),
        ),
        ("optional_node_operations", allocated(RESULT.with_(skip_node_operations=("*",))), allocated(RESULT)),
    ],
)
def test_so_it_does_in_a_claims_status(gate: str, full: ResourceClaimStatus, bare: ResourceClaimStatus) -> None:
    off = replace(FeatureGates.all(), **{gate: False})
    new, old = a_claim(a_request(), status=full), a_claim(a_request(), status=bare)
    assert without_disabled_status(new, old, off).to_wire() == old.to_wire()
    assert without_disabled_status(new, new, off) is new


@pytest.mark.parametrize(
    ("gate", "fields"),
    [
        ("extended_resource", {"extendedResourceClaimStatus": {"resourceClaimName": "x"}}),
        ("node_allocatable_resources", {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "x"}]}),
    ],
)
def test_so_it_does_in_a_pods_status(gate: str, fields: Json) -> None:
    off = replace(FeatureGates.all(), **{gate: False})
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    new, old = (
        read_object({**head, "status": {"phase": "Running", **fields}}),
        read_object({**head, "status": {"phase": "Running"}}),
    )
    assert without_disabled_status(new, old, off).to_wire() == old.to_wire()
    assert without_disabled_status(new, new, off) is new


def test_a_claim_that_asks_for_admin_access_may_get_it() -> None:
    off = replace(FeatureGates.all(), admin_access=False)
    new = a_claim(a_request(admin_access=True), status=allocated(RESULT.with_(admin_access=True)))
    assert without_disabled_status(new, a_claim(a_request(admin_access=True)), off) is new


def test_binding_conditions_of_slices_also_need_the_gate_of_device_status() -> None:
    device = {"name": "d", "bindsToNode": True, "bindingConditions": ["a"], "bindingFailureConditions": ["b"]}
    raw = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {}, "spec": {"devices": [device]}}
    off = replace(FeatureGates.all(), device_status=False)
    assert without_disabled_fields(read_object(raw), None, off).to_wire() == {
        **raw,
        "spec": {"devices": [{"name": "d"}]},
    }
