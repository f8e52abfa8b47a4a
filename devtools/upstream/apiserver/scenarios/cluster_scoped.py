"""DeviceClass, DeviceTaintRule and ResourcePoolStatusRequest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from devtools.upstream.apiserver.scenarios.building import (
    ALPHA,
    OLD,
    UID,
    Json,
    Scenario,
    cel,
    create,
    delete,
    get,
    obj,
    operations,
    patch,
    rule,
    update,
    update_status,
)
from devtools.upstream.apiserver.scenarios.tables import (
    CONDITION,
    CONDITIONS,
    DRIVERS,
    NAMES,
    PARAMETERS,
    POOLS,
    QNAMES,
    TAINTS,
)


def classes() -> Iterator[Scenario]:
    def one(name: str, spec: Json | None, object_name: str = "x") -> Scenario:
        return f"class/{name}", [create(obj("DeviceClass", spec, object_name))]

    yield one("empty", {})
    yield one("no-spec", None)
    for key, name in NAMES.items():
        yield one(f"object-name/{key}", {}, name)
    yield one("selectors-33", {"selectors": [cel("")] * 33})
    yield one("selector", {"selectors": [cel("1"), {}, cel("device.driver == 'x'")]})
    yield one("configs-33", {"config": [{}] * 33})
    yield one("config", {"config": [{}, {"opaque": {"driver": "A_", "parameters": [1]}}]})
    for key, parameters in PARAMETERS.items():
        yield one(f"parameters/{key}", {"config": [{"opaque": {"driver": "d", "parameters": parameters}}]})
    names = {
        "fine": "example.com/gpu",
        "bare": "gpu",
        "kubernetes": "kubernetes.io/gpu",
        "sub-kubernetes": "a.kubernetes.io/gpu",
        "requests": "requests.example.com/gpu",
        "empty": "",
        "long": "example.com/" + "g" * 64,
        "upper": "Example.com/gpu",
        "two": "a/b/c",
        "bad": "example.com/g g",
        "no-name": "example.com/",
        "no-domain": "/gpu",
        "deviceclass": "deviceclass.resource.kubernetes.io/x",
        "kube-suffix": "notkubernetes.io/x",
        "long-domain": "d" * 253 + "/x",
        "cpu": "cpu",
        "hugepages": "hugepages-2Mi",
        "requests-prefix": "requestsx.io/gpu",
    }
    for key, name in names.items():
        yield one(f"extended/{key}", {"extendedResourceName": name})
    selectors = {
        "selectors": [cel("true"), cel("device.driver == 'x'")],
        "config": [{"opaque": {"driver": "d", "parameters": {}}}],
    }
    yield (
        "class/update",
        [
            create(obj("DeviceClass", selectors)),
            update({"metadata": {"labels": {"a": "b"}}}),
            update({"spec": {"selectors": [cel("1")]}}, 1),
            update({"spec": {"selectors": [cel("true")], "extendedResourceName": "a.b/c"}}, 1),
            update({"spec": {"extendedResourceName": None}}, 3),
            update({"metadata": {"resourceVersion": None}, "spec": None}, 4),
            update({"spec": {"config": [{}]}}, 5),
            patch("DeviceClass", {"spec": {"selectors": [{}]}}),
            operations("DeviceClass", [{"op": "add", "path": "/spec/selectors", "value": [cel("true")]}]),
            operations("DeviceClass", [{"op": "test", "path": "/spec/selectors/0/cel/expression", "value": "false"}]),
            operations("DeviceClass", [{"op": "remove", "path": "/spec/nothing"}]),
            operations("DeviceClass", [{"op": "replace", "path": "/metadata/name", "value": "y"}]),
            patch("DeviceClass", {"metadata": {"name": "y"}}),
            patch("DeviceClass", {"metadata": {"resourceVersion": "1"}}),
            patch("DeviceClass", {"metadata": {"uid": UID}}),
            patch("DeviceClass", {"kind": "ResourceClaim"}),
            patch("DeviceClass", {"apiVersion": "resource.k8s.io/v1beta9"}),
            patch("DeviceClass", {"apiVersion": None}),
            patch("DeviceClass", {"kind": None, "metadata": {"labels": {"no": "kind"}}}),
            patch("DeviceClass", {"spec": {"selectors": "x"}}),
            patch("DeviceClass", {"metadata": {"labels": {"a": 1}}}),
            patch("DeviceClass", {"metadata": {"labels": None}}),
            patch("DeviceClass", {}),
            patch("DeviceClass", {"spec": {}}, "missing"),
            patch("DeviceClass", {"metadata": {"generation": 77, "creationTimestamp": OLD}}),
            patch("DeviceClass", {"metadata": {"creationTimestamp": None, "uid": None, "generation": None}}),
            patch("DeviceClass", {"metadata": {"deletionTimestamp": OLD}}),
            patch("DeviceClass", {"metadata": {"namespace": "default"}}),
            get("DeviceClass"),
        ],
    )


def taint_rules() -> Iterator[Scenario]:
    def one(name: str, body: Json) -> Scenario:
        return f"taint-rule/{name}", [create(body)]

    fine = {"key": "k", "effect": "NoExecute"}
    yield one("no-selector", rule(None, fine))
    yield one("no-taint", rule({}, None))
    yield one("no-spec", obj("DeviceTaintRule", None))
    for key, taint in TAINTS.items():
        yield one(f"taint/{key}", rule({"driver": "d"}, taint))
    for key, name in DRIVERS.items():
        yield one(f"driver/{key}", rule({"driver": name}, fine))
    for key, name in POOLS.items():
        yield one(f"pool/{key}", rule({"pool": name}, fine))
    for key, name in NAMES.items():
        yield one(f"device/{key}", rule({"device": name}, fine))
        yield one(f"object-name/{key}", rule({}, fine, name))
    for key, entries in CONDITIONS.items():
        yield (
            f"taint-rule/conditions/{key}",
            [create(rule({}, fine)), update_status({"status": {"conditions": entries}})],
        )
    yield (
        "taint-rule/update",
        [
            create(rule({"driver": "d"}, {**fine, "timeAdded": OLD})),
            update({"spec": {"taint": {"effect": "NoSchedule"}}}),
            update({"spec": {"taint": {"effect": "None", "timeAdded": "2024-01-01T00:00:00Z"}}}, 1),
            update({"spec": {"deviceSelector": {"driver": "e"}}}, 2),
            update({"spec": {"taint": {"timeAdded": None}}}, 3),
            update({"metadata": {"resourceVersion": None}}, 4),
            update({"spec": {"taint": {"effect": "x"}}}, 4),
            update({"spec": {"taint": {"effect": None}}}, 4),
            update({"spec": {"taint": {"key": None}}}, 4),
            update_status({"metadata": {"resourceVersion": None}, "status": {"conditions": [CONDITION]}}, 4),
            update_status(
                {
                    "spec": {"taint": {"effect": "None"}},
                    "metadata": {"labels": {"a": "b"}},
                    "status": {"conditions": [CONDITION]},
                },
                4,
            ),
            update({"metadata": {"labels": {"a": "b"}}, "status": None}, 10),
            patch("DeviceTaintRule", {"spec": {"taint": {"value": "v"}}}),
            patch("DeviceTaintRule", {"status": {"conditions": None}}, subresource="status"),
            patch("DeviceTaintRule", {"spec": {"taint": {"effect": "NoExecute", "timeAdded": None}}}),
            get("DeviceTaintRule"),
            delete("DeviceTaintRule"),
        ],
    )


def pool_requests() -> Iterator[Scenario]:
    def one(name: str, spec: Json | None, **meta: Any) -> Scenario:
        return f"pool-request/{name}", [create(obj("ResourcePoolStatusRequest", spec, api=ALPHA, **meta))]

    yield one("fine", {"driver": "d"})
    yield one("empty", {})
    yield one("no-spec", None)
    for limit in (-1, 0, 1, 1000, 1001):
        yield one(f"limit/{limit}", {"driver": "d", "limit": limit})
    for key, name in DRIVERS.items():
        yield one(f"driver/{key}", {"driver": name})
    for key, name in POOLS.items():
        yield one(f"pool/{key}", {"driver": "d", "poolName": name})
    for key, name in QNAMES.items():
        yield one(f"partition/{key}", {"driver": "d", "defaultPartitionTypeAttribute": name})
    made = create(obj("ResourcePoolStatusRequest", {"driver": "d"}, api=ALPHA))
    yield (
        "pool-request/update",
        [
            made,
            update({"spec": {"limit": 5}}),
            update({"spec": {"limit": None}}),
            update({"metadata": {"labels": {"a": "b"}}}),
            update({"metadata": {"resourceVersion": None}}, 3),
        ],
    )

    def status(name: str, value: Json) -> Scenario:
        return f"pool-request/status/{name}", [made, update_status({"status": value})]

    pool = {
        "driver": "d",
        "poolName": "p",
        "generation": 1,
        "resourceSliceCount": 1,
        "totalDevices": 1,
        "allocatedDevices": 0,
        "availableDevices": 1,
        "unavailableDevices": 0,
    }
    yield status("empty", {})
    yield status("fine", {"poolCount": 1, "pools": [pool], "conditions": [{**CONDITION, "type": "Complete"}]})
    yield status("negative", {"poolCount": -1})
    yield status("pool-empty", {"poolCount": 1, "pools": [{}]})
    yield status(
        "pool-negative",
        {"poolCount": 1, "pools": [{key: -1 if isinstance(value, int) else value for key, value in pool.items()}]},
    )
    yield status(
        "pool-names",
        {
            "poolCount": 1,
            "pools": [{**pool, "driver": "A_", "poolName": "A", "nodeName": "N", "validationError": "x" * 257}],
        },
    )
    yield status("pool-minimal", {"poolCount": 0, "pools": [{"driver": "d", "poolName": "p", "generation": 0}]})
    yield status("pool-zero-count", {"poolCount": 0, "pools": [{**pool, "resourceSliceCount": 0}]})
    yield status("pool-twice", {"poolCount": 2, "pools": [pool, pool]})
    partition = {"attribute": "a.b/c", "type": "t", "total": 1, "allocatable": 1}
    yield status("partition", {"poolCount": 1, "pools": [{**pool, "partitionSummary": [partition]}]})
    yield status("partition-twice", {"poolCount": 1, "pools": [{**pool, "partitionSummary": [partition, partition]}]})
    yield status("partition-empty", {"poolCount": 1, "pools": [{**pool, "partitionSummary": [{}]}]})
    yield status(
        "partition-negative",
        {"poolCount": 1, "pools": [{**pool, "partitionSummary": [{**partition, "total": -1, "allocatable": -1}]}]},
    )
    yield status(
        "partition-33",
        {"poolCount": 1, "pools": [{**pool, "partitionSummary": [{**partition, "type": f"t{i}"} for i in range(33)]}]},
    )
    yield status("shareable-empty", {"poolCount": 1, "pools": [{**pool, "shareableSummary": {}}]})
    yield status(
        "shareable",
        {
            "poolCount": 1,
            "pools": [
                {
                    **pool,
                    "shareableSummary": {
                        "fullyAvailableDevices": 1,
                        "partiallyAvailableDevices": 0,
                        "capacity": [{"name": "c", "total": "1", "consumed": "0", "available": "1"}],
                    },
                }
            ],
        },
    )
    yield status(
        "shareable-bad",
        {
            "poolCount": 1,
            "pools": [
                {
                    **pool,
                    "shareableSummary": {
                        "fullyAvailableDevices": -1,
                        "partiallyAvailableDevices": -1,
                        "capacity": [{}],
                    },
                }
            ],
        },
    )
    yield status(
        "shareable-twice",
        {
            "poolCount": 1,
            "pools": [
                {
                    **pool,
                    "shareableSummary": {
                        "fullyAvailableDevices": 1,
                        "partiallyAvailableDevices": 0,
                        "capacity": [{"name": "c", "total": "1", "consumed": "0", "available": "1"}] * 2,
                    },
                }
            ],
        },
    )
    for key, entries in CONDITIONS.items():
        yield status(f"conditions/{key}", {"poolCount": 0, "conditions": entries})
    yield status("conditions/11", {"poolCount": 0, "conditions": [{**CONDITION, "type": f"T{i}"} for i in range(11)]})
    yield (
        "pool-request/status/once",
        [
            made,
            update_status({"status": {"poolCount": 1, "pools": [pool]}}),
            update_status({"status": {"poolCount": 2}}, 1),
            update_status({"status": None}, 1),
            update_status({}, 1),
            get("ResourcePoolStatusRequest"),
        ],
    )
