"""Allocation problems in a short notation, for cases and tests. Everything short stands for the wire form and can be
replaced by it.

device   ``d0`` or {name, attributes: {NAME: 1 | text | true | {version: "1.0.0"}}, takes: {SET: {COUNTER: 4}},
          groups: {SET: [text]}, …wire fields}
slice    {name, driver, pool, node | allNodes | nodeSelector | perDeviceNodeSelection, generation, count, devices,
          counters: {SET: {COUNTER: 4}}, …wire fields of spec}
class    ``gpu`` or {name, when: [expression], config: [text]}
claim    {name, requests: [{name, class, count | all, when: [...], …} or {name, first: [{…}]}],
          constraints: [{match|distinct, requests}], config: [{text, requests}]}
used     ``driver/pool/device`` or a wire result
state    {devices | shared | capacity: [{driver, pool, device, shareID, consumed}]}: what no claim produces
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from virt_dra.allocator import DeviceUse, Snapshot
from virt_dra.allocator.model import DeviceId, PoolId
from virt_dra.api.core_v1 import Node
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice

Json = dict[str, Any]
DRIVER = "gpu.example.com"


def node(given: str | Mapping[str, Any]) -> Node:
    given = {"name": given} if isinstance(given, str) else dict(given)
    wire: Json = {"metadata": {"name": given.pop("name"), "labels": given.pop("labels", {})}}
    return Node.from_wire(wire | given)


def slice_(given: Mapping[str, Any]) -> ResourceSlice:
    given = dict(given)
    pool = given.pop("pool", "pool")
    name = given.pop("name", f"{pool}-slice")
    spec: Json = {
        "driver": given.pop("driver", DRIVER),
        "pool": {"name": pool, "generation": given.pop("generation", 1), "resourceSliceCount": given.pop("count", 1)},
        "devices": [_device(device) for device in given.pop("devices", [])],
    }
    if "node" in given:
        spec["nodeName"] = given.pop("node")
    if "counters" in given:
        spec["sharedCounters"] = [
            {"name": name, "counters": _counters(counters)} for name, counters in given.pop("counters").items()
        ]
    if "zone" in given:
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [given.pop("zone")]}]}
        spec["nodeSelector"] = {"nodeSelectorTerms": [term]}
    return ResourceSlice.from_wire({"metadata": {"name": name}, "spec": spec | given})


def _device(given: str | Mapping[str, Any]) -> Json:
    device: Json = {"name": given} if isinstance(given, str) else dict(given)
    attributes = device.pop("attributes", None)
    if attributes:
        device["attributes"] = {name: _attribute(value) for name, value in attributes.items()}
    groups = device.pop("groups", {})
    if "takes" in device:
        device["consumesCounters"] = [
            {"counterSet": name, "counters": _counters(counters)}
            | ({"compatibilityGroups": groups[name]} if name in groups else {})
            for name, counters in device.pop("takes").items()
        ]
    return device


def _counters(given: Mapping[str, object]) -> Json:
    return {name: {"value": str(value)} for name, value in given.items()}


def _attribute(value: object) -> object:
    match value:
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case str():
            return {"string": value}
    return value


def _selectors(expressions: Sequence[str]) -> list[Json]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def _opaque(text: str) -> Json:
    return {"opaque": {"driver": DRIVER, "parameters": {"text": text}}}


def device_class(given: str | Mapping[str, Any]) -> DeviceClass:
    given = {"name": given} if isinstance(given, str) else dict(given)
    spec = {
        "selectors": _selectors(given.get("when", ())),
        "config": [_opaque(text) for text in given.get("config", ())],
    }
    return DeviceClass.from_wire({"metadata": {"name": given["name"]}, "spec": spec})


def claim(given: Mapping[str, Any]) -> ResourceClaim:
    constraints = []
    for constraint in given.get("constraints", ()):
        constraint = dict(constraint)
        for short, long in (("match", "matchAttribute"), ("distinct", "distinctAttribute")):
            if short in constraint:
                constraint[long] = constraint.pop(short)
        constraints.append(constraint)
    config = []
    for entry in given.get("config", ()):
        wire = _opaque(entry["text"])
        if "requests" in entry:
            wire["requests"] = entry["requests"]
        config.append(wire)
    devices: Json = {
        "requests": [_request(request) for request in given.get("requests", ())],
        "constraints": constraints,
        "config": config,
    }
    metadata = {"name": given.get("name", "claim"), "namespace": "ns", "uid": f"uid-{given.get('name', 'claim')}"}
    wire = {"metadata": metadata, "spec": {"devices": devices}}
    if "allocated" in given:
        wire["status"] = {"allocation": {"devices": {"results": [_result(result) for result in given["allocated"]]}}}
    return ResourceClaim.from_wire(wire)


def _request(given: Mapping[str, Any]) -> Json:
    given = dict(given)
    name = given.pop("name", "r0")
    if "first" in given:
        return {
            "name": name,
            "firstAvailable": [
                {"name": sub.get("name", f"s{i}"), **_wanted(sub)} for i, sub in enumerate(given["first"])
            ],
        }
    if given.get("empty"):
        return {"name": name}
    return {"name": name, "exactly": _wanted(given)}


def _wanted(given: Mapping[str, Any]) -> Json:
    given = {key: value for key, value in given.items() if key != "name"}
    wanted: Json = {"deviceClassName": given.pop("class", "gpu"), "selectors": _selectors(given.pop("when", ()))}
    if given.pop("all", False):
        wanted["allocationMode"] = "All"
    else:
        wanted |= {"allocationMode": "ExactCount", "count": given.pop("count", 1)}
    return wanted | given


def _result(given: str | Mapping[str, Any]) -> Json:
    if not isinstance(given, str):
        return dict(given)
    driver, pool, device = given.split("/")
    return {"request": "r0", "driver": driver, "pool": pool, "device": device}


def snapshot(given: Mapping[str, Any]) -> Snapshot:
    used = [claim({"name": "other", "allocated": given["used"]})] if given.get("used") else []
    built = Snapshot.build(
        [slice_(slice_spec) for slice_spec in given.get("slices", ())],
        [device_class(class_spec) for class_spec in given.get("classes", ("gpu",))],
        used,
    )
    return built.with_uses(device_use(entry) for entries in given.get("state", {}).values() for entry in entries)


def device_use(entry: Mapping[str, Any]) -> DeviceUse:
    """A device in use, of a case or a recorded problem."""
    consumed = {name: Quantity(amount) for name, amount in entry["consumed"].items()} if "consumed" in entry else None
    return DeviceUse(entry["driver"], entry["pool"], entry["device"], entry.get("shareID"), consumed)


def in_use(snapshot: Snapshot, device: DeviceId) -> bool:
    """True if the device is in use in any way (A-3.5)."""
    use = snapshot.used.get(PoolId(device.driver, device.pool))
    return use is not None and device.device in use.devices
