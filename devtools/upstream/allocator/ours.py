"""Our allocator, asked in the words of the reference's protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from devtools.allocator.build import device_use
from devtools.upstream.allocator.problems import FEATURES, Json
from virt_dra.allocator import (
    DEFAULT_EFFORT,
    Allocated,
    AllocationError,
    Allocator,
    Effort,
    Features,
    NodeError,
    Snapshot,
    Unsatisfiable,
)
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice

STEPS = 100_000
"""Of one problem; the reference needs less than its time limit for as much work."""


def _field(feature: str) -> str:
    """``AdminAccess`` -> ``admin_access``."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in feature).removeprefix("_")


def features(problem: Json) -> Features:
    """A missing feature is off; without the object all are on."""
    if "features" not in problem:
        return Features.all()
    return Features(**{_field(name): problem["features"].get(name, False) for name in FEATURES})


def snapshot(problem: Json) -> Snapshot:
    built = Snapshot.build(
        [ResourceSlice.from_wire(raw) for raw in problem["slices"]],
        [DeviceClass.from_wire(raw) for raw in problem["classes"]],
        [ResourceClaim.from_wire(raw) for raw in problem["allocated"]],
    )
    state = problem.get("allocated_state")
    return (
        built
        if state is None
        else built.with_uses(device_use(entry) for entries in state.values() for entry in entries)
    )


def ours(problem: Json, effort: Effort = DEFAULT_EFFORT) -> Json:
    """``{"results", "error", "node_error"}``."""
    claims = [ResourceClaim.from_wire(raw) for raw in problem["claims"]]
    node, on = Node.from_wire(problem["node"]), features(problem)
    return wire_answer(
        lambda: Allocator(snapshot(problem), claims, on, step_limit=STEPS, effort=effort).allocate(node, explain=False)
    )


def wire_answer(decide: Callable[[], Allocated | Unsatisfiable]) -> Json:
    """What was decided, in the protocol's words."""
    try:
        decision = decide()
    except AllocationError as error:
        return {"results": None, "error": str(error), "node_error": isinstance(error, NodeError)}
    results = (
        _with_share_names([result.to_wire() for result in decision.results])
        if isinstance(decision, Allocated)
        else None
    )
    return {"results": results, "error": None, "node_error": False}


def _with_share_names(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Shares are called share-1, share-2, … in the order in which they appear."""
    names: dict[str, str] = {}
    for device in (device for result in results for device in result["devices"].get("results", ())):
        if "shareID" in device:
            device["shareID"] = names.setdefault(device["shareID"], f"share-{len(names) + 1}")
    return results
