"""How often each feature decided: the problem is asked again without it, and the answers are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from devtools.upstream.allocator.problems import FEATURES, Json
from devtools.upstream.allocator.reference import Reference

Edit = Callable[[Json], None]


def _devices(problem: Json) -> Iterator[Json]:
    return (device for slice_ in problem["slices"] for device in slice_["spec"].get("devices", ()))


def _wanted(problem: Json) -> Iterator[Json]:
    for request in (request for claim in problem["claims"] for request in claim["spec"]["devices"]["requests"]):
        yield from request.get("firstAvailable", ())
        if "exactly" in request:
            yield request["exactly"]


def _claims(problem: Json) -> Iterator[Json]:
    return (claim["spec"]["devices"] for claim in problem["claims"])


def _without(key: str, *places: Callable[[Json], Iterator[Json]]) -> Edit:
    """Takes a field away wherever it is."""

    def edit(problem: Json) -> None:
        for part in (part for place in places for part in place(problem)):
            part.pop(key, None)

    return edit


def _specs(problem: Json) -> Iterator[Json]:
    return (slice_["spec"] for slice_ in problem["slices"])


def _classes(problem: Json) -> Iterator[Json]:
    return (device_class["spec"] for device_class in problem["classes"])


def _consumptions(problem: Json) -> Iterator[Json]:
    return (consumption for device in _devices(problem) for consumption in device.get("consumesCounters", ()))


def _capacities(problem: Json) -> Iterator[Json]:
    return (amount for device in _devices(problem) for amount in device.get("capacity", {}).values())


def _constraints(problem: Json) -> Iterator[Json]:
    return (constraint for claim in _claims(problem) for constraint in claim.get("constraints", ()))


def _no_constraint(kind: str) -> Edit:
    def edit(problem: Json) -> None:
        for claim in _claims(problem):
            if "constraints" in claim:
                claim["constraints"] = [constraint for constraint in claim["constraints"] if kind not in constraint]

    return edit


def _first_of_lists(problem: Json) -> None:
    for attributes in (device.get("attributes", {}) for device in _devices(problem)):
        for name, value in attributes.items():
            for kind in ("int", "string", "bool", "version"):
                if value.get(f"{kind}s"):
                    attributes[name] = {kind: value[f"{kind}s"][0]}


def _first_alternative(problem: Json) -> None:
    for request in (
        request for claim in _claims(problem) for request in claim["requests"] if "firstAvailable" in request
    ):
        del request["firstAvailable"][1:]


def _just_one(problem: Json) -> None:
    for wanted in _wanted(problem):
        if wanted.get("allocationMode") == "All":
            wanted |= {"allocationMode": "ExactCount", "count": 1}


def _everywhere(problem: Json) -> None:
    for spec in _specs(problem):
        if not spec.get("perDeviceNodeSelection"):
            for key in ("nodeName", "nodeSelector"):
                spec.pop(key, None)
            spec["allNodes"] = True


def _each_device_everywhere(problem: Json) -> None:
    for spec in _specs(problem):
        if spec.get("perDeviceNodeSelection"):
            for device in spec.get("devices", ()):
                for key in ("nodeName", "nodeSelector"):
                    device.pop(key, None)
                device["allNodes"] = True


def _unused(problem: Json) -> None:
    problem["allocated"] = []
    problem.pop("allocated_state", None)


def _one_claim(problem: Json) -> None:
    del problem["claims"][1:]


def _switched(gate: str) -> Edit:
    def edit(problem: Json) -> None:
        on = dict.fromkeys(FEATURES, True) | problem.get("features", {})
        problem["features"] = on | {gate: not on[gate]}

    return edit


def _without_conditions(problem: Json) -> None:
    for key in ("bindingConditions", "bindingFailureConditions"):
        _without(key, _devices)(problem)


WITHOUT: Mapping[str, Edit] = {
    "admin access": _without("adminAccess", _wanted),
    "all mode": _just_one,
    "binding conditions": _without_conditions,
    "bindsToNode": _without("bindsToNode", _devices),
    "capacity requests": _without("capacity", _wanted),
    "compatibility groups": _without("compatibilityGroups", _consumptions),
    "config": _without("config", _classes, _claims),
    "constraints on some requests": _without("requests", _constraints),
    "counters": _without("consumesCounters", _devices),
    "derived attributes": _without("derivedAttributes", _wanted),
    "distinctAttribute": _no_constraint("distinctAttribute"),
    "list attributes": _first_of_lists,
    "matchAttribute": _no_constraint("matchAttribute"),
    "more than one claim": _one_claim,
    "node selection": _everywhere,
    "per-device node selection": _each_device_everywhere,
    "prioritized list": _first_alternative,
    "request policies": _without("requestPolicy", _capacities),
    "selectors": _without("selectors", _classes, _wanted),
    "shared devices": _without("allowMultipleAllocations", _devices),
    "skipNodeOperations": _without("skipNodeOperations", _specs),
    "taints": _without("taints", _devices),
    "tolerations": _without("tolerations", _wanted),
    "what is in use": _unused,
    **{f"gate {name} switched": _switched(name) for name in FEATURES},
}


@dataclass
class Decided:
    """Of a sample: in how many problems a feature occurs, in how many it decides (verdict or devices), or only shapes
    the result."""

    problems: int = 0
    occurs: Counter[str] = field(default_factory=Counter)
    decides: Counter[str] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)

    def table(self) -> str:
        lines = [
            f"of {self.problems} problems: in how many a feature occurs, decides "
            "verdict or devices, only shapes the result"
        ]
        return "\n".join(
            lines
            + [
                f"{name:34} {self.occurs[name]:6} {self.decides[name]:6} {self.shapes[name]:6}"
                for name in sorted(WITHOUT)
            ]
        )


def decided(asked: Reference, sample: Sequence[Json]) -> Decided:
    counted = Decided(len(sample))
    changed: list[tuple[int, str, Json]] = []
    for number, problem in enumerate(sample):
        for name, edit in WITHOUT.items():
            without = deepcopy(problem)
            edit(without)
            if without != problem:
                changed.append((number, name, without))
    before = list(asked.ask_all(sample))
    for (number, name, _), after in zip(changed, asked.ask_all([edited for _, _, edited in changed]), strict=True):
        counted.occurs[name] += 1
        if _choice(after) != _choice(before[number]):
            counted.decides[name] += 1
        elif after["results"] != before[number]["results"]:
            counted.shapes[name] += 1
    return counted


def _choice(answer: Json) -> tuple[object, ...]:
    if answer["results"] is None:
        return answer["error"], answer["node_error"]
    devices = (device for result in answer["results"] for device in result["devices"].get("results") or ())
    return tuple((device["request"], device["driver"], device["pool"], device["device"]) for device in devices)
