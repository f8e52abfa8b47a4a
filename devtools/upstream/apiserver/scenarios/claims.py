"""ResourceClaim and ResourceClaimTemplate."""

from __future__ import annotations

from collections.abc import Iterator

from devtools.upstream.apiserver.scenarios.building import (
    OLD,
    UID,
    Json,
    Scenario,
    cel,
    claim,
    create,
    delete,
    exactly,
    get,
    nested_loops,
    obj,
    patch,
    request,
    template,
    update,
)
from devtools.upstream.apiserver.scenarios.tables import DRIVERS, NAMES, PARAMETERS, QNAMES, REFERENCES, TOLERATIONS


def claims() -> Iterator[Scenario]:
    def one(name: str, body: Json) -> Scenario:
        return f"claim/{name}", [create(body)]

    yield one("empty", claim())
    yield one("no-spec", obj("ResourceClaim", None))
    yield one("null-spec", {**obj("ResourceClaim", None), "spec": None})
    yield one("defaults", claim(request()))
    yield one("default-all", claim(request(allocationMode="All")))
    yield one("null-count", claim(request(count=None, allocationMode=None)))
    yield one(
        "status-dropped",
        {**claim(request()), "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}},
    )
    long_names = {"254": "a" * 254, "long-bad": "A/" * 127, "253": "a" * 253}
    for key, name in long_names.items():
        yield one(f"class-length/{key}", claim(request(deviceClassName=name)))
        yield one(
            f"alternative-class-length/{key}",
            claim({"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": name}]}),
        )
    yield one(
        "driver-of-wide-characters", claim(request(), config=[{"opaque": {"driver": "é" * 33, "parameters": {}}}])
    )
    typed = "a\u0007<&>\u2028\u007f"
    yield one(
        "texts-of-types",
        claim(
            request("a", allocationMode=typed, tolerations=[{"key": typed, "operator": typed, "effect": typed}]),
            request("b", derivedAttributes=[{"name": f"a.b/{typed}", "expression": "1"}]),
            constraints=[{"matchAttribute": typed}],
        ),
    )
    for key, name in NAMES.items():
        yield one(f"request-name/{key}", claim(request(name)))
        yield one(f"alternative-name/{key}", claim({"name": "r", "firstAvailable": [exactly(name=name)]}))
        yield one(f"class-name/{key}", claim(request(deviceClassName=name)))
        yield one(
            f"class-name-alternative/{key}",
            claim({"name": "r", "firstAvailable": [exactly(name="a", deviceClassName=name)]}),
        )
        yield one(f"object-name/{key}", claim(request(), name=name))
    yield one("request-twice", claim(request(), request(), request()))
    yield one("requests-32", claim(*(request(f"r{i}") for i in range(32))))
    yield one("requests-33", claim(*(request(f"R{i}") for i in range(33))))
    yield one("requests-33-same", claim(*(request("r") for i in range(33))))
    yield one("neither", claim({"name": "r"}))
    yield one("neither-empty-list", claim({"name": "r", "firstAvailable": []}))
    yield one("both", claim({"name": "r", "exactly": exactly(), "firstAvailable": [exactly(name="a")]}))
    yield one(
        "both-bad", claim({"name": "R", "exactly": exactly(deviceClassName=""), "firstAvailable": [exactly(name="A")]})
    )
    yield one("both-empty-list", claim({"name": "r", "exactly": exactly(), "firstAvailable": []}))
    yield one("empty-exactly", claim({"name": "r", "exactly": {}}))
    yield one("null-exactly", claim({"name": "r", "exactly": None}))
    yield one("alternatives-8", claim({"name": "r", "firstAvailable": [exactly(name=f"a{i}") for i in range(8)]}))
    yield one("alternatives-9", claim({"name": "r", "firstAvailable": [exactly(name=f"a{i}") for i in range(9)]}))
    yield one("alternative-twice", claim({"name": "r", "firstAvailable": [exactly(name="a"), exactly(name="a")]}))
    yield one("alternative-as-request", claim({"name": "r", "firstAvailable": [exactly(name="s")]}, request("s")))
    yield one("alternative-empty", claim({"name": "r", "firstAvailable": [{}]}))
    modes: dict[str, Json] = {
        "all-count": {"allocationMode": "All", "count": 2},
        "all-negative": {"allocationMode": "All", "count": -1},
        "negative": {"count": -1},
        "exact-0": {"allocationMode": "ExactCount", "count": 0},
        "exact-min": {"allocationMode": "ExactCount", "count": -(2**63)},
        "unknown": {"allocationMode": "Some"},
        "unknown-count": {"allocationMode": "Some", "count": -1},
        "case": {"allocationMode": "all"},
        "huge": {"count": 2**62},
        "empty": {"allocationMode": "", "count": 3},
        "admin": {"adminAccess": True},
        "admin-false": {"adminAccess": False},
        "not-a-number": {"count": "1"},
        "fraction": {"count": 1.5},
        "over": {"count": 2**63},
    }
    for key, mode in modes.items():
        yield one(f"mode/{key}", claim(request(**mode)))
        if not key.startswith("admin"):
            yield one(f"mode-alternative/{key}", claim({"name": "r", "firstAvailable": [exactly(name="a", **mode)]}))
    for key, toleration in TOLERATIONS.items():
        yield one(f"toleration/{key}", claim(request(tolerations=[toleration])))
        yield one(
            f"toleration-alternative/{key}",
            claim({"name": "r", "firstAvailable": [exactly(name="a", tolerations=[toleration])]}),
        )
    yield one("tolerations-17", claim(request(tolerations=[{"operator": "Exists"} for _ in range(17)])))
    yield one("toleration-seconds-type", claim(request(tolerations=[{"operator": "Exists", "tolerationSeconds": "1"}])))
    selectors: dict[str, Json] = {
        "true": cel("true"),
        "empty": cel(""),
        "no-cel": {},
        "null-cel": {"cel": None},
        "undeclared": cel("devices.driver == 1"),
        "type": cel("1"),
        "syntax": cel("device.driver =="),
        "long": cel('"' + "a" * 10240 + '" == device.driver'),
        "max": cel("device.driver == '" + "a" * (10240 - 18) + "'"),
        "dyn": cel("dyn(1)"),
        "string": cel('device.driver + "x"'),
        "attribute": cel('device.attributes["example.com"].model == "x"'),
        "attribute-bool": cel('device.attributes["example.com"].flag'),
        "cost": cel(nested_loops("abcdef")),
        "field": cel("device.nothing"),
        "two-errors": cel("a && b"),
        "multiline": cel("true &&\n  foo"),
        "quantity": cel('device.capacity["a.b"].m.compareTo(quantity("1Gi")) > 0'),
        "bad-quantity": cel('quantity("x").isGreaterThan(quantity("1"))'),
        "int-overflow": cel("9223372036854775808 > 1"),
        "unknown-function": cel("foo(device)"),
        "multi": cel("device.allowMultipleAllocations == true"),
        "regex": cel('device.driver.matches("(")'),
        "regex-ok": cel('device.driver.matches("^a.*")'),
        "includes": cel('device.attributes["a.b"].l.includes("x")'),
        "semver": cel('device.attributes["a.b"].v.isGreaterThan(semver("1.0.0"))'),
        "unclosed": cel('"abc'),
        "reserved": cel("for == 1"),
        "comment": cel("true // x"),
    }
    for key, selector in selectors.items():
        yield one(f"selector/{key}", claim(request(selectors=[selector])))
    yield one("selectors-32", claim(request(selectors=[cel("true")] * 32)))
    yield one("selectors-33", claim(request(selectors=[cel("")] * 33)))
    yield one("selectors-many-bad", claim(request(selectors=[cel("true"), cel("a"), {}, cel("1")])))
    yield one("selector-alternative", claim({"name": "r", "firstAvailable": [exactly(name="a", selectors=[cel("1")])]}))
    both = ({"name": "r", "firstAvailable": [exactly(name="a"), exactly(name="b")]}, request("e"))
    for key, reference in REFERENCES.items():
        yield one(
            f"constraint-request/{key}",
            claim(*both, constraints=[{"requests": [reference], "matchAttribute": "a.b/c"}]),
        )
        yield one(
            f"config-request/{key}",
            claim(*both, config=[{"requests": [reference], "opaque": {"driver": "d", "parameters": {}}}]),
        )
    yield one(
        "constraint-request-twice", claim(request(), constraints=[{"requests": ["r", "r"], "matchAttribute": "a.b/c"}])
    )
    yield one(
        "constraint-unknown-twice", claim(request(), constraints=[{"requests": ["s", "s"], "matchAttribute": "a.b/c"}])
    )
    yield one(
        "constraint-requests-33",
        claim(request(), constraints=[{"requests": [f"s{i}" for i in range(33)], "matchAttribute": "a.b/c"}]),
    )
    yield one(
        "config-requests-33",
        claim(
            request(), config=[{"requests": [f"s{i}" for i in range(33)], "opaque": {"driver": "d", "parameters": {}}}]
        ),
    )
    yield one("constraints-33", claim(request(), constraints=[{"matchAttribute": "a"}] * 33))
    yield one("constraints-32", claim(request(), constraints=[{"matchAttribute": "a.b/c"}] * 32))
    yield one("constraint-none", claim(request(), constraints=[{}]))
    yield one(
        "constraint-both", claim(request(), constraints=[{"matchAttribute": "a.b/c", "distinctAttribute": "a.b/d"}])
    )
    yield one(
        "constraint-both-bad-match",
        claim(request(), constraints=[{"matchAttribute": "c", "distinctAttribute": "a.b/d"}]),
    )
    yield one(
        "constraint-both-bad-distinct",
        claim(request(), constraints=[{"matchAttribute": "a.b/c", "distinctAttribute": "d"}]),
    )
    for key, name in QNAMES.items():
        yield one(f"match-attribute/{key}", claim(request(), constraints=[{"matchAttribute": name}]))
        yield one(f"distinct-attribute/{key}", claim(request(), constraints=[{"distinctAttribute": name}]))
    for key, name in DRIVERS.items():
        yield one(f"config-driver/{key}", claim(request(), config=[{"opaque": {"driver": name, "parameters": {}}}]))
    for key, parameters in PARAMETERS.items():
        yield one(f"parameters/{key}", claim(request(), config=[{"opaque": {"driver": "d", "parameters": parameters}}]))
    yield one("parameters-absent", claim(request(), config=[{"opaque": {"driver": "d"}}]))
    yield one("config-no-opaque", claim(request(), config=[{}]))
    yield one("config-empty-opaque", claim(request(), config=[{"opaque": {}}]))
    yield one("configs-33", claim(request(), config=[{}] * 33))
    capacities: dict[str, Json] = {
        "fine": {"requests": {"a.b/m": "1Gi"}},
        "any-key": {"requests": {"-": "-1"}},
        "none": {},
        "number": {"requests": {"m": 5}},
        "bad": {"requests": {"m": "x"}},
        "odd": {"requests": {"m": "1024Mi"}},
        "fraction": {"requests": {"m": "0.5"}},
        "exponent": {"requests": {"m": "1e3"}},
        "null": {"requests": {"m": None}},
        "empty": {"requests": {"m": ""}},
    }
    for key, capacity in capacities.items():
        yield one(f"capacity/{key}", claim(request(capacity=capacity)))
    derived: dict[str, list[Json]] = {
        "fine": [{"name": "a.b/c", "expression": '"x"'}],
        "bare": [{"name": "c", "expression": '"x"'}],
        "none": [{}],
        "unreferenced": [{"name": "a.b/z", "expression": '"x"'}],
        "twice": [{"name": "a.b/c", "expression": '"x"'}] * 2,
        "syntax": [{"name": "a.b/c", "expression": "("}],
        "type": [{"name": "a.b/c", "expression": "device"}],
        "int": [{"name": "a.b/c", "expression": "1"}],
        "long": [{"name": "a.b/c", "expression": '"' + "x" * 10240 + '"'}],
        "33": [{"name": f"a.b/c{i}", "expression": '"x"'} for i in range(33)],
        "list": [{"name": "a.b/c", "expression": '["x"]'}],
        "dyn": [{"name": "a.b/c", "expression": 'device.attributes["a.b"].d'}],
        "bad-name": [{"name": "a.b/c-d", "expression": "true"}],
        "empty-expression": [{"name": "a.b/c", "expression": ""}],
    }
    derived["33-bad"] = [{"name": f"c{i % 2}", "expression": ""} for i in range(33)]
    for key, attributes in derived.items():
        yield one(
            f"derived/{key}", claim(request(derivedAttributes=attributes), constraints=[{"matchAttribute": "a.b/c"}])
        )
    yield one(
        "derived/distinct",
        claim(request(derivedAttributes=derived["fine"]), constraints=[{"distinctAttribute": "a.b/c"}]),
    )
    yield one(
        "derived/other-request",
        claim(
            request(derivedAttributes=derived["fine"]),
            request("s"),
            constraints=[{"requests": ["s"], "matchAttribute": "a.b/c"}],
        ),
    )
    yield one(
        "derived/alternative",
        claim(
            {"name": "r", "firstAvailable": [exactly(name="a", derivedAttributes=derived["fine"])]},
            constraints=[{"requests": ["r"], "matchAttribute": "a.b/c"}],
        ),
    )
    yield one(
        "derived/alternative-own",
        claim(
            {"name": "r", "firstAvailable": [exactly(name="a", derivedAttributes=derived["fine"])]},
            constraints=[{"requests": ["r/a"], "matchAttribute": "a.b/c"}],
        ),
    )
    yield one(
        "derived/alternative-other",
        claim(
            {"name": "r", "firstAvailable": [exactly(name="a", derivedAttributes=derived["fine"]), exactly(name="b")]},
            constraints=[{"requests": ["r/b"], "matchAttribute": "a.b/c"}],
        ),
    )
    yield one(
        "derived/both-constraints-second",
        claim(
            request(derivedAttributes=derived["fine"]),
            constraints=[{"matchAttribute": "a.b/z", "distinctAttribute": "a.b/c"}],
        ),
    )
    heavy = nested_loops("abcde")
    yield one(
        "derived/one-heavy",
        claim(
            request(derivedAttributes=[{"name": "a.b/c0", "expression": heavy}]),
            constraints=[{"matchAttribute": "a.b/c0"}],
        ),
    )
    for count in (2, 4, 8, 16):
        yield one(
            f"derived/total-{count}",
            claim(
                request(derivedAttributes=[{"name": f"a.b/c{i}", "expression": heavy} for i in range(count)]),
                constraints=[{"matchAttribute": f"a.b/c{i}"} for i in range(count)],
            ),
        )
    yield one("admin-with-label", claim(request(adminAccess=True), meta={"namespace": "admin"}))
    yield one("admin-second", claim(request("a"), request("b", adminAccess=True), request("c", adminAccess=True)))
    yield one("admin-and-invalid", claim(request("A", adminAccess=True)))
    yield one("admin-template-and-invalid", template({"devices": {"requests": [request("A", adminAccess=True)]}}))
    yield one("namespace-missing", claim(request(), meta={"namespace": "nowhere"}))
    yield one("namespace-missing-invalid", claim(request("A"), meta={"namespace": "nowhere"}))
    yield one("namespace-bad", claim(request(), meta={"namespace": "No Where"}))
    yield one(
        "many-faults", claim(request("A", deviceClassName="", count=-1), request("A"), constraints=[{}], config=[{}])
    )


