"""A problem in the notation of tests/allocator/cases (see devtools/allocator/build.py), as far as that reaches."""

from __future__ import annotations

from typing import Any

import yaml

from devtools.allocator.build import DRIVER
from devtools.upstream.allocator import ours
from devtools.upstream.allocator.problems import Json
from virt_dra.allocator import DEFAULT


def as_case(problem: Json, answer: Json) -> str:
    """YAML with ``given`` and ``features`` of the problem; ``want`` is ``answer``, a comparable one."""
    given: Json = {"slices": [_slice(slice_) for slice_ in problem["slices"]]}
    node = {"name": problem["node"]["metadata"]["name"], "labels": problem["node"]["metadata"].get("labels", {})}
    node |= {key: value for key, value in problem["node"].items() if key != "metadata"}
    if node != {"name": "n1", "labels": {}}:
        given["node"] = {key: value for key, value in node.items() if value}
    given["classes"] = [_class(device_class) for device_class in problem["classes"]]
    claims = [
        claim["status"]["allocation"]["devices"]
        for claim in problem["allocated"]
        if "allocation" in claim.get("status", {})
    ]
    used = [_used(result) for devices in claims for result in devices.get("results", ())]
    if used:
        given["used"] = used
    if problem.get("allocated_state"):
        given["state"] = problem["allocated_state"]
    given["claims"] = [_claim(claim) for claim in problem["claims"]]
    case: Json = {"given": given}
    on = ours.features(problem)
    different = {name: value for name, value in vars(on).items() if value != getattr(DEFAULT, name)}
    if different:
        case["features"] = different
    return yaml.safe_dump(case | {"want": _want(answer)}, sort_keys=False, width=140, default_flow_style=None)


def _want(answer: Json) -> Json:
    if answer["error"] is not None:
        return {"node_error" if answer["node_error"] else "fatal": answer["error"]}
    return {"refused": ["(the whole explanation)"]} if answer["results"] is None else {"results": answer["results"]}


def _slice(slice_: Json) -> Json:
    spec = dict(slice_["spec"])
    pool = spec.pop("pool")
    short: Json = {"name": slice_["metadata"]["name"], "driver": spec.pop("driver"), "pool": pool["name"]}
    if short["driver"] == DRIVER:
        del short["driver"]
    for key, name in (("generation", "generation"), ("resourceSliceCount", "count")):
        if pool[key] != 1:
            short[name] = pool[key]
    if "nodeName" in spec:
        short["node"] = spec.pop("nodeName")
    devices = [_device(device) for device in spec.pop("devices", ())]
    return short | spec | ({"devices": devices} if devices else {})


def _device(device: Json) -> Any:
    if list(device) == ["name"]:
        return device["name"]
    short = dict(device)
    if "attributes" in short:
        short["attributes"] = {name: _attribute(value) for name, value in short["attributes"].items()}
    return short


def _attribute(value: Json) -> Any:
    return next(iter(value.values())) if list(value) in (["int"], ["string"], ["bool"]) else value


def _selectors(wanted: Json) -> list[str]:
    return [selector.get("cel", {}).get("expression", "(none)") for selector in wanted.get("selectors", ())]


def _class(device_class: Json) -> Any:
    short: Json = {"name": device_class["metadata"]["name"]}
    if selectors := _selectors(device_class["spec"]):
        short["when"] = selectors
    if "config" in device_class["spec"]:
        short["config"] = [_config(config)["text"] for config in device_class["spec"]["config"]]
    return short["name"] if list(short) == ["name"] else short


def _config(entry: Json) -> Json:
    parameters = entry.get("opaque", {}).get("parameters", {})
    return {"text": parameters.get("value", "")} | ({"requests": entry["requests"]} if "requests" in entry else {})


def _used(result: Json) -> Any:
    if result.keys() <= {"request", "driver", "pool", "device"}:
        return f"{result['driver']}/{result['pool']}/{result['device']}"
    return result


def _claim(claim: Json) -> Json:
    devices = claim["spec"]["devices"]
    short: Json = {
        "name": claim["metadata"]["name"],
        "requests": [_request(request) for request in devices["requests"]],
    }
    constraints = [dict(constraint) for constraint in devices.get("constraints", ())]
    for constraint in constraints:
        for key, name in (("matchAttribute", "match"), ("distinctAttribute", "distinct")):
            if key in constraint:
                constraint[name] = constraint.pop(key)
    if constraints:
        short["constraints"] = constraints
    if "config" in devices:
        short["config"] = [_config(config) for config in devices["config"]]
    return short


def _request(request: Json) -> Json:
    if "firstAvailable" in request:
        return {"name": request["name"], "first": [_wanted(subrequest) for subrequest in request["firstAvailable"]]}
    return {"name": request["name"]} | (_wanted(request["exactly"]) if "exactly" in request else {"empty": True})


def _wanted(wanted: Json) -> Json:
    short = {
        key: value
        for key, value in wanted.items()
        if key not in ("deviceClassName", "selectors", "allocationMode", "count")
    }
    short["class"] = wanted.get("deviceClassName", "")
    if selectors := _selectors(wanted):
        short["when"] = selectors
    if wanted.get("allocationMode") == "All":
        short["all"] = True
    elif wanted.get("count", 0) != 1:
        short["count"] = wanted.get("count", 0)
    return short
