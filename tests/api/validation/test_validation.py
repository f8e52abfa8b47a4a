"""What an API server refuses, case by case (C-14.1 to C-14.6, limits of C-2.6): ``cases/*.yaml``.

A file has a ``base`` object that is valid, and cases that change it: ``set`` maps paths
(``spec.devices.requests[0].name``) to values. A value ``{absent: true}`` removes, ``{text, times}`` is a long text,
``{entry, times}`` a list and ``{keys, value, times}`` a map of numbered entries. ``errors`` is everything validation
then says, in order, as an API server writes it; ``<<name>>`` stands for one of the long texts below. ``old`` (changed
by ``old-set``) makes it an update, ``status: true`` one of status. Every gate is on but what ``gates`` turns off.
``beyond-a-schema``: a CRD can't say it, so that an API server takes such an object.
"""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from tests.api import test_names as texts
from tests.api.random_objects import RANDOMS, random_object
from tests.sampling import sample
from virt_dra.api.defaults import apply_defaults
from virt_dra.api.feature_gates import FeatureGates
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.scheme import all_kinds, read_object
from virt_dra.api.validation import (
    TOO_COMPLEX,
    ErrorType,
    FieldError,
    Rules,
    admin_access,
    invalid_message,
    kind_with_group,
    validate_create,
    validate_status_update,
    validate_update,
)
from virt_dra.api.validation.field_errors import (
    TypedText,
    duplicate,
    invalid,
    not_found,
    not_supported,
    rendered,
    too_long,
    too_many,
)
from virt_dra.api.validation.formats import shortened
from virt_dra.api.wire import Json

EVERY_GATE = Rules(gates=FeatureGates.all())
CASES = Path(__file__).parent / "cases"
TEXTS = {
    "label": texts.LABEL,
    "subdomain": texts.SUBDOMAIN,
    "key": texts.KEY,
    "value": texts.VALUE,
    "identifier": texts.IDENTIFIER,
    "no-request": "must be the name of a request in the claim or the name of a "
    "request and a subrequest separated by '/'",
    "caseless": texts.CASELESS,
    "members": "`int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`",
    "uuid": "must be a lowercase UUID in 8-4-4-4-12 format",
    "one-place": "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
    "one-device-place": (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required "
        "when `perDeviceNodeSelection` is set to true "
        "in the ResourceSlice spec"
    ),
    "reason": (
        "a condition reason must start with alphabetic character, optionally followed "
        "by a string of alphanumeric characters or '_,:', "
        "and must end with an alphanumeric character or '_' (e.g. 'my_name',  or "
        "'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or "
        "'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
    ),
}


def all_cases() -> list[Any]:
    reported = []
    for path in sorted(CASES.glob("*.yaml")):
        content = yaml.load(path.read_text(), yaml.CSafeLoader)
        for case in content["cases"]:
            reported.append(pytest.param(content["base"], case, id=f"{path.stem}: {case['name']}"))
    return reported


def changed(base: Json, changes: Json) -> Json:
    """The base with every path set; ``*`` in a value's text is not special. A path may extend a list by one."""
    result = copy.deepcopy(base)
    for path, value in changes.items():
        keys = [int(key[1:-1]) if key.startswith("[") else key for key in re.findall(r"\[\d+\]|[^.\[\]]+", path)]
        owner: Any = result
        for key in keys[:-1]:
            owner = owner.setdefault(key, {}) if isinstance(key, str) else owner[key]
        _assign(owner, keys[-1], value)
    return result


def _assign(owner: Any, key: str | int, value: Any) -> None:
    if value == {"absent": True}:
        del owner[key]
    elif isinstance(value, dict) and set(value) == {"text", "times"}:
        owner[key] = value["text"] * value["times"]
    elif isinstance(value, dict) and set(value) == {"entry", "times"}:
        owner[key] = [_numbered(value["entry"], number) for number in range(value["times"])]
    elif isinstance(value, dict) and set(value) == {"keys", "value", "times"}:
        owner[key] = {_numbered(value["keys"], number): value["value"] for number in range(value["times"])}
    elif isinstance(owner, list) and key == len(owner):
        owner.append(value)
    else:
        owner[key] = value


