"""Classes and claims."""

from __future__ import annotations

from devtools.upstream.allocator.problems import attributes, capacity
from devtools.upstream.allocator.problems.mix import Json, Mix

CLASSES = ("c0", "c1", "c2")
_FEW = {1: 14.0, 2: 5.0, 3: 1.5, 4: 0.2, 0: 0.1, 33: 0.02}
_MANY = {1: 3.0, 4: 1.0, 8: 2.0, 12: 2.0, 16: 2.0, 20: 1.0, 28: 1.0, 32: 1.0}
_DERIVED = ("derived.io/key", "common.io/root", "a.example.com/numa")


def device_class(mix: Mix, name: str, configs: int) -> Json:
    """With up to ``configs`` configurations: more than 64 can't be stored (AC-14)."""
    spec: Json = {}
    if mix.has("selectors", 0.6, 0.15):
        spec["selectors"] = [attributes.selector(mix) for _ in range(mix.randint(1, 2))]
    if mix.has("config", 0.7, 0.1):
        spec["config"] = [attributes.opaque(mix, f"{name}-{i}") for i in range(mix.randint(configs // 2, configs))]
    return {"metadata": {"name": name}, "spec": spec}


def claim(mix: Mix, name: str) -> Json:
    requests: list[Json] = []
    names: list[str] = []
    derives = list(mix.some(_DERIVED, 2)) if mix.has("derived_attributes", 0.8, 0.02) else []
    for i in range(mix.pick({1: 5, 2: 4, 3: 2})):
        if mix.has("prioritized_list", 0.6, 0.08):
            subs = [{"name": f"s{k}", **_wanted(mix, derives)} for k in range(mix.randint(1, 3))]
            requests.append({"name": f"r{i}", "firstAvailable": subs})
            names += [f"r{i}"] + [f"r{i}/s{k}" for k in range(len(subs))]
        else:
            wanted = _wanted(mix, derives)
            if mix.has("admin_access", 0.35, 0.02):
                wanted["adminAccess"] = mix.chance(0.9)
            requests.append({"name": f"r{i}", "exactly": wanted})
            names.append(f"r{i}")
    if mix.chance(0.003):
        requests.clear()
    names = names if mix.chance(0.99) else [*names, "nowhere"]
    devices: Json = {"requests": requests}
    if constraints := attributes.constraints(mix, names, derives):
        devices["constraints"] = constraints
    config = []
    for i in range(mix.choice((1, 2, 3)) if mix.has("config", 0.8, 0.1) else 0):
        entry = attributes.opaque(mix, f"{name}-{i}")
        if mix.chance(0.7):
            entry["requests"] = mix.some(names, 3)
        config.append(entry)
    if config:
        devices["config"] = config
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"devices": devices}}


def _wanted(mix: Mix, derives: list[str]) -> Json:
    """An exact request or a subrequest."""
    wanted: Json = {"deviceClassName": mix.choice(CLASSES)}
    if mix.has("selectors", 0.5, 0.15):
        wanted["selectors"] = [attributes.selector(mix) for _ in range(mix.choice((1, 1, 2)))]
    if mix.has("all_mode", 0.5, 0.02):
        wanted["allocationMode"] = "All"
    else:
        counts = _MANY if "many_devices" in mix.strong else _FEW
        wanted |= {"allocationMode": "ExactCount", "count": mix.pick(counts)}
    if mix.has("taints", 0.4, 0.02):
        wanted["tolerations"] = [dict(mix.choice(attributes.TOLERATIONS)) for _ in range(mix.choice((1, 1, 2)))]
    if mix.has("capacity_requests", 0.75, 0.02):
        wanted["capacity"] = capacity.requested(mix)
    if derives and mix.chance(0.85):
        wanted["derivedAttributes"] = [attributes.derived(mix, name) for name in derives if mix.chance(0.9)]
    return wanted


def spoil(mix: Mix, claims: list[Json]) -> None:
    """One fault that a pre-check reports (A-6), or that kills the reference."""
    devices = mix.choice(claims)["spec"]["devices"]
    if not devices["requests"]:
        return
    entry = mix.choice(devices["requests"])
    if mix.chance(0.05):
        entry.pop("exactly", None)  # AC-12
        entry.pop("firstAvailable", None)
        return
    if mix.chance(0.1):
        devices["constraints"] = [*devices.get("constraints", []), {}]
        return
    wanted = entry["exactly"] if "exactly" in entry else mix.choice(entry["firstAvailable"])
    fault: Json = mix.choice(
        (
            {"selectors": [*wanted.get("selectors", []), {}]},
            {"allocationMode": "Some"},
            {"allocationMode": ""},
            {"deviceClassName": ""},
            {"deviceClassName": "missing"},
            {"count": mix.choice((20, 31, 32, 33, 2**40))},
            {"capacity": {}},
            {"capacity": {"requests": {"mem": "1Gi"}}},
            {"derivedAttributes": [{"name": "x.io/y", "expression": "1"}]},
            {"selectors": [{"cel": {"expression": mix.choice(("1 +", "1", "device.attributes", "device.nothing"))}}]},
            {"adminAccess": True} if "exactly" in entry else {"allocationMode": "None"},
        )
    )
    wanted |= fault
