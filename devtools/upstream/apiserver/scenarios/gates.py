"""Fields of gates that are off: dropped when they are new, kept where the stored object uses the feature (C-13.4).

Steps with ``server: off`` go to a server whose gates are off and which shares what is stored with the one whose gates
are on.
"""

from __future__ import annotations

from collections.abc import Iterator

from devtools.upstream.apiserver.scenarios.building import (
    UUID2,
    Json,
    Scenario,
    allocation,
    claim,
    create,
    device,
    get,
    request,
    result,
    slice_,
    template,
    update,
    update_status,
)

TOLERATION = {"key": "k", "operator": "Exists"}
DERIVED = {"name": "a.b/x", "expression": "1"}
FEATURES: dict[str, Json] = {
    "taints": {"taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": "2024-05-06T07:08:09Z"}]},
    "counters": {"consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]},
    "groups": {
        "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": ["g"]}]
    },
    "binds": {"bindsToNode": True},
    "binding": {"bindingConditions": ["a"], "bindingFailureConditions": ["b"]},
    "multi": {"allowMultipleAllocations": True},
    "not-multi": {"allowMultipleAllocations": False},
    "policy": {
        "allowMultipleAllocations": True,
        "capacity": {
            "c": {"value": "4", "requestPolicy": {"default": "1", "validRange": {"min": "1"}}},
            "d": {"value": "1"},
        },
    },
    "node-resources": {"nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "1"}}}},
    "list": {"attributes": {"a": {"ints": [1, 2]}, "b": {"int": 1}}},
    "list-beside": {"attributes": {"a": {"ints": [1, 2], "int": 1}}},
    "empty-list": {"attributes": {"a": {"int": 1, "strings": []}}},
    "empty-taints": {"taints": []},
}
"""Of a device."""
SPECS: dict[str, Json] = {
    "sets": {"sharedCounters": [{"name": "s", "counters": {"c": {"value": "4"}}}]},
    "sets-and-devices": {"sharedCounters": [{"name": "s", "counters": {"c": {"value": "4"}}}], "devices": [device()]},
    "each-device": {"perDeviceNodeSelection": True, "devices": [device(allNodes=True)]},
    "partition-type": {
        "partitionTypeAttribute": "a.b/t",
        "devices": [device(attributes={"a.b/t": {"string": "x"}}, **FEATURES["counters"])],
    },
    "partition-type-bad": {"partitionTypeAttribute": "t", "devices": [device()]},
    "skip": {"skipNodeOperations": ["*"], "devices": [device()]},
    "skip-bad": {"skipNodeOperations": ["x"], "devices": [device()]},
    "places": {"devices": [device(nodeName="n")]},
}
"""Of a slice."""
REQUESTS: dict[str, Json] = {
    "tolerations": {"requests": [request(tolerations=[TOLERATION])]},
    "tolerations-of-alternative": {
        "requests": [
            {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c", "tolerations": [TOLERATION]}]}
        ]
    },
    "capacity": {"requests": [request(capacity={"requests": {"m": "1"}})]},
    "capacity-of-alternative": {
        "requests": [
            {
                "name": "r",
                "firstAvailable": [{"name": "a", "deviceClassName": "c", "capacity": {"requests": {"m": "1"}}}],
            }
        ]
    },
    "distinct": {"requests": [request()], "constraints": [{"distinctAttribute": "a.b/x"}]},
    "distinct-and-match": {
        "requests": [request()],
        "constraints": [{"distinctAttribute": "a.b/x", "matchAttribute": "a.b/y"}],
    },
    "no-constraint": {"requests": [request()], "constraints": [{}]},
    "derived": {"requests": [request(derivedAttributes=[DERIVED])], "constraints": [{"matchAttribute": "a.b/x"}]},
    "derived-unused": {"requests": [request(derivedAttributes=[DERIVED])]},
}
"""Of a claim's devices."""
RESULTS: dict[str, Json] = {
    "share": {"shareID": UUID2},
    "consumed": {"consumedCapacity": {"m": "1"}},
    "binding": {"bindingConditions": ["a"], "bindingFailureConditions": ["b"]},
    "only-failure": {"bindingFailureConditions": ["b"]},
    "skip": {"skipNodeOperations": ["NodeUnprepareResources"]},
    "skip-bad": {"skipNodeOperations": ["x"]},
    "tolerations": {"tolerations": [TOLERATION]},
}
"""Of an allocation result."""


def gates() -> Iterator[Scenario]:
    for key, fields in FEATURES.items():
        yield from _sliced(
            f"device-{key}",
            slice_(device(**fields), device("e")),
            {"devices": [device(**fields), device("e", **fields)]},
        )
    for key, spec in SPECS.items():
        where: Json = {} if key == "each-device" else {"allNodes": True}
        more: Json = {"allNodes": None} if key == "each-device" else {}
        yield from _sliced(f"slice-{key}", slice_(**where, **spec), {**spec, **more})
    for key, devices in REQUESTS.items():
        body = claim(**devices) if "requests" not in devices else claim(*devices["requests"], **_rest(devices))
        yield f"gates/claim-{key}", [create(body), get("ResourceClaim")]
        yield f"gates/template-{key}", [create(template({"devices": devices})), get("ResourceClaimTemplate")]
        yield (
            f"gates/claim-{key}-kept",
            [
                create(body),
                {**update({"metadata": {"labels": {"a": "b"}}}), "server": "off"},
                {**update({"spec": {"devices": {"requests": [request("z")]}}}, 1), "server": "off"},
                get("ResourceClaim"),
            ],
        )
        yield (
            f"gates/template-{key}-kept",
            [create(template({"devices": devices})), {**update({"metadata": {"labels": {"a": "b"}}}), "server": "off"}],
        )
    plain = claim(request())
    yield (
        "gates/claim-new-use",
        [
            create(plain),
            {**update({"spec": {"devices": {"requests": [request(tolerations=[TOLERATION])]}}}), "server": "off"},
            {
                **update({"spec": {"devices": {"requests": [request(capacity={"requests": {"m": "1"}})]}}}),
                "server": "off",
            },
            update({"spec": {"devices": {"requests": [request(tolerations=[TOLERATION])]}}}),
            get("ResourceClaim"),
        ],
    )
    for key, fields in RESULTS.items():
        share = {"shareID": UUID2} if key == "share" else {}
        status = {
            "allocation": allocation(result(**fields), result("e")),
            "devices": [{"driver": "dr.io", "pool": "p", "device": "d", **share, "data": {"a": 1}}],
        }
        yield f"gates/result-{key}", [create(plain), update_status({"status": status}), get("ResourceClaim")]
        yield (
            f"gates/result-{key}-kept",
            [
                create(plain),
                update_status({"status": status}),
                {
                    **update_status({"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": UUID2}]}}, 1),
                    "server": "off",
                },
                {
                    **update_status({"status": {"allocation": None, "reservedFor": None, "devices": None}}, 2),
                    "server": "off",
                },
            ],
        )
    yield (
        "gates/capacity-asked-share-kept",
        [
            create(claim(request(capacity={"requests": {"m": "1"}}))),
            {**update_status({"status": {"allocation": allocation(result(shareID=UUID2))}}), "server": "off"},
        ],
    )


def _rest(devices: Json) -> Json:
    return {key: value for key, value in devices.items() if key != "requests"}


def _sliced(name: str, body: Json, spec: Json) -> Iterator[Scenario]:
    """Created; created without and then updated to; stored with and then updated where the gate is off."""
    yield f"gates/{name}", [create(body), get("ResourceSlice")]
    yield (
        f"gates/{name}-updated",
        [create(slice_(device("z"))), update({"spec": {"sharedCounters": None, **spec}}), get("ResourceSlice")],
    )
    yield (
        f"gates/{name}-off-update",
        [
            create(slice_(device("z"))),
            {**update({"spec": {"sharedCounters": None, **spec}}), "server": "off"},
            get("ResourceSlice"),
        ],
    )
    yield (
        f"gates/{name}-kept",
        [
            create(body),
            {**update({"metadata": {"labels": {"a": "b"}}}), "server": "off"},
            {**update({"spec": {"pool": {"generation": 2}}}, 1), "server": "off"},
            {**update({"spec": {**spec, "pool": {"generation": 3}}}, 2), "server": "off"},
            get("ResourceSlice"),
        ],
    )
