"""Pools of slices: devices, counter slices, and what can be wrong with a pool."""

from __future__ import annotations

from devtools.upstream.allocator.problems import attributes, capacity, counters, node_selection
from devtools.upstream.allocator.problems.mix import DRIVERS, Json, Mix


def slices(mix: Mix) -> list[Json]:
    """All slices of the cluster, in no order."""
    slices_: list[Json] = []
    for driver in DRIVERS:
        for pool in range(mix.pick({0: 1, 1: 6, 2: 3}) if driver == DRIVERS[1] else mix.pick({1: 7, 2: 3})):
            slices_ += _pool(mix, driver, f"p{pool}")
    mix.shuffle(slices_)
    return slices_


def _pool(mix: Mix, driver: str, pool: str) -> list[Json]:
    template = _device(mix, "template", {}) if mix.chance(0.9 if "many_devices" in mix.strong else 0.35) else None
    sets = counters.counter_sets(mix) if mix.has("counters", 0.9, 0.05) else {}
    where = node_selection.of_slice(mix)
    slices_: list[Json] = []
    number = 0
    for _ in range(mix.pick({1: 5, 2: 3, 3: 1})):
        spec: Json = {"devices": []}
        spec |= where if mix.chance(0.7) else node_selection.of_slice(mix)
        many = "many_devices" in mix.strong and driver == DRIVERS[0]
        for _ in range(mix.randint(10, 20) if many else mix.pick({0: 0.4, 1: 1.5, 2: 3, 3: 4, 4: 3, 5: 1.5})):
            device = (
                dict(template, name=f"d{number}")
                if template is not None and mix.chance(0.7)
                else _device(mix, f"d{number}", sets)
            )
            if spec.get("perDeviceNodeSelection"):
                device |= node_selection.of_device(mix)
            spec["devices"].append(device)
            number += 1
        if mix.has("node_operations", 0.4, 0.02):
            spec["skipNodeOperations"] = mix.choice(
                (["*"], ["NodeUnprepareResources"], ["NodePrepareResources", "NodeUnprepareResources"])
            )
        slices_.append({"spec": spec})
    if sets:
        names = list(sets)
        cut = mix.randint(1, len(names)) if mix.chance(0.3) else len(names)
        for part in (names[:cut], names[cut:]):
            if part:
                spec = {"sharedCounters": counters.declared(mix, {name: sets[name] for name in part})}
                if mix.chance(0.01):
                    spec["devices"] = [_device(mix, "nobody", {})]  # ignored
                slices_.append({"spec": spec | (where if mix.chance(0.6) else node_selection.of_slice(mix))})
    generation = mix.choice((1, 1, 1, 3))
    for i, slice_ in enumerate(slices_):
        slice_["metadata"] = {"name": f"{mix.choice('xyz')}-{driver[0]}-{pool}-{i}"}
        slice_["spec"] |= {
            "driver": driver,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": len(slices_)},
        }
    if mix.has("pool_problems", 0.4, 0.02):
        slices_ = _spoiled(mix, slices_)
    return slices_


def _spoiled(mix: Mix, slices_: list[Json]) -> list[Json]:
    """One thing that makes the pool incomplete, invalid or old; some of them only where the reference looks."""
    devices = [device for slice_ in slices_ for device in slice_["spec"].get("devices", [])]
    counter_slices = [slice_ for slice_ in slices_ if "sharedCounters" in slice_["spec"]]
    fault = mix.pick(
        {"missing": 2, "twice": 2, "counters": 4, "obsolete": 3, "newer elsewhere": 0.5, "too many": 1, "counts": 0.5}
    )
    match fault:
        case "missing":
            slices_.pop(mix.randrange(len(slices_)))
        case "twice":
            if len(devices) > 1:
                mix.choice(devices[1:])["name"] = devices[0]["name"]
        case "counters":
            counters.spoil(mix, counter_slices, devices)
        case "obsolete":
            slices_ += [_other(slice_, generation=0) for slice_ in slices_ if mix.chance(0.7)]
        case "newer elsewhere":  # AC-4
            newer = _other(mix.choice(slices_), generation=9)
            newer["spec"]["pool"]["resourceSliceCount"] = 1
            slices_.append(newer)
        case "too many":
            extra = _other(slices_[0], generation=slices_[0]["spec"]["pool"]["generation"])
            extra["spec"] = {
                key: value for key, value in extra["spec"].items() if key in ("driver", "pool")
            } | node_selection.of_slice(mix)
            extra["spec"]["devices"] = [_device(mix, "extra", {})]
            slices_.append(extra)
        case "counts":  # AC-15
            mix.choice(slices_)["spec"]["pool"]["resourceSliceCount"] += mix.choice((-1, 1))
    return slices_


def _other(slice_: Json, generation: int) -> Json:
    pool = slice_["spec"]["pool"] | {"generation": generation}
    return {
        "metadata": {"name": slice_["metadata"]["name"] + f"-g{generation}"},
        "spec": slice_["spec"] | {"pool": pool},
    }


def _device(mix: Mix, name: str, sets: counters.Sets) -> Json:
    device: Json = {"name": name}
    if published := attributes.published(mix):
        device["attributes"] = published
    if mix.has("taints", 0.35, 0.03):
        device["taints"] = [attributes.taint(mix) for _ in range(mix.choice((1, 1, 2)))]
    if mix.chance(0.05):
        device["bindsToNode"] = mix.chance(0.9)
    shares = mix.has("shares", 0.75, 0.04)
    if shares or mix.has("capacity_requests", 0.7, 0.05):
        device["capacity"] = capacity.published(mix)
        if mix.chance(0.03):
            del device["capacity"]
    if shares:
        device["allowMultipleAllocations"] = mix.chance(0.95)
    if mix.has("binding_conditions", 0.3, 0.02):
        device |= {"bindingConditions": mix.some("bc", 2), "bindingFailureConditions": mix.some("fg", 2)}
    elif mix.has("binding_conditions", 0.04, 0.003):
        device["bindingConditions"] = []
    if sets and mix.chance(0.8):
        device["consumesCounters"] = counters.consumed(mix, sets)
    return device
