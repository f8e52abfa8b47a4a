"""The status of ResourceClaims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from devtools.upstream.apiserver.scenarios.building import (
    OLD,
    UID,
    UUID2,
    Json,
    Scenario,
    allocation,
    claim,
    create,
    delete,
    exactly,
    get,
    merged,
    patch,
    request,
    result,
    update,
    update_status,
)
from devtools.upstream.apiserver.scenarios.tables import (
    BINDINGS,
    CONDITIONS,
    DRIVERS,
    NAMES,
    PARAMETERS,
    POOLS,
    REFERENCES,
    SELECTORS,
    SKIPS,
    TOLERATIONS,
)

ADDRESSES = {
    "fine": ["10.9.8.7/24", "2001:db8::1/64"],
    "host": ["10.9.8.7"],
    "zeros": ["010.9.8.7/24"],
    "upper": ["2001:DB8::1/64"],
    "long": ["2001:db8:0:0:0:0:0:1/64"],
    "length": ["10.9.8.7/33"],
    "text": ["x"],
    "twice": ["10.9.8.7/24"] * 2,
    "mapped": ["::ffff:1.2.3.4/120"],
    "empty": [""],
    "17": [f"10.0.0.{i}/24" for i in range(17)],
    "zone": ["fe80::1%eth0/64"],
    "length-zero": ["10.9.8.7/024"],
    "two": ["10.9.8.7/24/1"],
    "mapped-short": ["::ffff:1.2.3.4/24"],
    "same-twice-noncanonical": ["2001:DB8::1/64", "2001:db8::1/64"],
    "network": ["10.0.0.0/8"],
}
UIDS = {
    "fine": UUID2,
    "upper": UUID2.upper(),
    "short": "x",
    "braces": "{" + UUID2 + "}",
    "urn": "urn:uuid:" + UUID2,
    "no-dashes": UUID2.replace("-", ""),
    "letters": "z" + UUID2[1:],
    "empty": "",
    "dash": UUID2.replace("-", "_"),
}


def claim_statuses() -> Iterator[Scenario]:
    body = claim(request(), {"name": "f", "firstAvailable": [exactly(name="a"), exactly(name="b")]})

    def one(name: str, status: Json, meta: Json | None = None) -> Scenario:
        return f"claim-status/{name}", [
            create(merged(body, {"metadata": meta or {}})),
            update_status({"status": status}),
        ]

    consumer = {"resource": "pods", "name": "p", "uid": UID}
    yield one("fine", {"allocation": allocation(result())})
    yield one("empty-allocation", {"allocation": {}})
    yield one("empty", {})
    yield one("null", {"allocation": None, "reservedFor": None, "devices": None})
    for key, reference in {**REFERENCES, "f": "f", "f/a": "f/a", "f/z": "f/z"}.items():
        yield one(f"request/{key}", {"allocation": allocation(result(request=reference))})
    for key, name in DRIVERS.items():
        yield one(
            f"driver/{key}",
            {"allocation": allocation(result(driver=name)), "devices": [{"driver": name, "pool": "p", "device": "d"}]},
        )
    for key, name in POOLS.items():
        yield one(
            f"pool/{key}",
            {
                "allocation": allocation(result(pool=name)),
                "devices": [{"driver": "dr.io", "pool": name, "device": "d"}],
            },
        )
    for key, name in NAMES.items():
        yield one(
            f"device/{key}",
            {"allocation": allocation(result(name)), "devices": [{"driver": "dr.io", "pool": "p", "device": name}]},
        )
    for key, share in UIDS.items():
        yield one(f"share/{key}", {"allocation": allocation(result(shareID=share))})
        yield one(
            f"device-share/{key}",
            {
                "allocation": allocation(result(shareID=share)),
                "devices": [{"driver": "dr.io", "pool": "p", "device": "d", "shareID": share}],
            },
        )
    for key, toleration in TOLERATIONS.items():
        yield one(f"toleration/{key}", {"allocation": allocation(result(tolerations=[toleration]))})
    for key, binding in BINDINGS.items():
        yield one(f"binding/{key}", {"allocation": allocation(result(**binding))})
    for key, skips in SKIPS.items():
        yield one(f"skip/{key}", {"allocation": allocation(result(skipNodeOperations=skips))})
    for key, selector in SELECTORS.items():
        yield one(f"node-selector/{key}", {"allocation": allocation(result(), nodeSelector=selector)})
    yield one("results-32", {"allocation": allocation(*(result(f"d{i}") for i in range(32)))})
    yield one("results-33", {"allocation": allocation(*(result(f"D{i}") for i in range(33)))})
    yield one("results-same", {"allocation": allocation(result(), result())})
    yield one(
        "consumed", {"allocation": allocation(result(shareID=UUID2, consumedCapacity={"a.b/m": "1Gi", "-": "-1"}))}
    )
    yield one("timestamp", {"allocation": allocation(result(), allocationTimestamp=OLD)})
    yield one("bad-timestamp", {"allocation": allocation(result(), allocationTimestamp="soon")})
    yield one("admin", {"allocation": allocation(result(adminAccess=True))})
    yield one("admin-with-label", {"allocation": allocation(result(adminAccess=True))}, {"namespace": "admin"})
    yield one("admin-and-invalid", {"allocation": allocation(result("D", adminAccess=True))})
    configs: dict[str, Json] = {
        "fine": {"source": "FromClaim", "opaque": {"driver": "d", "parameters": {}}},
        "class": {"source": "FromClass", "requests": ["r"], "opaque": {"driver": "d", "parameters": {}}},
        "none": {},
        "source": {"source": "x", "opaque": {"driver": "d", "parameters": {}}},
        "request": {"source": "FromClaim", "requests": ["z", "z"], "opaque": {"driver": "d", "parameters": {}}},
        "driver": {"source": "FromClaim", "opaque": {"driver": "", "parameters": {}}},
        "long": {"source": "FromClaim", "opaque": {"driver": "d", "parameters": {"a": "x" * 10240}}},
        "parameters": {"source": "FromClaim", "opaque": {"driver": "d", "parameters": [1]}},
    }
    for key, config in configs.items():
        yield one(f"config/{key}", {"allocation": {"devices": {"results": [result()], "config": [config]}}})
    yield one("configs-64", {"allocation": {"devices": {"results": [result()], "config": [configs["fine"]] * 64}}})
    yield one("configs-65", {"allocation": {"devices": {"results": [result()], "config": [{}] * 65}}})
    consumers: dict[str, list[Json]] = {
        "fine": [consumer],
        "twice": [consumer, consumer],
        "empty": [{}],
        "same-uid": [consumer, {**consumer, "name": "q"}],
        "same-name": [consumer, {**consumer, "uid": UUID2}],
        "group": [{**consumer, "apiGroup": "g"}],
        "256": [{**consumer, "uid": f"u{i}"} for i in range(256)],
        "257": [{**consumer, "uid": f"u{i}"} for i in range(257)],
        "257-same": [consumer] * 257,
        "odd": [{"resource": "A b", "name": "A b", "uid": "A b"}],
    }
    for key, reserved in consumers.items():
        yield one(f"reserved/{key}", {"allocation": allocation(result()), "reservedFor": reserved})
    yield one("reserved-without-allocation", {"reservedFor": [consumer]})
    yield one("reserved-without-allocation-bad", {"reservedFor": [{}]})

    def device(**fields: Any) -> Json:
        return {"driver": "dr.io", "pool": "p", "device": "d", **fields}

    def devices(name: str, *entries: Json, results: tuple[Json, ...] = (result(),)) -> Scenario:
        return one(f"devices/{name}", {"allocation": allocation(*results), "devices": list(entries)})

    yield devices("fine", device())
    yield devices("twice", device(), device())
    yield devices("foreign", device(device="e"))
    yield devices("foreign-driver", device(driver="e"), device(pool="e"))
    yield devices("share-differs", device(shareID=UUID2))
    yield devices("share-twice", device(shareID=UUID2), device(shareID=UUID2), results=(result(shareID=UUID2),))
    yield devices("empty", {})
    yield devices("foreign-twice", device(device="e"), device(device="e"))
    for key, parameters in PARAMETERS.items():
        yield devices(f"data/{key}", device(data=parameters))
    for key, entries in CONDITIONS.items():
        yield devices(f"conditions/{key}", device(conditions=entries))
    for key, addresses in ADDRESSES.items():
        yield devices(f"ips/{key}", device(networkData={"ips": addresses}))
    yield devices("network/long", device(networkData={"interfaceName": "i" * 257, "hardwareAddress": "h" * 129}))
    yield devices("network/max", device(networkData={"interfaceName": "i" * 256, "hardwareAddress": "h" * 128}))
    yield devices("network/unicode", device(networkData={"interfaceName": "ä" * 129}))
    yield devices("network/empty", device(networkData={}))

    made = create(body)
    allocated = update_status(
        {
            "status": {
                "allocation": allocation(result(), result("e")),
                "reservedFor": [consumer],
                "devices": [device(data={"a": 1}), device(device="e")],
            }
        }
    )
    yield (
        "claim-status/change-allocation",
        [
            made,
            allocated,
            update_status({"status": {"allocation": allocation(result("z"))}}, 1),
            update_status({"status": {"allocation": allocation(result("Z"))}}, 1),
        ],
    )
    yield (
        "claim-status/same-allocation",
        [
            made,
            allocated,
            update_status({}, 1),
            update_status({"status": {"allocation": {"nodeSelector": SELECTORS["fine"]}}}, 1),
        ],
    )
    yield (
        "claim-status/deallocate",
        [
            made,
            allocated,
            update_status({"status": {"allocation": None}}, 1),
            update_status({"status": {"allocation": None, "reservedFor": []}}, 1),
            get("ResourceClaim"),
        ],
    )
    yield (
        "claim-status/deallocate-devices-bad",
        [
            made,
            allocated,
            update_status({"status": {"allocation": None, "reservedFor": [], "devices": [device(device="other")]}}, 1),
        ],
    )
    yield (
        "claim-status/deallocate-whole",
        [made, allocated, {"verb": "updateStatus", "base": 1, "change": {"status": None}}, get("ResourceClaim")],
    )
    yield (
        "claim-status/spec-kept",
        [
            made,
            update_status(
                {
                    "metadata": {"labels": {"a": "b"}, "finalizers": ["a.b/c"]},
                    "spec": {"devices": {"requests": [request("z")]}},
                    "status": {"allocation": allocation(result())},
                }
            ),
            get("ResourceClaim"),
        ],
    )
    yield (
        "claim-status/update-keeps-status",
        [made, allocated, update({"status": None, "metadata": {"labels": {"a": "b"}}}, 1), get("ResourceClaim")],
    )
    yield "claim-status/stale", [made, allocated, update_status({"status": {"reservedFor": []}}, 0)]
    yield (
        "claim-status/no-version",
        [made, update_status({"metadata": {"resourceVersion": None}, "status": {"allocation": allocation(result())}})],
    )
    yield (
        "claim-status/patch",
        [
            made,
            patch(
                "ResourceClaim", {"status": {"allocation": allocation(result())}, "spec": None}, subresource="status"
            ),
            patch("ResourceClaim", {"status": {"allocation": None}}),
        ],
    )
    yield (
        "claim-status/deleting",
        [
            create(merged(body, {"metadata": {"finalizers": ["a.b/c"]}})),
            update_status({"status": {"allocation": allocation(result()), "reservedFor": [consumer]}}),
            delete("ResourceClaim"),
            get("ResourceClaim"),
            update_status({"status": {"reservedFor": [consumer, {**consumer, "uid": UUID2}]}}, 3),
            update_status({"status": {"reservedFor": [{**consumer, "name": "other"}]}}, 3),
            update_status({"status": {"reservedFor": []}}, 3),
            patch("ResourceClaim", {"metadata": {"finalizers": ["a.b/c", "d.e/f"]}}),
            patch("ResourceClaim", {"metadata": {"finalizers": None}}),
            get("ResourceClaim"),
        ],
    )
    yield (
        "claim-status/admin-kept",
        [
            create(merged(body, {"metadata": {"namespace": "admin"}})),
            update_status({"status": {"allocation": allocation(result(adminAccess=True))}}),
            update_status({"status": {"reservedFor": [consumer]}}, 1),
        ],
    )
    yield (
        "claim/update",
        [
            create(body),
            update({"spec": {"devices": {"requests": [request("z")]}}}),
            update({"spec": {"devices": {"requests": [request("Z")]}}}),
            update({"spec": None}),
            update({}),
            update({"metadata": {"labels": {"a b": "c"}}}),
            patch("ResourceClaim", {"spec": {"devices": {"config": [{}]}}}),
        ],
    )
