"""Small clusters for explanations: nodes with GPUs, pods that hold some, and one that wants some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.scheme import read_object

DRIVER = "gpu.example.com"
NAMESPACE = "team-a"


def gpu(name: str, model: str = "H100", *, root: str = "pci0000:00", **more: Any) -> dict[str, Any]:
    attributes = {"model": {"string": model}, "resource.kubernetes.io/pcieRoot": {"string": root}}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}, **more}


def node(
    name: str, devices: Sequence[dict[str, Any]], *, memory: str = "64Gi", spec: Any = None, labels: Any = None
) -> list[dict[str, Any]]:
    """A Node and the slice with its devices."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    slice_spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": list(devices)}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels or {}},
            "spec": spec or {},
            "status": {"allocatable": {"cpu": "16", "memory": memory, "pods": "110"}},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-gpus"},
            "spec": slice_spec,
        },
    ]


def classes() -> list[dict[str, Any]]:
    spec = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    return [{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": DRIVER}, "spec": spec}]


def claim(
    name: str, *, constraints: Any = (), devices: Sequence[tuple[str, str]] = (), user: str = "", **exactly: Any
) -> dict[str, Any]:
    """``devices``: node and device that it holds; ``user``: the pod that uses it."""
    selectors = [{"cel": {"expression": expression}} for expression in exactly.pop("selectors", ())]
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "selectors": selectors, **exactly}}
    results = [{"request": "gpu", "driver": DRIVER, "pool": pool, "device": device} for pool, device in devices]
    reserved = [{"resource": "pods", "name": user, "uid": f"uid-{user}"}] if user else []
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-11-20T08:00:00Z",
        },
        "spec": {"devices": {"requests": [request], "constraints": list(constraints)}},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved} if results else {},
    }


def pod(
    name: str, claims: Sequence[str], *, on: str = "", memory: str = "4Gi", priority: int = 0, **spec: Any
) -> dict[str, Any]:
    entries = [{"name": f"claim-{number}", "resourceClaimName": claim} for number, claim in enumerate(claims)]
    containers = [{"name": "compute", "resources": {"requests": {"cpu": "1", "memory": memory}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"},
        "spec": {
            "containers": containers,
            "resourceClaims": entries,
            "priority": priority,
            **({"nodeName": on} if on else {}),
            **spec,
        },
        "status": {"phase": "Running" if on else "Pending"},
    }


def user(name: str, on: str, *devices: str, memory: str = "4Gi", priority: int = 0) -> list[dict[str, Any]]:
    """A running pod and the claim by which it holds devices of its node."""
    held = claim(f"{name}-gpus", devices=[(on, device) for device in devices], user=name)
    return [held, pod(name, [f"{name}-gpus"], on=on, memory=memory, priority=priority)]


def objects(*parts: list[dict[str, Any]] | dict[str, Any]) -> list[TypedObject]:
    raw = [obj for part in (classes(), *parts) for obj in (part if isinstance(part, list) else [part])]
    return [read_object(obj) for obj in raw]
