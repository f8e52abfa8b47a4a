"""Reading and writing loses nothing: random objects of every kind, with fields nobody knows, in every version."""

from __future__ import annotations

import types
import typing
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from virt_dra.api import kubevirt_v1, resource_v1
from virt_dra.api.conversion import from_v1, to_v1
from virt_dra.api.meta import TypedObject, UnknownObject
from virt_dra.api.quantity import Quantity
from virt_dra.api.scheme import KINDS, read_object
from virt_dra.api.wire import Json, Wire, WireError

WORDS = ("a", "gpu-0", "example.com/x", "Ω", "with space", "0", "true", "null", "\u2028", "spec")
TIMES = ("2026-01-02T03:04:05Z",)
QUANTITIES = ("0", "1", "80Gi", "500m", "1e3", "2k", "-1")


def random_json(rng: Random, depth: int = 2) -> Any:
    kinds: list[Any] = [None, True, False, rng.randint(-(2**40), 2**40), 0.5, rng.choice(WORDS)]
    if depth > 0:
        kinds.append([random_json(rng, depth - 1) for _ in range(rng.randint(0, 2))])
        kinds.append({rng.choice(WORDS): random_json(rng, depth - 1) for _ in range(rng.randint(0, 2))})
    return rng.choice(kinds)


def random_value(annotation: object, rng: Random) -> Any:
    """JSON that the annotation reads and writes again as it is: no null for a list or map, quantities in canonical form."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        (only,) = (argument for argument in arguments if argument is not type(None))
        return None if rng.random() < 0.1 else random_value(only, rng)
    if origin is typing.Annotated:
        return random_value(arguments[0], rng)
    if origin is tuple:
        return [random_value(arguments[0], rng) for _ in range(rng.randint(0, 2))]
    if origin is dict:
        return {rng.choice(WORDS): random_value(arguments[1], rng) for _ in range(rng.randint(0, 2))}
    if annotation is typing.Any:
        return random_json(rng)
    assert isinstance(annotation, type), annotation
    if issubclass(annotation, Wire):
        return random_fields(annotation, rng)
    if issubclass(annotation, Quantity):
        return rng.choice(QUANTITIES)
    return {str: rng.choice(WORDS), bool: rng.random() < 0.5, int: rng.randint(-3, 2**40)}[annotation]


def random_fields(kind: type[Wire], rng: Random) -> Json:
    raw: Json = {}
    for name, field in kind.model_fields.items():
        if field.is_required() or rng.random() < 0.6:
            raw[field.serialization_alias or field.alias or name] = random_value(field.annotation, rng)
    if rng.random() < 0.3:
        raw["fieldOfTheFuture"] = random_json(rng)
    return raw


def random_object(kind: type[TypedObject], rng: Random) -> Json:
    fields = {field: value for field, value in random_fields(kind, rng).items() if field not in ("apiVersion", "kind")}
    head = (kind.API_VERSION or "example.com/v1", kind.KIND or "Thing")
    return {"apiVersion": head[0], "kind": head[1], **fields}


RANDOMS = st.randoms(use_true_random=False, note_method_calls=False)


@pytest.mark.parametrize("kind", [*KINDS, UnknownObject], ids=lambda kind: kind.__name__)
@settings(max_examples=25)
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
    for kind in (resource_v1.ResourceClaim, resource_v1.ResourceClaimTemplate, resource_v1.ResourceSlice, resource_v1.DeviceClass)
] + [(resource_v1.DeviceTaintRule, "v1beta2"), (resource_v1.DeviceTaintRule, "v1alpha3")]


@pytest.mark.parametrize(("kind", "version"), CONVERTED, ids=lambda value: getattr(value, "__name__", value))
@settings(max_examples=25)
@given(rng=RANDOMS)
def test_an_older_version_and_back_loses_nothing(kind: type[TypedObject], version: str, rng: Random) -> None:
    new = random_object(kind, rng)
    if version != "v1beta2":
        new = _as_the_first_versions_see_it(new, version)
    old = from_v1(new, f"resource.k8s.io/{version}")
    assert old["apiVersion"] == f"resource.k8s.io/{version}"
    assert to_v1(old) == new
    assert read_object(old) == read_object(new)


@pytest.mark.parametrize("kind", [kubevirt_v1.VirtualMachineInstance, kubevirt_v1.VirtualMachine, kubevirt_v1.KubeVirt])
@settings(max_examples=10)
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
            "devices": [{"name": "a", "attributes": {"example.com/x": {"int": 1.5}, "y": []}}, 7, {"capacity": {"memory": {}}}],
        },
    }
    with pytest.raises(WireError) as refused:
        read_object(raw)
    assert refused.value.kind == "ResourceSlice"
    assert refused.value.problems == (
        ("metadata.name", "must be a string, not an integer"),
        ("metadata.labels.a", "must be a string, not a boolean"),
        ("spec.driver", "must be a string, not a list"),
        ("spec.pool.generation", "must be an integer, not a string"),
        ("spec.allNodes", "must be a boolean, not a string"),
        ("spec.devices[0].attributes[example.com/x].int", "must be an integer, not a number"),
        ("spec.devices[0].attributes.y", "must be an object, not a list"),
        ("spec.devices[1]", "must be an object, not an integer"),
        ("spec.devices[2].capacity.memory.value", "is required"),
    )


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
