"""Random allocation problems in wire form, small enough to be hard: few devices, shared attributes, several claims and nodes."""

from __future__ import annotations

from random import Random
from typing import Any

Json = dict[str, Any]

DRIVERS = ("a.example.com", "b.example.com")
EXPRESSIONS = (
    "true",
    "false",
    'device.driver == "a.example.com"',
    'device.driver == "b.example.com"',
    'device.attributes["a.example.com"].kind == "x"',
    'device.attributes["a.example.com"].?kind.orValue("") == "y"',
    '"kind" in device.attributes["b.example.com"]',
)
ATTRIBUTES = ("kind", "numa", "a.example.com/numa", "common.io/root", "b.example.com/flag")


def problem(random: Random) -> Json:
    """One problem. Pools are consistent, since the reference is known to be wrong for others (AC-4, AC-15, AC-16)."""
    features = _features(random)
    classes = [_class(random, name) for name in ("c0", "c1", "c2")]
    slices: list[Json] = []
    for driver in DRIVERS:
        for pool in range(random.choice((0, 1, 1, 2, 2))):
            slices += _pool(random, driver, f"p{pool}", features)
    random.shuffle(slices)
    devices = [(s["spec"]["driver"], s["spec"]["pool"]["name"], d["name"]) for s in slices for d in s["spec"]["devices"]]
    used = [device for device in devices if random.random() < 0.15]
    claims = [_claim(random, f"claim{i}") for i in range(random.choice((1, 1, 1, 2, 2, 3)))]
    if random.random() < 0.1:
        _spoil(random, claims)
    node = {"metadata": {"name": random.choice(("n1", "n1", "n2")), "labels": {"zone": random.choice(("z1", "z2"))}}}
    return {
        "features": features,
        "node": node,
        "classes": classes,
        "slices": slices,
        "allocated": _allocated(random, used, features),
        "claims": claims,
    }


def _features(random: Random) -> dict[str, bool]:
    features = dict.fromkeys(("AdminAccess", "PrioritizedList", "PartitionableDevices", "DeviceTaints", "ConsumableCapacity"), True)
    features["DeviceBindingAndStatus"] = features["FractionalCapacityRange"] = True
    for name in ("AdminAccess", "PrioritizedList", "DeviceTaints", "PartitionableDevices", "ConsumableCapacity", "DeviceBindingAndStatus"):
        if random.random() < 0.05:
            features[name] = False
    for name, often in (("ListTypeAttributes", 0.5), ("CompatibilityGroups", 0.05), ("DerivedAttributes", 0.05)):
        if random.random() < often:
            features[name] = True
    return features


def _spoil(random: Random, claims: list[Json]) -> None:
    """One fault that a pre-check reports (A-6)."""
    devices = random.choice(claims)["spec"]["devices"]
    entry = random.choice(devices["requests"])
    wanted = entry["exactly"] if "exactly" in entry else random.choice(entry["firstAvailable"])
    fault: Json = random.choice(
        (
            {"selectors": [*wanted.get("selectors", []), {}]},
            {"allocationMode": "Some"},
            {"allocationMode": ""},
            {"deviceClassName": ""},
            {"count": random.choice((31, 32, 33, 2**40))},
            {"capacity": {}},
            {"derivedAttributes": [{"name": "x.io/y", "expression": "1"}]},
            {"selectors": [{"cel": {"expression": random.choice(("1 +", "1", "device.attributes", "device.nothing"))}}]},
        )
    )
    wanted |= fault
    if random.random() < 0.2:
        devices["constraints"] = [*devices.get("constraints", []), {}]


def _class(random: Random, name: str) -> Json:
    spec: Json = {}
    if random.random() < 0.6:
        spec["selectors"] = [_selector(random) for _ in range(random.randint(1, 2))]
    if random.random() < 0.4:
        spec["config"] = [_opaque(f"{name}-{i}") for i in range(random.randint(1, 2))]
    return {"metadata": {"name": name}, "spec": spec}


def _selector(random: Random) -> Json:
    weights = (4, 1, 3, 3, 1, 2, 1)
    return {"cel": {"expression": random.choices(EXPRESSIONS, weights)[0]}}


def _opaque(value: str) -> Json:
    return {"opaque": {"driver": "a.example.com", "parameters": {"value": value}}}


