"""Requests and objects to build scenarios of. See ``__init__``."""

from __future__ import annotations

import copy
from typing import Any

Json = dict[str, Any]
Scenario = tuple[str, list[Json]]

DRA = "resource.k8s.io/v1"
LABEL64 = "a" * 64
UID = "8b0a1a52-6a5b-4f0e-9e8f-3c5d0a1b2c3d"
UUID2 = "0c7e4d3a-1111-4222-8333-944455556666"
OLD = "2024-05-06T07:08:09Z"


def merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def obj(kind: str, spec: Json | None, name: str = "x", api: str = DRA, **meta: Any) -> Json:
    body: Json = {"apiVersion": api, "kind": kind, "metadata": {"name": name, **meta}}
    if spec is not None:
        body["spec"] = spec
    return body


def create(body: Json) -> Json:
    return {"verb": "create", "object": body}


def update(change: Json, base: int = 0) -> Json:
    return {"verb": "update", "base": base, "change": change}


def update_status(change: Json, base: int = 0) -> Json:
    return {"verb": "updateStatus", "base": base, "change": change}


def patch(kind: str, merge: Json, name: str = "x", **more: Any) -> Json:
    return {"verb": "patch", "kind": kind, "name": name, "merge": merge, **more}


def operations(kind: str, ops: list[Json], name: str = "x", **more: Any) -> Json:
    return {"verb": "patch", "kind": kind, "name": name, "operations": ops, **more}


def get(kind: str, name: str = "x", **more: Any) -> Json:
    return {"verb": "get", "kind": kind, "name": name, **more}


def delete(kind: str, name: str = "x", **more: Any) -> Json:
    return {"verb": "delete", "kind": kind, "name": name, **more}


def listing(kind: str, **more: Any) -> Json:
    return {"verb": "list", "kind": kind, **more}


def exactly(**fields: Any) -> Json:
    return {"deviceClassName": "c", **fields}


def request(name: str = "r", **fields: Any) -> Json:
    return {"name": name, "exactly": exactly(**fields)}


def claim(*requests: Json, name: str = "x", meta: Json | None = None, **devices: Any) -> Json:
    return obj("ResourceClaim", {"devices": {"requests": list(requests), **devices}}, name, **(meta or {}))


def cel(text: str) -> Json:
    return {"cel": {"expression": text}}


def nested_loops(variables: str) -> str:
    """An expression whose cost grows by a factor of ten with each variable."""
    text = f"{' + '.join(variables)} > 0"
    for variable in reversed(variables):
        text = f"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all({variable}, {text})"
    return text


def template(spec: Json, name: str = "x", metadata: Json | None = None, **meta: Any) -> Json:
    body: Json = {"spec": spec}
    if metadata is not None:
        body["metadata"] = metadata
    return obj("ResourceClaimTemplate", body, name, **meta)


def result(device: str = "d", **fields: Any) -> Json:
    return {"request": "r", "driver": "dr.io", "pool": "p", "device": device, **fields}


def allocation(*results: Json, **fields: Any) -> Json:
    return {"devices": {"results": list(results)}, **fields}


def slice_(*devices: Json, name: str = "x", pool: Json | None = None, driver: str = "dr.io", **spec: Any) -> Json:
    where = (
        {}
        if {"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection", "nowhere"} & set(spec)
        else {"allNodes": True}
    )
    spec.pop("nowhere", None)
    body: Json = {
        "driver": driver,
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1, **(pool or {})},
        **where,
        **spec,
    }
    if devices:
        body["devices"] = list(devices)
    return obj("ResourceSlice", body, name)


def device(name: str = "d", **fields: Any) -> Json:
    return {"name": name, **fields}


def rule(selector: Json | None, taint: Json | None, name: str = "x") -> Json:
    spec: Json = {}
    if selector is not None:
        spec["deviceSelector"] = selector
    if taint is not None:
        spec["taint"] = taint
    return obj("DeviceTaintRule", spec, name)


ALPHA = "resource.k8s.io/v1alpha3"


def pod(
    claims: list[Json], uses: list[Json] | None = None, name: str = "x", init: list[Json] | None = None, **meta: Any
) -> Json:
    container: Json = {"name": "c", "image": "i"}
    if uses is not None:
        container["resources"] = {"claims": uses}
    spec: Json = {"resourceClaims": claims, "containers": [container]}
    if init is not None:
        spec["initContainers"] = [{"name": "i", "image": "i", "resources": {"claims": init}}]
    return obj("Pod", spec, name, "v1", **meta)
