"""Pods, claims and views for scheduling tests, in short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devtools.allocator import build
from tests.allocator.toy_selectors import Toy
from virt_dra.allocator import Snapshot
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from virt_dra.scheduling.placement import ClusterView

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


def view(
    nodes: Sequence[str | Mapping[str, Any]],
    claims: Sequence[ResourceClaim],
    slices: Sequence[ResourceSlice] | None = None,
    classes: Sequence[str | Mapping[str, Any]] = ("gpu",),
) -> ClusterView:
    built: tuple[Node, ...] = tuple(build.node(node) for node in nodes)
    known: list[DeviceClass] = [build.device_class(each) for each in classes]
    published = on_each_node(nodes) if slices is None else slices
    snapshot = Snapshot.build(published, known, claims, compile_selector=Toy)
    return ClusterView(built, {claim.key: claim for claim in claims}, snapshot)