def templates() -> Iterator[Scenario]:
    def one(name: str, body: Json) -> Scenario:
        return f"template/{name}", [create(body)]

    devices: Json = {"devices": {"requests": [request()]}}
    yield one("fine", template(devices))
    yield one("empty", template({}))
    yield one("no-spec", obj("ResourceClaimTemplate", None))
    yield one("bad-request", template({"devices": {"requests": [request("A")]}}))
    yield one(
        "bad-constraint",
        template({"devices": {"requests": [request()], "constraints": [{"requests": ["z"], "matchAttribute": "m"}]}}),
    )
    yield one("selector", template({"devices": {"requests": [request(selectors=[cel("1")])]}}))
    yield one("admin", template({"devices": {"requests": [request(adminAccess=True)]}}))
    yield one("admin-with-label", template({"devices": {"requests": [request(adminAccess=True)]}}, namespace="admin"))
    fields: dict[str, Json] = {
        "labels": {"labels": {"a": "b"}, "annotations": {"c/d": "e"}},
        "bad-labels": {"labels": {"a b": "c d"}},
        "bad-annotations": {"annotations": {"a b": "c d"}},
        "name": {"name": "y"},
        "generate-name": {"generateName": "y-"},
        "namespace": {"namespace": "default"},
        "uid": {"uid": UID},
        "finalizers": {"finalizers": ["a.b/c"]},
        "version": {"resourceVersion": "1"},
        "generation": {"generation": 1},
        "time": {"creationTimestamp": OLD},
        "null-time": {"creationTimestamp": None},
        "owners": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]},
        "self-link": {"selfLink": "x"},
        "grace": {"deletionGracePeriodSeconds": 1},
        "deletion": {"deletionTimestamp": OLD},
        "zero-grace": {"deletionGracePeriodSeconds": 0},
        "many": {"name": "y", "labels": {"-": "-"}, "annotations": {"-": ""}, "finalizers": ["x"]},
        "managed": {"managedFields": [{"manager": "m", "operation": "Update"}]},
    }
    for key, metadata in fields.items():
        yield one(f"metadata/{key}", template(devices, metadata=metadata))
    yield (
        "template/update",
        [
            create(template(devices)),
            update({"metadata": {"labels": {"a": "b"}}}),
            update({"spec": {"spec": {"devices": {"requests": [request("s")]}}}}, 1),
            update({"spec": {"metadata": {"labels": {"a": "b"}}}}, 1),
            update({"metadata": {"resourceVersion": None, "annotations": {"a": "b"}}}, 1),
            patch("ResourceClaimTemplate", {"spec": {"spec": {"devices": {"requests": []}}}}),
            {"verb": "updateStatus", "base": 0, "change": {}},
            patch("ResourceClaimTemplate", {"metadata": {"labels": {"x": "y"}}}, subresource="status"),
            delete("ResourceClaimTemplate"),
            get("ResourceClaimTemplate"),
        ],
    )
