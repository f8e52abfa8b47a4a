"""What an API server fills in (A-22.4, C-2.5)."""

from __future__ import annotations

from typing import Any

import pytest

from virt_dra.api.defaults import apply_defaults, retimed_taint
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.resource_v1 import DeviceTaint, DeviceTaintRule
from virt_dra.api.wire import Json

NOW = "2026-03-01T12:00:00.75+02:00"
SECONDS = "2026-03-01T10:00:00Z"


def defaulted(kind: str, spec: Json, status: Json | None = None, version: str = "v1") -> Json:
    raw: Json = {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    if status is not None:
        raw["status"] = status
    return apply_defaults(read_object(raw), NOW).to_wire()


REQUESTS = [
    {"name": "bare", "exactly": {"deviceClassName": "c"}},
    {"name": "zero", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 0}},
    {"name": "three", "exactly": {"deviceClassName": "c", "count": 3}},
    {"name": "all", "exactly": {"deviceClassName": "c", "allocationMode": "All"}},
    {"name": "unknown", "exactly": {"deviceClassName": "c", "allocationMode": "Some"}},
    {
        "name": "either",
        "firstAvailable": [
            {"name": "a", "deviceClassName": "c", "tolerations": [{"key": "k"}, {"operator": "Exists"}]}
        ],
    },
]
EXPECTED_REQUESTS = [
    {"name": "bare", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}},
    {"name": "zero", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}},
    {"name": "three", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 3}},
    {"name": "all", "exactly": {"deviceClassName": "c", "allocationMode": "All"}},
    {"name": "unknown", "exactly": {"deviceClassName": "c", "allocationMode": "Some"}},
    {
        "name": "either",
        "firstAvailable": [
            {
                "name": "a",
                "deviceClassName": "c",
                "allocationMode": "ExactCount",
                "count": 1,
                "tolerations": [{"key": "k", "operator": "Equal"}, {"operator": "Exists"}],
            }
        ],
    },
]


def test_a_claims_requests_get_mode_count_and_toleration_operator() -> None:
    assert defaulted("ResourceClaim", {"devices": {"requests": REQUESTS}})["spec"] == {
        "devices": {"requests": EXPECTED_REQUESTS}
    }


def test_a_templates_requests_get_the_same() -> None:
    wire = defaulted("ResourceClaimTemplate", {"spec": {"devices": {"requests": REQUESTS}}})
    assert wire["spec"] == {"spec": {"devices": {"requests": EXPECTED_REQUESTS}}}


def test_tolerations_of_results_get_an_operator() -> None:
    result: Json = {"request": "r", "driver": "d", "pool": "p", "device": "x", "tolerations": [{"key": "k"}]}
    wire = defaulted("ResourceClaim", {}, {"allocation": {"devices": {"results": [result]}}})
    (written,) = wire["status"]["allocation"]["devices"]["results"]
    assert written == result | {"tolerations": [{"key": "k", "operator": "Equal"}]}


def test_taints_of_devices_get_the_time_in_whole_seconds() -> None:
    taints: list[Json] = [
        {"key": "a", "effect": "NoSchedule"},
        {"key": "b", "effect": "None", "timeAdded": "2020-01-01T00:00:00Z"},
    ]
    wire = defaulted("ResourceSlice", {"devices": [{"name": "d", "taints": taints}, {"name": "e"}]})
    assert wire["spec"]["devices"] == [
        {"name": "d", "taints": [taints[0] | {"timeAdded": SECONDS}, taints[1]]},
        {"name": "e"},
    ]


def test_a_rules_taint_gets_the_time() -> None:
    wire = defaulted("DeviceTaintRule", {"taint": {"key": "a", "effect": "NoExecute"}})
    assert wire["spec"] == {"taint": {"key": "a", "effect": "NoExecute", "timeAdded": SECONDS}}


@pytest.mark.parametrize(("spec", "limit"), [({"driver": "d"}, 100), ({"driver": "d", "limit": 7}, 7)])
def test_a_pool_request_is_limited(spec: Json, limit: int) -> None:
    assert defaulted("ResourcePoolStatusRequest", spec, version="v1alpha3")["spec"] == {"driver": "d", "limit": limit}


@pytest.mark.parametrize(
    "raw",
    [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}},
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"}, "spec": {}},
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}},
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "s"},
            "spec": {"devices": [{"name": "d"}]},
        },
    ],
)
def test_an_object_without_anything_to_fill_in_stays_the_same_object(raw: dict[str, Any]) -> None:
    obj = read_object(raw)
    assert apply_defaults(obj, NOW) is obj


def test_filling_in_twice_changes_nothing() -> None:
    claim = read_object(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {"devices": {"requests": REQUESTS}}}
    )
    once = apply_defaults(claim, NOW)
    assert apply_defaults(once, "2027-01-01T00:00:00Z") is once


def test_a_clock_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="Invalid isoformat string: 'yesterday'"):
        apply_defaults(read_object({"apiVersion": "v1", "kind": "Node"}), "yesterday")


@pytest.mark.parametrize(
    ("effect", "time_added", "expected"),
    [
        ("NoExecute", "2020-01-01T00:00:00Z", SECONDS),
        ("NoSchedule", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("NoExecute", "2021-01-01T00:00:00Z", "2021-01-01T00:00:00Z"),
    ],
)
def test_a_changed_effect_starts_the_clock_again_unless_the_client_set_it(
    effect: str, time_added: str, expected: str
) -> None:
    old = DeviceTaintRule.from_wire(
        {"spec": {"taint": {"key": "k", "effect": "NoSchedule", "timeAdded": "2020-01-01T00:00:00Z"}}}
    )
    taint = DeviceTaint(key="k", effect=effect, time_added=time_added)
    new = old.with_(spec=old.spec.with_(taint=taint))
    assert retimed_taint(new, old, NOW).spec.taint == taint.with_(time_added=expected)