def _pool(random: Random, driver: str, pool: str, features: dict[str, bool]) -> list[Json]:
    count = random.choice((1, 1, 1, 2, 3))
    slices: list[Json] = []
    number = 0
    for i in range(count):
        devices = []
        for _ in range(random.choice((0, 2, 3, 4))):
            devices.append(_device(random, f"d{number}", features))
            number += 1
        spec: Json = {"driver": driver, "pool": {"name": pool, "generation": 1, "resourceSliceCount": count}, "devices": devices}
        spec |= _selection(random)
        if spec.get("perDeviceNodeSelection"):
            for device in devices:
                device |= random.choice(
                    ({"nodeName": "n1"}, {"nodeName": "n2"}, {"allNodes": True}, {"nodeSelector": _node_selector(random)}, {})
                )
        if random.random() < 0.05:
            spec["skipNodeOperations"] = ["*"]
        slices.append({"metadata": {"name": f"{random.choice('xyz')}-{driver[0]}-{pool}-{i}"}, "spec": spec})
    if random.random() < 0.05:
        slices = slices[:-1]
    if slices and random.random() < 0.03 and all(s["spec"].get("allNodes") for s in slices):  # otherwise AC-16
        slices[-1]["spec"]["devices"] += [{"name": "d0"}] * (2 if number == 0 else 1)
    if features["PartitionableDevices"] and random.random() < 0.03 and slices and slices[-1]["spec"]["devices"]:
        slices[-1]["spec"]["devices"][-1]["consumesCounters"] = [{"counterSet": "nowhere", "counters": {"m": {"value": "1"}}}]
    if random.random() < 0.05 and all(s["spec"].get("nodeName") is None for s in slices):
        return slices + _obsolete(slices)
    return slices


def _obsolete(slices: list[Json]) -> list[Json]:
    """The same slices in an older generation."""
    return [
        {"metadata": {"name": s["metadata"]["name"] + "-old"}, "spec": s["spec"] | {"pool": s["spec"]["pool"] | {"generation": 0}}}
        for s in slices
    ]


def _selection(random: Random) -> Json:
    return random.choices(
        (
            {"nodeName": "n1"},
            {"nodeName": "n2"},
            {"allNodes": True},
            {"nodeSelector": _node_selector(random)},
            {"perDeviceNodeSelection": True},
            {},
        ),
        (5, 1, 3, 2, 1, 0.2),
    )[0]


def _node_selector(random: Random) -> Json:
    """Rarely with two terms, which a result can't express, or one that can't be read."""
    terms = [_term(random) for _ in range(2 if random.random() < 0.05 else 1)]
    if random.random() < 0.01:
        terms[0]["matchExpressions"][0] |= random.choice(({"operator": "Inn"}, {"key": "a b"}, {"operator": "In", "values": []}))
    return {"nodeSelectorTerms": terms}


def _term(random: Random) -> Json:
    expression = random.choice(
        (
            {"key": "zone", "operator": "In", "values": ["z1"]},
            {"key": "zone", "operator": "In", "values": ["z1", "z2"]},
            {"key": "zone", "operator": "Exists"},
            {"key": "gpu", "operator": "DoesNotExist"},
            {"key": "zone", "operator": "NotIn", "values": ["z2"]},
            {"key": "zone", "operator": "In", "values": ["z2", "z1"]},
            {"key": "zone", "operator": "Gt", "values": ["1"]},
        )
    )
    term: Json = {"matchExpressions": [expression]}
    if random.random() < 0.3:
        term["matchFields"] = [
            {"key": "metadata.name", "operator": random.choice(("In", "NotIn")), "values": [random.choice(("n1", "n2"))]}
        ]
    return term


def _device(random: Random, name: str, features: dict[str, bool]) -> Json:
    device: Json = {"name": name}
    lists = features.get("ListTypeAttributes", False) and random.random() < 0.5
    attributes = {key: _list(random) if lists and random.random() < 0.5 else _value(random) for key in ATTRIBUTES if random.random() < 0.75}
    if "kind" in attributes:
        attributes["kind"] = {"string": random.choice("xxy")}
    if attributes:
        device["attributes"] = attributes
    if random.random() < 0.15:
        effect = random.choice(("NoSchedule", "NoExecute", "None", "Odd"))
        device["taints"] = [
            {"key": random.choice("kl"), "value": random.choice("vw"), "effect": effect, "timeAdded": "2026-01-01T00:00:00Z"}
        ]
    if random.random() < 0.1:
        device["bindsToNode"] = True
    if random.random() < 0.1:
        device["capacity"] = {"mem": {"value": random.choices(("1Gi", "0", "-1"), (5, 1, 0.3))[0]}, "a.example.com/n": {"value": "4"}}
    if not features["ConsumableCapacity"] and random.random() < 0.1:
        device["allowMultipleAllocations"] = True
    if not features["DeviceBindingAndStatus"] and random.random() < 0.1:
        device |= {"bindingConditions": ["b"], "bindingFailureConditions": ["f"]}
    elif random.random() < 0.02:
        device["bindingConditions"] = []
    if not features["PartitionableDevices"] and random.random() < 0.1:
        device["consumesCounters"] = [{"counterSet": "nowhere", "counters": {"m": {"value": "1"}}}]
    return device


