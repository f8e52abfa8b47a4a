"""Older versions in, every version out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from devtools.upstream.apiserver.scenarios.building import (
    ALPHA,
    DRA,
    OLD,
    UUID2,
    Json,
    Scenario,
    allocation,
    cel,
    create,
    device,
    get,
    merged,
    obj,
    request,
    result,
    rule,
    slice_,
    template,
    update,
    update_status,
)

BETA1, BETA2 = "resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"


def versions() -> Iterator[Scenario]:
    yield from _read_in()
    yield from _written_in()
    yield from _refused_in()
    yield from _round_trips()


def _read_in() -> Iterator[Scenario]:
    def one(name: str, body: Json) -> Scenario:
        return f"version/{name}", [create(body), get(body["kind"])]

    beta1, beta2 = BETA1, BETA2
    flat: dict[str, Json] = {
        "fine": {"name": "r", "deviceClassName": "c"},
        "none": {"name": "r"},
        "empty-class": {"name": "r", "deviceClassName": ""},
        "alternatives": {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c"}]},
        "both": {"name": "r", "deviceClassName": "c", "firstAvailable": [{"name": "a", "deviceClassName": "c"}]},
        "bad-class": {"name": "R", "deviceClassName": "C"},
        "mode": {"name": "r", "allocationMode": "All"},
        "bad-count": {"name": "r", "deviceClassName": "c", "count": -1},
        "alternatives-mode": {
            "name": "r",
            "allocationMode": "",
            "firstAvailable": [{"name": "a", "deviceClassName": "c"}],
        },
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
    yield one(
        "slice-beta2",
        obj("ResourceSlice", {**where, "devices": [{"name": "d", "attributes": {"a": {"int": 1}}}]}, api=beta2),
    )
    yield one("slice-beta2-empty-node", obj("ResourceSlice", {**where, "nodeName": "", "allNodes": True}, api=beta2))
    yield one("class", obj("DeviceClass", {"selectors": [cel("true")]}, api=beta1))
    yield one("rule-beta2", merged(rule({"driver": "d"}, {"key": "k", "effect": "NoExecute"}), {"apiVersion": beta2}))
    yield one("rule-alpha", merged(rule({"driver": "d"}, {"key": "k", "effect": "NoExecute"}), {"apiVersion": ALPHA}))


# --- every field of every kind, read and written in every version that serves it --------------------------------------

FULL_REQUEST: Json = {
    "deviceClassName": "c",
    "selectors": [cel("true"), cel('device.driver == "d"')],
    "allocationMode": "ExactCount",
    "count": 2,
    "adminAccess": False,
    "tolerations": [
        {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 3},
        {"operator": "Exists"},
    ],
    "capacity": {"requests": {"a.b/m": "1Gi", "n": "500m"}},
    "derivedAttributes": [{"name": "a.b/x", "expression": "1"}],
}
ALTERNATIVES: list[Json] = [
    {"name": "big", **{key: value for key, value in FULL_REQUEST.items() if key != "adminAccess"}},
    {"name": "small", "deviceClassName": "c", "allocationMode": "All"},
]
FULL_CLAIM: Json = {
    "requests": [
        {"name": "r", "exactly": FULL_REQUEST},
        {"name": "all", "exactly": {"deviceClassName": "c", "allocationMode": "All"}},
        {"name": "f", "firstAvailable": ALTERNATIVES},
    ],
    "constraints": [{"requests": ["r", "f/big"], "matchAttribute": "a.b/x"}, {"distinctAttribute": "a.b/y"}],
    "config": [
        {"requests": ["f"], "opaque": {"driver": "dr.io", "parameters": {"a": [1, {"b": None}], "kind": "x"}}},
        {"opaque": {"driver": "d", "parameters": {}}},
    ],
}
FULL_DEVICES: list[Json] = [
    device(
        "d",
        attributes={
            "a": {"int": -1},
            "b": {"bool": False},
            "dr.io/c": {"string": ""},
            "d": {"version": "1.2.3-a+b"},
            "e": {"ints": [1, 2]},
        },
        capacity={
            "m": {"value": "80Gi"},
            "n": {"value": "4", "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}}},
        },
        consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": ["g"]}],
        taints=[{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": OLD}],
        bindsToNode=True,
        bindingConditions=["a"],
        bindingFailureConditions=["b"],
        allowMultipleAllocations=True,
        nodeName="n",
    ),
    device(
        "e",
        capacity={"v": {"value": "8", "requestPolicy": {"default": "4", "validValues": ["4", "8"]}}},
        allowMultipleAllocations=True,
        # Of a device on a named node, an admission plugin asks that node.
        nodeAllocatableResources={
            "cpu": {"mapping": {"capacityKey": "v", "capacityMultiplier": "1"}},
            "memory": {"overhead": {"perPod": "1"}},
        },
        allNodes=True,
    ),
    device(
        "bare",
        nodeSelector={
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
        },
    ),
]
FULL_STATUS: Json = {
    "allocation": allocation(
        result(
            shareID=UUID2,
            consumedCapacity={"a.b/m": "1Gi"},
            tolerations=[{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
            bindingConditions=["a"],
            bindingFailureConditions=["b"],
            skipNodeOperations=["NodeUnprepareResources"],
        ),
        result("e", request="f/big"),
        nodeSelector={
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
        },
        allocationTimestamp=OLD,
    ),
    "reservedFor": [
        {"resource": "pods", "name": "p", "uid": UUID2},
        {"apiGroup": "g", "resource": "x", "name": "y", "uid": "u"},
    ],
    "devices": [
        {
            "driver": "dr.io",
            "pool": "p",
            "device": "d",
            "shareID": UUID2,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "lastTransitionTime": OLD,
                    "reason": "R",
                    "message": "m",
                    "observedGeneration": 3,
                }
            ],
            "data": {"a": 1},
            "networkData": {"interfaceName": "eth0", "ips": ["10.9.8.7/24"], "hardwareAddress": "aa:bb"},
        }
    ],
}
FULL_STATUS["allocation"]["devices"]["config"] = [
    {"source": "FromClass", "requests": ["r"], "opaque": {"driver": "d", "parameters": {"a": 1}}},
    {"source": "FromClaim", "opaque": {"driver": "d", "parameters": {}}},
]


def _inlined(requests: list[Json]) -> list[Json]:
    """Requests as v1beta1 has them."""
    return [
        {**{key: value for key, value in entry.items() if key != "exactly"}, **entry.get("exactly", {})}
        for entry in requests
    ]


def _basic(devices: list[Json]) -> list[Json]:
    return [
        {"name": entry["name"], "basic": {key: value for key, value in entry.items() if key != "name"}}
        for entry in devices
    ]


def full(version: str) -> Iterator[tuple[str, Json]]:
    """An object with every field, of every kind that the version serves."""
    claim_ = {**FULL_CLAIM, "requests": _inlined(FULL_CLAIM["requests"])} if version == BETA1 else FULL_CLAIM
    devices = _basic(FULL_DEVICES) if version == BETA1 else FULL_DEVICES
    head = {"apiVersion": version}
    labelled: Any = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    if version != ALPHA:
        yield "claim", obj("ResourceClaim", {"devices": claim_}, api=version, **labelled)
        yield "template", merged(template({"devices": claim_}, metadata=labelled), head)
        spec = {
            "perDeviceNodeSelection": True,
            "skipNodeOperations": ["*"],
            "pool": {"generation": 3, "resourceSliceCount": 2},
        }
        yield "slice", merged(merged(slice_(perDeviceNodeSelection=True), {"spec": {**spec, "devices": devices}}), head)
        sets = [{"name": "s", "counters": {"c": {"value": "4"}, "d": {"value": "1Gi"}}}]
        yield "counters", merged(slice_(nodeName="n", sharedCounters=sets), head)
        types = [
            {
                "name": "d",
                "attributes": {"a.b/t": {"string": "x"}},
                "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}],
            }
        ]
        typed = slice_(
            allNodes=True, partitionTypeAttribute="a.b/t", devices=_basic(types) if version == BETA1 else types
        )
        yield "partition-type", merged(typed, head)
        config = [{"opaque": {"driver": "d", "parameters": {"a": 1}}}]
        class_ = {"selectors": [cel("true")], "config": config, "extendedResourceName": "example.com/gpu"}
        yield "class", obj("DeviceClass", class_, api=version)
    if version != BETA1:
        selector = {"driver": "d", "pool": "p", "device": "x"}
        yield "rule", merged(rule(selector, {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": OLD}), head)


def _serving(kind: str) -> tuple[str, ...]:
    return (DRA, BETA2, ALPHA) if kind == "DeviceTaintRule" else (DRA, BETA2, BETA1)


def _written_in() -> Iterator[Scenario]:
    for version in (DRA, BETA2, BETA1, ALPHA):
        for key, body in full(version):
            kind = body["kind"]
            reads = [get(kind, apiVersion=other) for other in _serving(kind)]
            yield f"version/full-{key}-{version.rpartition('/')[2]}", [create(body), *reads]


def _refused_in() -> Iterator[Scenario]:
    """Faults have the paths and the values of the requested version."""
    bad = {**FULL_REQUEST, "deviceClassName": "C", "count": -1, "tolerations": [{"operator": "x"}], "selectors": [{}]}
    wrong: Json = {
        "requests": [
            {"name": "R", "exactly": bad},
            {"name": "R", "exactly": bad},
            {"name": "f", "firstAvailable": [{"name": "A"}]},
        ]
    }
    devices = [
        {**FULL_DEVICES[0], "taints": [{"key": "k"}], "attributes": {"a": {}}, "bindingConditions": list("abcde")}
    ] * 2
    for version in (DRA, BETA2, BETA1):
        short = version.rpartition("/")[2]
        requests = {"requests": _inlined(wrong["requests"])} if version == BETA1 else wrong
        yield f"version/bad-claim-{short}", [create(obj("ResourceClaim", {"devices": requests}, api=version))]
        yield (
            f"version/bad-template-{short}",
            [create(merged(template({"devices": requests}), {"apiVersion": version}))],
        )
        body = slice_(perDeviceNodeSelection=True, devices=_basic(devices) if version == BETA1 else devices)
        yield f"version/bad-slice-{short}", [create(merged(body, {"apiVersion": version}))]


def _round_trips() -> Iterator[Scenario]:
    """Stored in one version, changed and given a status in another."""
    for version in (DRA, BETA2, BETA1):
        short = version.rpartition("/")[2]
        claim_ = dict(full(DRA))["claim"]
        reads = [get("ResourceClaim", apiVersion=other) for other in (DRA, BETA2, BETA1)]
        yield (
            f"version/status-{short}",
            [
                create(claim_),
                get("ResourceClaim", apiVersion=version),
                update_status({"status": FULL_STATUS}, 1),
                *reads,
                get("ResourceClaim", apiVersion=version),
                update_status({"status": {"allocation": {"nodeSelector": None}}}, 6),
                update({"metadata": {"labels": {"x": "y"}}}, 6),
                *reads,
            ],
        )
        yield (
            f"version/status-bad-{short}",
            [
                create(claim_),
                get("ResourceClaim", apiVersion=version),
                update_status({"status": {"allocation": allocation(result("D", tolerations=[{}], driver="A_"))}}, 1),
            ],
        )
        slice_reads = [get("ResourceSlice", apiVersion=other) for other in (DRA, BETA2, BETA1)]
        yield (
            f"version/slice-update-{short}",
            [
                create(dict(full(DRA))["slice"]),
                get("ResourceSlice", apiVersion=version),
                update({"metadata": {"labels": {"x": "y"}}}, 1),
                update({"spec": {"pool": {"generation": 4}}}, 2),
                *slice_reads,
            ],
        )
