"""Pods, claims and views for scheduling tests, in short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devtools.allocator import build
from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.model.cluster import ClusterModel

Json = dict[str, Any]


def pod(name: str = "pod", *claims: str, spec: Mapping[str, Any] | None = None) -> Pod:
    """A pod that uses the named claims directly."""
    entries = [{"name": f"entry-{claim}", "resourceClaimName": claim} for claim in claims]
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    return Pod.from_wire({"metadata": metadata, "spec": {"resourceClaims": entries, **(spec or {})}})


def claim(name: str = "claim0", /, *requests: Mapping[str, Any], **more: Any) -> ResourceClaim:
    return build.claim({"name": name, "requests": list(requests) or [{}], **more})


def with_status(claim: ResourceClaim, status: Json) -> ResourceClaim:
    return ResourceClaim.from_wire(claim.to_wire() | {"status": status})


def on_each_node(nodes: Sequence[str | Mapping[str, Any]], devices: Sequence[Any] = ("d0",)) -> list[ResourceSlice]:
    """One pool a node."""
    names = [node if isinstance(node, str) else node["name"] for node in nodes]
    return [build.slice_({"name": name, "pool": name, "node": name, "devices": devices}) for name in names]


def cluster(
    nodes: Sequence[str | Mapping[str, Any]],
    claims: Sequence[ResourceClaim],
    slices: Sequence[ResourceSlice] | None = None,
    classes: Sequence[str | Mapping[str, Any]] = ("gpu",),
) -> ClusterModel:
    published = on_each_node(nodes) if slices is None else slices
    built = [*(build.node(node) for node in nodes), *(build.device_class(device_class) for device_class in classes)]
    return ClusterModel([*built, *claims, *published])