def _numbered(entry: Any, number: int) -> Any:
    """A copy in which every ``#`` in a text is the number."""
    if isinstance(entry, str):
        return entry.replace("#", str(number))
    return {key: _numbered(value, number) for key, value in entry.items()} if isinstance(entry, dict) else entry


def compiler(expression: str) -> str | None:
    """Stands for CEL: what is wrong is written in the expression."""
    kind, _, detail = expression.partition(": ")
    return {"error": detail, "costly": TOO_COMPLEX}.get(kind)


def verdict(base: Json, case: Json) -> tuple[FieldError, ...]:
    rules = Rules(
        check_selector=compiler,
        check_derived_attribute=compiler,
        gates=replace(FeatureGates.all(), **case.get("gates", {})),
    )
    new = read_object(changed(base, case.get("set", {})))
    if "old-set" not in case and not case.get("status"):
        return validate_create(new, rules)
    old = read_object(changed(base, case.get("old-set", {})))
    return (validate_status_update if case.get("status") else validate_update)(new, old, rules)


@pytest.mark.parametrize(("base", "case"), all_cases())
def test_verdict(base: Json, case: Json) -> None:
    def spelled_out(text: str) -> str:
        for name, long in TEXTS.items():
            text = text.replace(f"<<{name}>>", long)
        return text

    assert [str(error) for error in verdict(base, case)] == [spelled_out(error) for error in case["errors"]]


def test_every_base_is_valid() -> None:
    refused = {}
    for path in CASES.glob("*.yaml"):
        errors = validate_create(read_object(yaml.load(path.read_text(), yaml.CSafeLoader)["base"]), EVERY_GATE)
        if errors:
            refused[path.name] = [str(error) for error in errors]
    assert refused == {}


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.__name__)
@settings(max_examples=sample(25))
@given(rng=RANDOMS)
def test_any_object_gets_a_verdict_and_an_unchanged_one_a_yes(kind: type[TypedObject], rng: Random) -> None:
    raw = random_object(kind, rng)
    obj, other = read_object(raw), read_object(random_object(kind, rng))
    for error in (*validate_create(obj), *validate_update(other, obj), *validate_status_update(other, obj)):
        assert str(error).startswith(("metadata", "spec", "status", "value", "preemptionPolicy"))
    if not validate_create(obj) and obj.metadata.resource_version:
        assert validate_update(obj, obj) == ()
    assert type(apply_defaults(obj, "2026-01-01T00:00:00Z")) is kind


# --- admin access -------------------------------------------------------------------------------------------------

ADMIN_RULE = (
    "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
)
PERMITTED = {"resource.kubernetes.io/admin-access": "true"}


def with_requests(kind: str, *admin: bool | None) -> TypedObject:
    requests = [{"name": f"r{n}", "exactly": {"adminAccess": access}} for n, access in enumerate(admin)]
    claim: Json = {"devices": {"requests": [{"name": "either", "firstAvailable": []}, *requests]}}
    spec = {"spec": claim} if kind == "ResourceClaimTemplate" else claim
    return read_object({"apiVersion": "resource.k8s.io/v1", "kind": kind, "spec": spec})


def with_results(*admin: bool) -> TypedObject:
    results = [{"request": "r", "adminAccess": access} for access in admin]
    status = {"allocation": {"devices": {"results": results}}}
    return read_object({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "status": status})


@pytest.mark.parametrize(
    ("new", "old", "field"),
    [
        (with_requests("ResourceClaim", False, True, True), None, "spec.devices.requests[2].adminAccess"),
        (with_requests("ResourceClaimTemplate", True), None, "spec.devices.requests[1].adminAccess"),
        (with_results(False, True), with_results(), "status.allocation.devices.results[1].adminAccess"),
    ],
)
def test_admin_access_needs_the_namespaces_label(new: TypedObject, old: TypedObject | None, field: str) -> None:
    refusal = (FieldError(ErrorType.FORBIDDEN, field, "", ADMIN_RULE),)
    assert admin_access(new, old, {}) == refusal
    assert admin_access(new, old, {"resource.kubernetes.io/admin-access": "True"}) == refusal
    assert admin_access(new, old, PERMITTED) == ()


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (with_requests("ResourceClaim", False, None), None),
        (with_requests("ResourceClaimTemplate", None), None),
        (with_requests("ResourceClaimTemplate", True), with_requests("ResourceClaimTemplate", True)),
        (with_results(False), with_results()),
        (with_results(True, True), with_results(True)),
        (read_object({"apiVersion": "v1", "kind": "Pod"}), None),
    ],
)
def test_nothing_else_needs_it(new: TypedObject, old: TypedObject | None) -> None:
    assert admin_access(new, old, {}) == ()