def _list(random: Random) -> Json:
    return random.choice(
        (
            {"ints": random.sample((0, 1, 2), random.randint(1, 3))},
            {"strings": random.sample(("a", "b", "c"), random.randint(1, 2))},
            {"bools": [random.random() < 0.5]},
            {"versions": ["1.0.0", "2.0.0"]},
        )
    )


def _value(random: Random) -> Json:
    return random.choices(
        ({"int": random.randint(0, 1)}, {"string": random.choice("ab")}, {"bool": random.random() < 0.5}, {"version": "1.0.0"}),
        (5, 3, 1, 1),
    )[0]


def _allocated(random: Random, used: list[tuple[str, str, str]], features: dict[str, bool]) -> list[Json]:
    results = []
    for driver, pool, device in used:
        result: Json = {"request": "r", "driver": driver, "pool": pool, "device": device}
        if random.random() < 0.2:
            result["adminAccess"] = True
        elif not features["ConsumableCapacity"] and random.random() < 0.2:  # on: AC-1
            result |= {"shareID": "s1", "consumedCapacity": {"mem": "1"}}
        results.append(result)
    return [{"metadata": {"name": "other", "namespace": "ns"}, "spec": {}, "status": {"allocation": {"devices": {"results": results}}}}]


def _claim(random: Random, name: str) -> Json:
    requests: list[Json] = []
    names = []
    for i in range(random.choice((1, 1, 2, 3))):
        if random.random() < 0.3:
            subs = [{"name": f"s{k}", **_exact(random, admin=False)} for k in range(random.randint(1, 3))]
            requests.append({"name": f"r{i}", "firstAvailable": subs})
            names += [f"r{i}"] + [f"r{i}/s{k}" for k in range(len(subs))]
        else:
            requests.append({"name": f"r{i}", "exactly": _exact(random, admin=True)})
            names.append(f"r{i}")
    devices: Json = {"requests": requests}
    constraints = []
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        kind = random.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        constraint: Json = {
            kind: random.choice(
                ("a.example.com/numa", "a.example.com/kind", "common.io/root", "b.example.com/flag", "numa", "a.example.com/x/y")
            )
        }
        if random.random() < 0.5:
            constraint["requests"] = random.sample(names, random.randint(1, min(2, len(names))))
        constraints.append(constraint)
    if constraints:
        devices["constraints"] = constraints
    config = []
    for i in range(random.choice((0, 0, 1, 2))):
        entry = _opaque(f"{name}-{i}")
        if random.random() < 0.7:
            entry["requests"] = random.sample(names, random.randint(1, min(3, len(names))))
        config.append(entry)
    if config:
        devices["config"] = config
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"devices": devices}}


def _exact(random: Random, *, admin: bool) -> Json:
    exact: Json = {"deviceClassName": random.choice(("c0", "c0", "c1", "c2", "missing") if random.random() < 0.1 else ("c0", "c1", "c2"))}
    if random.random() < 0.3:
        exact["selectors"] = [_selector(random)]
    if random.random() < 0.15:
        exact["allocationMode"] = "All"
    else:
        exact |= (
            {"allocationMode": "ExactCount", "count": random.choice((1, 1, 1, 2, 2, 3, 0, 33))}
            if random.random() < 0.3
            else {"allocationMode": "ExactCount", "count": random.choice((1, 1, 2))}
        )
    if admin and random.random() < 0.1:
        exact["adminAccess"] = random.random() < 0.8
    if random.random() < 0.2:
        exact["tolerations"] = [
            random.choice(
                (
                    {"operator": "Exists"},
                    {"key": "k", "operator": "Exists", "effect": "NoSchedule"},
                    {"key": "k", "operator": "Equal", "value": "v"},
                    {"key": "l", "operator": "Equal", "value": "w", "effect": "NoExecute"},
                    {"key": "k", "value": "v", "operator": ""},
                    {"key": "k", "operator": "Odd"},
                )
            )
        ]
    return exact
