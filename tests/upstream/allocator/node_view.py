"""AC-4, AC-15, AC-16: the reference judges a pool by the slices that the asked node sees. A problem rewritten so that others do too."""

from __future__ import annotations

from copy import deepcopy

from tests.upstream.allocator.ours import features
from tests.upstream.allocator.problems import Json
from virt_dra.allocator.gates import Features
from virt_dra.allocator.node_selection import NodeMatcher, NodeSelectorError
from virt_dra.api.core_v1 import Node, NodeSelector

PoolKey = tuple[str, str]


def as_the_node_sees_it(problem: Json) -> Json:
    """Without the slices that the reference doesn't look at (A-5.1, A-5.2), and without contradictions that it doesn't notice."""
    rewritten = deepcopy(problem)
    on = features(problem)
    node = Node.from_wire(problem["node"])
    try:
        collected = _collected(rewritten["slices"], node, on)
    except NodeSelectorError:
        return rewritten  # fatal anyway
    for pool, seen in collected.items():
        generation, count = seen[0]["spec"]["pool"]["generation"], seen[0]["spec"]["pool"]["resourceSliceCount"]
        others = [each for each in rewritten["slices"] if _pool(each) == pool and not any(each is one for one in seen)]
        if len(seen) == count:  # complete at first sight: nothing else is looked at
            _drop(rewritten, [each for each in others if _generation(each) >= generation])
            _agree(seen)
        elif any(_generation(each) > generation for each in others):
            _drop(rewritten, [*seen, *others])
        else:
            same = [each for each in others if _generation(each) == generation]
            counted = [each for each in (*seen, *same) if on.compatibility_groups or not _has_groups(each)]
            if len(counted) == count:
                _agree([*seen, *same])
            else:
                for each in seen:  # incomplete whatever the other slices say
                    each["spec"]["pool"]["resourceSliceCount"] = len(counted) + 1
            _rename_unseen(rewritten, seen, same)
    return rewritten


def _pool(slice_: Json) -> PoolKey:
    return slice_["spec"]["driver"], slice_["spec"]["pool"]["name"]


def _generation(slice_: Json) -> int:
    generation: int = slice_["spec"]["pool"]["generation"]
    return generation


def _has_groups(slice_: Json) -> bool:
    return any(each.get("compatibilityGroups") for d in slice_["spec"].get("devices", ()) for each in d.get("consumesCounters", ()))


def _collected(slices: list[Json], node: Node, on: Features) -> dict[PoolKey, list[Json]]:
    """A-4: per pool the newest of the slices that the node sees, in the order in which the reference meets them."""
    local = [each for each in slices if each["spec"].get("nodeName") == node.name]
    shared = [each for each in slices if not each["spec"].get("nodeName")]
    found: dict[PoolKey, list[Json]] = {}
    for slice_ in local + shared:
        spec = slice_["spec"]
        if not on.partitionable_devices and ("perDeviceNodeSelection" in spec or spec.get("sharedCounters")):
            continue
        if (not on.compatibility_groups and _has_groups(slice_)) or not _relevant(spec, node):
            continue
        before = found.setdefault(_pool(slice_), [])
        if before and _generation(slice_) < _generation(before[0]):
            continue
        if before and _generation(slice_) > _generation(before[0]):
            before.clear()
        before.append(slice_)
    return found


def _relevant(spec: Json, node: Node) -> bool:
    if spec.get("nodeName") or spec.get("allNodes") or "nodeSelector" in spec:
        return _selects(spec, node)
    return bool(spec.get("perDeviceNodeSelection")) and any(_selects(device, node) for device in spec.get("devices", ()))


def _selects(fields: Json, node: Node) -> bool:
    if fields.get("nodeName"):
        return bool(fields["nodeName"] == node.name)
    if fields.get("allNodes"):
        return True
    return "nodeSelector" in fields and NodeMatcher(NodeSelector.from_wire(fields["nodeSelector"])).matches(node)


def _drop(problem: Json, slices: list[Json]) -> None:
    problem["slices"] = [each for each in problem["slices"] if not any(each is one for one in slices)]


def _agree(slices: list[Json]) -> None:
    counts = len(slices)
    for each in slices:
        each["spec"]["pool"] = each["spec"]["pool"] | {"resourceSliceCount": counts}


def _rename_unseen(problem: Json, seen: list[Json], unseen: list[Json]) -> None:
    """Devices of unseen slices whose name occurs twice get another one, which is in use wherever the old one is."""
    names = {device["name"] for each in seen for device in each["spec"].get("devices", ())}
    for number, slice_ in enumerate(unseen):
        for device in slice_["spec"].get("devices", ()):
            if device["name"] in names:
                renamed = f"{device['name']}-unseen-{number}"
                _use_alike(problem, _pool(slice_), device["name"], renamed)
                device["name"] = renamed
            names.add(device["name"])


def _use_alike(problem: Json, pool: PoolKey, name: str, other: str) -> None:
    lists = [claim["status"]["allocation"]["devices"]["results"] for claim in problem["allocated"]]
    lists += list(problem.get("allocated_state", {}).values())
    for entries in lists:
        entries += [entry | {"device": other} for entry in entries if (entry["driver"], entry["pool"], entry["device"]) == (*pool, name)]
