"""The JSON of ``virt-dra allocate --workload``, read to a workload. Its format is in docs/guides/allocator.md."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import IO

from virt_dra.allocator import Snapshot
from virt_dra.api.core_v1 import Node
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.cli.allocate.lines import features_of, object_of, objects_in, objects_of
from virt_dra.cli.jsonl.lines import parse_request
from virt_dra.cli.jsonl.members import BadLine, member
from virt_dra.simulator.workload import AllocationWorkload


def load_workload(file: IO[bytes]) -> AllocationWorkload:
    """The workload of a file, read object by object. Raises BadLine, WireError with the whole path, OSError;
    RecursionError if too deep."""
    kinds: dict[str, type[TypedObject]] = {
        "nodes": Node,
        "slices": ResourceSlice,
        "classes": DeviceClass,
        "allocated": ResourceClaim,
    }
    return read_workload(parse_request(file.read(), {name: partial(_item, name, kind) for name, kind in kinds.items()}))


def _item(name: str, kind: type[TypedObject], raw: object, index: int) -> TypedObject:
    return object_of(raw, f"{name}[{index}]", kind)


def read_workload(raw: Json) -> AllocationWorkload:
    """The workload of a JSON object. Raises BadLine, or WireError with the whole path."""
    nodes = objects_of(raw, "nodes", Node)
    if not nodes:
        raise BadLine("nodes: required, a list of Nodes with at least one")
    variants = tuple(_variants(raw))
    sequence = _sequence(raw, len(variants))
    snapshot = Snapshot.build(
        objects_of(raw, "slices", ResourceSlice),
        objects_of(raw, "classes", DeviceClass),
        objects_of(raw, "allocated", ResourceClaim),
    )
    counts = {name: _count(raw, name) for name in ("init_pods", "pods", "max_alive")}
    return AllocationWorkload(features_of(raw), nodes, snapshot, variants, sequence, **counts)


def _variants(raw: Json) -> Iterator[tuple[ResourceClaim, ...]]:
    if (raw.get("claims_per_pod") is None) is (raw.get("pod_variants") is None):
        raise BadLine("give either claims_per_pod (a list of claims) or pod_variants (a list of such lists)")
    if raw.get("claims_per_pod") is not None:
        yield objects_of(raw, "claims_per_pod", ResourceClaim)
        return
    variants: list[object] = member(raw, "pod_variants", list)
    if not variants:
        raise BadLine("pod_variants: must have at least one variant")
    for i, claims in enumerate(variants):
        if not isinstance(claims, list):
            raise BadLine(f"pod_variants[{i}]: must be a list of claims")
        yield objects_in(claims, f"pod_variants[{i}]", ResourceClaim)


def _sequence(raw: Json, variants: int) -> tuple[int, ...]:
    """Absent: the variants in turn."""
    given: list[object] = member(raw, "pod_sequence", list, [])
    sequence: list[int] = []
    for i, index in enumerate(given):
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < variants:
            raise BadLine(f"pod_sequence[{i}]: must be the index of a variant, 0 to {variants - 1}")
        sequence.append(index)
    return tuple(sequence or range(variants))


def _count(raw: Json, name: str) -> int:
    value: int = member(raw, name, int, 0)
    if value < 0:
        raise BadLine(f"{name}: must not be negative")
    return value
