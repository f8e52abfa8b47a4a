"""``virt-dra allocate --jsonl``: one allocation problem as JSON -> its answer, in the terms of the Go reference."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from typing import Final

from virt_dra.allocator import Allocated, AllocationError, Allocator, DeviceUse, Features, NodeError, Snapshot
from virt_dra.api.conversion import to_v1
from virt_dra.api.core_v1 import Node
from virt_dra.api.defaults import defaulted
from virt_dra.api.feature_gates import PLAIN
from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from virt_dra.api.validation import validate_create
from virt_dra.api.wire import Json, WireError
from virt_dra.cel.validation import compiled_rules
from virt_dra.cli.allocate.report import ExplanationJson, explanation_json
from virt_dra.cli.jsonl.members import BadLine, internal_error, member, switches, under
from virt_dra.cli.shared.gate_options import with_features
from virt_dra.simulator.deadline import AllocationDeadline, error_text

REFUSAL: Final[Json] = {"results": None, "node_error": False, "elapsed_us": 0.0}
MEMBERS: Final = (
    "features",
    "node",
    "classes",
    "slices",
    "allocated",
    "allocated_state",
    "claims",
    "explain",
    "validate",
)

FEATURE_FIELDS: Final = {
    "".join(part.capitalize() for part in field.name.split("_")): field.name for field in fields(Features)
}
"""Field of the reference's ``Features`` -> attribute of ours."""


def answer(request: Json, deadline: AllocationDeadline | None = None) -> Json:
    """The answer to a request, whose members the command's help lists.

    Nothing is defaulted or validated (as in the reference), unless ``validate`` asks for the API server's verdict on
    what the allocator did not refuse itself. ``deadline``: of the allocation; absent: kube-scheduler's. Raises BadLine
    or WireError for a request that is wrong.
    """
    features = features_of(request)
    node = _node_of(request)
    slices = objects_of(request, "slices", ResourceSlice)
    classes = objects_of(request, "classes", DeviceClass)
    allocated = objects_of(request, "allocated", ResourceClaim)
    claims = objects_of(request, "claims", ResourceClaim)
    uses = tuple(_uses_of(request))
    explain: bool = member(request, "explain", bool, False)
    checked: bool = member(request, "validate", bool, False)

    begin = time.perf_counter()
    try:
        snapshot = Snapshot.build(slices, classes, allocated).with_uses(uses)
        out = _decide(snapshot, claims, node, features, deadline or AllocationDeadline(), explain=explain)
    except Exception as fault:  # noqa: BLE001 - a fault of ours in one problem is reported; the others are still answered
        out = {"results": None, "error": internal_error(fault), "node_error": False}
    out["elapsed_us"] = round((time.perf_counter() - begin) * 1e6, 1)
    if checked and out["error"] is None and (faults := _faults(features, slices, classes, claims)):
        out |= {"results": None, "error": "; ".join(faults)}
    return out


def _decide(
    snapshot: Snapshot,
    claims: Sequence[ResourceClaim],
    node: Node,
    features: Features,
    deadline: AllocationDeadline,
    *,
    explain: bool,
) -> Json:
    """The answer without ``elapsed_us``."""
    out: Json = {"results": None, "error": None, "node_error": False}
    allocator, explained = Allocator(snapshot, claims, features, interrupt=deadline), explain
    deadline.start()
    try:
        answer = allocator.allocate(node, explain=False)
        if isinstance(answer, Allocated):
            out["results"], explained = with_share_names([result.to_wire() for result in answer.results]), False
    except AllocationError as error:
        of_node = isinstance(error, NodeError)
        out |= {"error": error_text(error), "node_error": of_node}
        explained = explain and of_node
    if explain:
        out["explanation"] = _explained(allocator, node, deadline) if explained else None
    return out


def _explained(allocator: Allocator, node: Node, deadline: AllocationDeadline) -> ExplanationJson | None:
    """None for an error about the request itself, which needs no explanation, and for an explanation that takes too
    long."""
    deadline.start()
    try:
        return explanation_json(allocator.explain(node))
    except AllocationError:
        return None