# --- the errors themselves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FieldError(ErrorType.REQUIRED, "a.b"), "a.b: Required value"),
        (FieldError(ErrorType.REQUIRED, "a.b", "", "because"), "a.b: Required value: because"),
        (FieldError(ErrorType.FORBIDDEN, "a", "", "no"), "a: Forbidden: no"),
        (invalid("a[0]", "x\ny", "bad"), 'a[0]: Invalid value: "x\\ny": bad'),
        (invalid("a", 7, "bad"), "a: Invalid value: 7: bad"),
        (invalid("a", False, "bad"), "a: Invalid value: false: bad"),
        (invalid("a", None, "bad"), "a: Invalid value: null: bad"),
        (invalid("a", {"b": ("<", 1)}, "bad"), 'a: Invalid value: {"b":["\\u003c",1]}: bad'),
        (invalid("a", TypedText("<x\x07>"), "bad"), r'a: Invalid value: "\u003cx\u0007\u003e": bad'),
        (invalid("a", "<x\x07>", "bad"), r'a: Invalid value: "<x\a>": bad'),
        (duplicate("a[1]", "x"), 'a[1]: Duplicate value: "x"'),
        (not_supported("a", "x", ("B", "C")), 'a: Unsupported value: "x": supported values: "B", "C"'),
        (not_found("a", "x"), 'a: Not found: "x"'),
        (too_long("a", 63), "a: Too long: may not be more than 63 bytes"),
        (too_long("a", 1), "a: Too long: may not be more than 1 byte"),
        (too_many("a", 3, 2), "a: Too many: 3: must have at most 2 items"),
        (too_many("a", 2, 1), "a: Too many: 2: must have at most 1 item"),
    ],
)
def test_an_error_reads_as_in_kubernetes(error: FieldError, text: str) -> None:
    assert str(error) == text
    assert error.message == text.partition(": ")[2]


def test_values_are_shown_as_compact_json() -> None:
    assert rendered({"b": ["\ud800", 1.5], "a": None}) == r'{"a":null,"b":["\ud800",1.5]}'
    assert rendered(read_object({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})) == (
        '{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}'
    )


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        ((), 'ResourceClaim.resource.k8s.io "x" is invalid'),
        (
            (too_long("a", 2),),
            'ResourceClaim.resource.k8s.io "x" is invalid: a: Too long: may not be more than 2 bytes',
        ),
        (
            (invalid("a", 1, "b"), invalid("a", 1, "b"), invalid("c", 1, "d")),
            'ResourceClaim.resource.k8s.io "x" is invalid: [a: Invalid value: 1: b, c: Invalid value: 1: d]',
        ),
    ],
)
def test_the_sentence_for_an_object(errors: tuple[FieldError, ...], message: str) -> None:
    assert invalid_message("ResourceClaim.resource.k8s.io", "x", errors) == message


@pytest.mark.parametrize(
    ("api_version", "kind", "qualified"),
    [
        ("v1", "Pod", "Pod"),
        ("resource.k8s.io/v1", "ResourceSlice", "ResourceSlice.resource.k8s.io"),
        ("apps/v1", "Deployment", "Deployment.apps"),
    ],
)
def test_a_kind_is_qualified_by_its_group(api_version: str, kind: str, qualified: str) -> None:
    obj: TypedObject = read_object({"apiVersion": api_version, "kind": kind})
    assert kind_with_group(obj) == qualified


@pytest.mark.parametrize(
    ("text", "limit", "short"),
    [("a" * 16, 4, "a" * 16), ("abcdefghijklmnopqrst", 4, "abcdefg...opqrst"), ("é" * 20, 17, "ééé�...�ééé")],
)
def test_a_long_key_is_cut_in_the_middle(text: str, limit: int, short: str) -> None:
    assert shortened(text, limit) == short
