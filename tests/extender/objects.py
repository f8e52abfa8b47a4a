"""A small cluster for the extender: nodes with equal devices, claims for some of them, pods."""

from __future__ import annotations

from typing import Any

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice

Json = dict[str, Any]
DRIVER = "gpu.example.com"

GPU_CLASS = DeviceClass.from_wire(
    {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}}
)


def node(name: str) -> Node:
    room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name}
    return Node.from_wire(
        {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room, "capacity": room}}
    )


def gpus(on: str, count: int) -> ResourceSlice:
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{number}"} for number in range(count)]
    return ResourceSlice.from_wire(
        {"metadata": {"name": on}, "spec": {"driver": DRIVER, "nodeName": on, "pool": pool, "devices": devices}}
    )


def claim_spec(count: int, selector: str = "") -> Json:
    exactly: Json = {"deviceClassName": "gpu", "count": count, "allocationMode": "ExactCount"}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def claim(name: str, count: int = 1, selector: str = "") -> ResourceClaim:
    metadata = {"name": name, "namespace": "vms", "uid": f"claim-{name}"}
    return ResourceClaim.from_wire({"metadata": metadata, "spec": claim_spec(count, selector)})


def allocated(of: ResourceClaim, on: str, *devices: str) -> ResourceClaim:
    results = [{"request": "r", "driver": DRIVER, "pool": on, "device": device} for device in devices]
    return ResourceClaim.from_wire({**of.to_wire(), "status": {"allocation": {"devices": {"results": results}}}})


def template(count: int) -> ResourceClaimTemplate:
    return ResourceClaimTemplate.from_wire(
        {"metadata": {"name": f"gpus-{count}", "namespace": "vms"}, "spec": {"spec": claim_spec(count)}}
    )


def pod(name: str, *claims: str, on: str = "", policy: str = "", cpu: str = "1") -> Pod:
    """A pod that uses claims by their names."""
    metadata: Json = {"name": name, "namespace": "vms", "uid": f"pod-{name}"}
    if policy:
        metadata["annotations"] = {"virt-dra.io/placement-policy": policy}
    spec: Json = {
        "containers": [{"name": "compute", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
        "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
    }
    if on:
        spec["nodeName"] = on
    return Pod.from_wire({"metadata": metadata, "spec": spec})