def _faults(features: Features, *groups: Sequence[TypedObject]) -> list[str]:
    """Every error that an API server with these features would return, each with its path in the request."""
    rules = compiled_rules(with_features(PLAIN, asdict(features)))
    return [
        f"{name}[{i}].{fault}"
        for name, group in zip(("slices", "classes", "claims"), groups, strict=True)
        for i, obj in enumerate(group)
        for fault in (f"{error.field}: {error.message}" for error in validate_create(defaulted(obj), rules))
    ]


def features_of(request: Json) -> Features:
    """The member ``features``: a missing field is off; without the object all are on. Raises BadLine."""
    chosen = switches(request, FEATURE_FIELDS)
    if chosen is None:
        return Features.all()
    return Features(**{FEATURE_FIELDS[name]: enabled for name, enabled in chosen.items()})


def objects_of(request: Json, name: str, kind: type[ObjectT]) -> tuple[ObjectT, ...]:
    """A list of objects of one kind in the request, () where absent. Raises BadLine, or WireError with the whole
    path."""
    return objects_in(member(request, name, list, []), name, kind)


def objects_in(items: Iterable[object], name: str, kind: type[ObjectT]) -> tuple[ObjectT, ...]:
    return tuple(object_of(raw, f"{name}[{i}]", kind) for i, raw in enumerate(items))


def _node_of(request: Json) -> Node:
    raw = member(request, "node", dict)
    if raw is None:
        raise BadLine("node: required, an object: the Node to allocate on")
    return object_of(raw, "node", Node)


def object_of(raw: object, place: str, kind: type[ObjectT]) -> ObjectT:
    """An object of the kind; kind and apiVersion may be left out, and older versions are converted. One that is read
    already is returned. Raises BadLine, or WireError with the whole path."""
    if isinstance(raw, kind):
        return raw
    if not isinstance(raw, dict):
        raise BadLine(f"{place}: must be an object ({kind.KIND})")
    if raw.get("kind") not in (None, "", kind.KIND):
        raise BadLine(f"{place}.kind: must be {kind.KIND}, not {raw['kind']!r}")
    try:
        current = raw.get("apiVersion") in (None, "", kind.API_VERSION)
        return kind.from_wire(raw if current else to_v1({**raw, "kind": kind.KIND}))
    except WireError as error:
        raise under(place, error) from None


def _uses_of(request: Json) -> Iterator[DeviceUse]:
    """The member ``allocated_state``: what is in use besides the allocated claims."""
    state: Json = member(request, "allocated_state", dict, {})
    lists = ("devices", "shared", "capacity")
    for name in (name for name in state if name not in lists):
        raise BadLine(f"allocated_state.{name}: no such list; there are devices, shared and capacity")
    for name in lists:
        entries = state.get(name)
        if entries is not None and not isinstance(entries, list):
            raise BadLine(f"allocated_state.{name}: must be a list")
        for i, entry in enumerate(entries or ()):
            place = f"allocated_state.{name}[{i}]"
            if not isinstance(entry, dict):
                raise BadLine(f"{place}: must be an object")
            driver, pool, device = (_text(entry, key, place) for key in ("driver", "pool", "device"))
            share = _text(entry, "shareID", place) if name == "shared" else None
            consumed = _amounts(entry, place) if name == "capacity" else None
            yield DeviceUse(driver, pool, device, share, consumed)


def _text(entry: Json, key: str, place: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise BadLine(f"{place}.{key}: must be a string")
    return value


def _amounts(entry: Json, place: str) -> dict[str, Quantity]:
    raw = entry.get("consumed")
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise BadLine(f"{place}.consumed: must be an object of quantities")
    amounts: dict[str, Quantity] = {}
    for name, value in raw.items():
        try:
            amounts[name] = Quantity.from_json(value)
        except ValueError as error:
            raise BadLine(f"{place}.consumed[{name}]: {error}") from None
    return amounts


def with_share_names(results: list[Json]) -> list[Json]:
    """Shares are called share-1, share-2, … in the order in which they appear: their real IDs are random."""
    names: dict[str, str] = {}
    for result in results:
        for device in result.get("devices", {}).get("results", ()):
            if "shareID" in device:
                device["shareID"] = names.setdefault(device["shareID"], f"share-{len(names) + 1}")
    return results
