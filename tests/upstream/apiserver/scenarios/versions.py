"""Older versions in, v1 out."""

from __future__ import annotations

from collections.abc import Iterator

from tests.upstream.apiserver.scenarios.building import ALPHA, Json, Scenario, cel, create, get, merged, obj, request, rule


def versions() -> Iterator[Scenario]:
    def one(name: str, body: Json) -> Scenario:
        return f"version/{name}", [create(body), get(body["kind"])]

    beta1, beta2 = "resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"
    flat: dict[str, Json] = {
        "fine": {"name": "r", "deviceClassName": "c"},
        "none": {"name": "r"},
        "empty-class": {"name": "r", "deviceClassName": ""},
        "alternatives": {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c"}]},
        "both": {"name": "r", "deviceClassName": "c", "firstAvailable": [{"name": "a", "deviceClassName": "c"}]},
        "bad-class": {"name": "R", "deviceClassName": "C"},
        "mode": {"name": "r", "allocationMode": "All"},
        "bad-count": {"name": "r", "deviceClassName": "c", "count": -1},
        "alternatives-mode": {"name": "r", "allocationMode": "", "firstAvailable": [{"name": "a", "deviceClassName": "c"}]},
        "toleration": {"name": "r", "deviceClassName": "c", "tolerations": [{}]},
        "bad-selector": {"name": "r", "deviceClassName": "c", "selectors": [cel("1")]},
    }
    for key, entry in flat.items():
        yield one(f"claim-{key}", obj("ResourceClaim", {"devices": {"requests": [entry]}}, api=beta1))
    yield one("template", obj("ResourceClaimTemplate", {"spec": {"devices": {"requests": [flat["fine"]]}}}, api=beta1))
    yield one("claim-beta2", obj("ResourceClaim", {"devices": {"requests": [request()]}}, api=beta2))
    where = {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "nodeName": "n"}
    devices: dict[str, Json] = {
        "fine": {"name": "d", "basic": {"attributes": {"a": {"int": 1}}, "capacity": {"c": {"value": "1"}}}},
        "no-basic": {"name": "d"},
        "null-basic": {"name": "d", "basic": None},
        "taint": {"name": "d", "basic": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
        "empty-node": {"name": "d", "basic": {"nodeName": ""}},
        "false": {"name": "d", "basic": {"allNodes": False}},
        "empty-taints": {"name": "d", "basic": {"taints": []}},
    }
    for key, entry in devices.items():
        yield one(f"slice-{key}", obj("ResourceSlice", {**where, "devices": [entry]}, api=beta1))
    yield one("slice-all-false", obj("ResourceSlice", {**where, "allNodes": False}, api=beta1))
    yield one("slice-empty-node-all", obj("ResourceSlice", {**where, "nodeName": "", "allNodes": True}, api=beta1))
    yield one("slice-beta2", obj("ResourceSlice", {**where, "devices": [{"name": "d", "attributes": {"a": {"int": 1}}}]}, api=beta2))
    yield one("slice-beta2-empty-node", obj("ResourceSlice", {**where, "nodeName": "", "allNodes": True}, api=beta2))
    yield one("class", obj("DeviceClass", {"selectors": [cel("true")]}, api=beta1))
    yield one("rule-beta2", merged(rule({"driver": "d"}, {"key": "k", "effect": "NoExecute"}), {"apiVersion": beta2}))
    yield one("rule-alpha", merged(rule({"driver": "d"}, {"key": "k", "effect": "NoExecute"}), {"apiVersion": ALPHA}))
