"""Reading and writing loses nothing: random objects of every kind, with fields nobody knows, in every version."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from tests.api.random_objects import RANDOMS, random_object
from tests.sampling import sample
from virt_dra.api import kubevirt_v1, resource_v1
from virt_dra.api.conversion import from_v1, to_v1
from virt_dra.api.meta import TypedObject, UnknownObject
from virt_dra.api.reading.scheme import all_kinds, read_object
from virt_dra.api.wire import Json, WireError


@pytest.mark.parametrize("kind", [*all_kinds(), UnknownObject], ids=lambda kind: kind.__name__)
@settings(max_examples=sample(25))
@given(rng=RANDOMS)
def test_every_kind_survives_reading_and_writing(kind: type[TypedObject], rng: Random) -> None:
    raw = random_object(kind, rng)
    obj = read_object(raw)
    assert type(obj) is kind
    assert obj.to_wire() == raw
    assert read_object(obj.to_wire()) == obj


CONVERTED = [
    (kind, version)
    for version in ("v1beta2", "v1beta1", "v1alpha3")
    for kind in (
        resource_v1.ResourceClaim,
        resource_v1.ResourceClaimTemplate,
        resource_v1.ResourceSlice,
        resource_v1.DeviceClass,
    )
] + [(resource_v1.DeviceTaintRule, "v1beta2"), (resource_v1.DeviceTaintRule, "v1alpha3")]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "version"), CONVERTED, ids=lambda value: getattr(value, "__name__", value))
@settings(max_examples=sample(25))
@given(rng=RANDOMS)
def test_an_older_version_and_back_loses_nothing(kind: type[TypedObject], version: str, rng: Random) -> None:
    new = random_object(kind, rng)
    if version != "v1beta2":
        new = _as_the_first_versions_see_it(new, version)
    old = from_v1(new, f"resource.k8s.io/{version}")
    assert old["apiVersion"] == f"resource.k8s.io/{version}"
    assert to_v1(old) == new
    assert read_object(old) == read_object(new)


@pytest.mark.parametrize(("kind", "version"), CONVERTED, ids=lambda value: getattr(value, "__name__", value))
@settings(max_examples=sample(25))
@given(rng=RANDOMS)
def test_v1_and_back_to_an_older_version_loses_nothing(kind: type[TypedObject], version: str, rng: Random) -> None:
    api_version = f"resource.k8s.io/{version}"
    old = from_v1(random_object(kind, rng), api_version)
    written = from_v1(to_v1(old), api_version)
    assert written == (old if version == "v1beta2" else _without_empty_places(old))
    new, contradictions = _converted(_oddly_written(old, rng))
    assert all("give only one of them" in message for message in contradictions)
    assert new is None or to_v1(from_v1(new, api_version)) == new


def _converted(old: Json) -> tuple[Json | None, list[str]]:
    """In v1, or what keeps it from that."""
    try:
        return to_v1(old), []
    except WireError as refused:
        return None, [message for _, message in refused.problems]


def _without_empty_places(old: Json) -> Json:
    """A slice without the empty places that are the same as none (A-22.3)."""
    if old["kind"] != "ResourceSlice" or not isinstance(old.get("spec"), dict):
        return old
    spec = {key: value for key, value in old["spec"].items() if not (key == "allNodes" and value is False)}
    return {**old, "spec": spec}


def _oddly_written(value: Any, rng: Random) -> Any:
    """As clients of v1beta1 write, too: fields that say nothing, devices without ``basic`` or with fields on both
    sides."""
    if isinstance(value, list):
        return [_oddly_written(item, rng) for item in value]
    if not isinstance(value, dict):
        return value
    odd = {key: _oddly_written(item, rng) for key, item in value.items()}
    if "name" in odd and rng.random() < 0.3:
        odd |= rng.choice(
            [
                {"deviceClassName": ""},
                {"count": 0},
                {"selectors": []},
                {"tolerations": []},
                {"adminAccess": False},
                {"nodeName": ""},
            ]
        )
    basic = odd.get("basic")
    if isinstance(basic, dict) and rng.random() < 0.5:
        del odd["basic"]
        odd |= rng.choice(
            [{}, {"basic": None}, {"basic": {}}, basic, {"basic": basic, **dict(list(basic.items())[:1])}]
        )
    return odd


@pytest.mark.parametrize("kind", [kubevirt_v1.VirtualMachineInstance, kubevirt_v1.VirtualMachine, kubevirt_v1.KubeVirt])
@settings(max_examples=sample(10))
@given(rng=RANDOMS)
def test_kubevirts_alpha_and_back_loses_nothing(kind: type[TypedObject], rng: Random) -> None:
    new = random_object(kind, rng)
    assert to_v1(from_v1(new, "kubevirt.io/v1alpha3")) == new


def _as_the_first_versions_see_it(value: Any, version: str, field: str = "") -> Any:
    """Without what v1beta1 does not tell from absence (A-22.3). Dropped everywhere, which does no harm here."""
    if isinstance(value, list):
        return [_as_the_first_versions_see_it(item, version) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _as_the_first_versions_see_it(item, version, key) for key, item in value.items()}
    for key in ("taints", "tolerations", "consumesCounters"):
        if kept.get(key) == []:
            del kept[key]
    if kept.get("allNodes") is False:
        del kept["allNodes"]
    return kept


def test_type_errors_come_all_at_once_with_their_paths() -> None:
    raw = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": 1, "labels": {"a": True}},
        "spec": {
            "driver": ["d"],
            "pool": {"generation": "1"},
            "allNodes": "yes",
            "devices": [
                {"name": "a", "attributes": {"example.com/x": {"int": 1.5}, "y": []}},
                7,
                {"capacity": {"memory": {"value": []}}},
            ],
        },
    }
    with pytest.raises(WireError) as refused:
        read_object(raw)
    assert refused.value.kind == "ResourceSlice"
    assert refused.value.problems == (
        ("metadata.name", "must be a string, not an integer"),
        ("metadata.labels.a", "must be a string, not a boolean; put it in quotes"),
        ("spec.driver", "must be a string, not a list"),
        ("spec.pool.generation", "must be an integer, not a string"),
        ("spec.allNodes", "must be a boolean, not a string"),
        ("spec.devices[0].attributes[example.com/x].int", "must be an integer, not a number"),
        ("spec.devices[0].attributes.y", "must be an object, not a list"),
        ("spec.devices[1]", "must be an object, not an integer"),
        (
            "spec.devices[2].capacity.memory.value",
            'must be a quantity (a string such as "500m", "2" or "10Gi", or a number), not a list',
        ),
    )


def test_null_is_absent_in_an_object_and_an_empty_entry_in_a_map() -> None:
    obj = read_object(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": None, "labels": {"a": None}},
            "spec": {
                "pool": None,
                "devices": [{"attributes": {"x": None}, "capacity": {"c": {"value": None}, "d": None}, "taints": None}],
            },
        }
    )
    assert isinstance(obj, resource_v1.ResourceSlice)
    assert not obj.metadata.given("name")
    assert obj.metadata.labels == {"a": ""}
    assert not obj.spec.given("pool")
    (device,) = obj.spec.devices
    assert device.attributes == {"x": resource_v1.DeviceAttribute()}
    assert {name: str(entry.value) for name, entry in device.capacity.items()} == {"c": "0", "d": "0"}


def test_a_number_must_fit_into_its_type() -> None:
    raw = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourcePoolStatusRequest",
        "spec": {"driver": "d", "limit": 2**31},
    }
    with pytest.raises(WireError, match=r"^spec\.limit: must fit into 32 bits$"):
        read_object(raw)
    raw = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": {"pool": {"generation": -(2**63) - 1}}}
    with pytest.raises(WireError, match=r"^spec\.pool\.generation: must fit into 64 bits$"):
        read_object(raw)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (7, "a Kubernetes object must be a JSON object"),
        ({}, "apiVersion: is required and must be a string"),
        ({"apiVersion": "v1"}, "kind: is required and must be a string"),
        ({"apiVersion": "v1", "kind": ["Pod"]}, "kind: is required and must be a string"),
    ],
)
def test_what_is_no_object_is_refused(raw: object, message: str) -> None:
    with pytest.raises(WireError) as refused:
        read_object(raw)
    assert str(refused.value) == message
