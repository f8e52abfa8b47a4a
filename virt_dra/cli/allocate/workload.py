"""A whole workload: pods placed one after the other, timed, with a digest of what was chosen. ``virt-dra allocate --workload``."""

from __future__ import annotations

import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from virt_dra.allocator import AllocationError, Features, Placed, Snapshot, Walk
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.cli.allocate.lines import features_of, objects_in, objects_of
from virt_dra.cli.jsonl.lines import BadLine, member
from virt_dra.cli.shared import collector
from virt_dra.cli.shared.deadline import AllocationDeadline
from virt_dra.cli.shared.deadline import told as error_text

NOWHERE = ["", None]
"""The digest's line for a pod that fits nowhere."""

Told = Callable[[int, int], None]
"""Takes how many pods of how many are done."""
TOLD_EVERY = 500


@dataclass(frozen=True)
class Workload:
    """See docs/guides/allocator.md for the format. ``sequence`` says which of ``variants`` each pod is, repeated."""

    features: Features
    nodes: tuple[Node, ...]
    snapshot: Snapshot
    variants: tuple[tuple[ResourceClaim, ...], ...]
    sequence: tuple[int, ...]
    init_pods: int
    pods: int
    max_alive: int

    def claims(self, pod: int) -> tuple[ResourceClaim, ...]:
        """The claims of a pod; ``pod`` counts from the first init pod."""
        templates = self.variants[self.sequence[pod % len(self.sequence)]]
        return tuple([_renamed(template, f"pod-{pod}-{template.name}") for template in templates])


def _renamed(claim: ResourceClaim, name: str) -> ResourceClaim:
    return claim.with_(metadata=claim.metadata.with_(name=name))


@dataclass(frozen=True)
class Figures:
    """What a run came to. ``unschedulable``: no node fits; ``errors``: given up because of broken input. Times by the wall clock."""

    scheduled: int
    unschedulable: int
    errors: int
    first_error: str | None
    total_seconds: float
    pod_seconds: tuple[float, ...]
    digest: str

    def to_json(self) -> Json:
        ordered = sorted(self.pod_seconds)
        told: Json = {
            "scheduled": self.scheduled,
            "unschedulable": self.unschedulable,
            "errors": self.errors,
            "pods_per_s": round(len(ordered) / max(self.total_seconds, 1e-9), 1),
            "total_s": round(self.total_seconds, 6),
            "pod_p50_us": _percentile(ordered, 50),
            "pod_p99_us": _percentile(ordered, 99),
            "digest": self.digest,
        }
        return told if self.first_error is None else {**told, "first_error": self.first_error}


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """In microseconds."""
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] * 1e6, 1) if ordered else 0.0


def read_workload(raw: Json) -> Workload:
    """A workload's JSON, whose lists are emptied on the way to save memory. Raises BadLine, or WireError with the whole path."""
    nodes = objects_of(raw, "nodes", Node)
    if not nodes:
        raise BadLine("nodes: required, a list of Nodes with at least one")
    variants = tuple(_variants(raw))
    sequence = _sequence(raw, len(variants))
    snapshot = Snapshot.build(
        objects_of(raw, "slices", ResourceSlice), objects_of(raw, "classes", DeviceClass), objects_of(raw, "allocated", ResourceClaim)
    )
    return Workload(
        features_of(raw),
        nodes,
        snapshot,
        variants,
        sequence,
        init_pods=_count(raw, "init_pods"),
        pods=_count(raw, "pods"),
        max_alive=_count(raw, "max_alive"),
    )


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


def run(workload: Workload, *, auto: bool, told: Told, deadline: AllocationDeadline | None = None) -> Figures:
    """Place every pod. ``auto``: look for as many feasible nodes as kube-scheduler does, else for one. ``deadline``: of each pod."""
    deadline = deadline or AllocationDeadline()
    walk = Walk(workload.snapshot, workload.nodes, workload.features, all_nodes=auto, interrupt=deadline)
    for pod in range(workload.init_pods):
        deadline.start()
        try:
            walk.place(workload.claims(pod))
        except AllocationError:
            continue  # an init pod that can't be had is not measured, and the others are still wanted
        if pod % TOLD_EVERY == 0:
            told(pod, workload.init_pods + workload.pods)
    waiting = [workload.claims(pod) for pod in range(workload.init_pods, workload.init_pods + workload.pods)]
    with collector.left_alone():
        return _measured(workload, walk, waiting, told, deadline)


def _measured(
    workload: Workload, walk: Walk, waiting: Sequence[tuple[ResourceClaim, ...]], told: Told, deadline: AllocationDeadline
) -> Figures:
    """``waiting``: the claims of each pod, which exist before a scheduler sees the pod."""
    placed: list[Placed | None] = []
    seconds: list[float] = []
    alive: deque[Placed] = deque()
    errors, first_error = 0, None
    begin = time.perf_counter()
    for pod, claims in enumerate(waiting):
        if workload.max_alive and len(alive) >= workload.max_alive:
            walk.release(alive.popleft().results)
        start = time.perf_counter()
        deadline.start()
        try:
            found = walk.place(claims)
        except AllocationError as error:
            found, errors, first_error = None, errors + 1, first_error or error_text(error)
        seconds.append(time.perf_counter() - start)
        placed.append(found)
        if found is not None and workload.max_alive:
            alive.append(found)
        if pod % TOLD_EVERY == 0:
            told(workload.init_pods + pod, workload.init_pods + workload.pods)
    total = time.perf_counter() - begin
    scheduled = sum(each is not None for each in placed)
    return Figures(scheduled, len(placed) - scheduled - errors, errors, first_error, total, tuple(seconds), digest_of(placed))


def digest_of(placed: Sequence[Placed | None]) -> str:
    """The first 16 hex digits of SHA-256 over a line per pod: ``[node, [[request, driver, pool, device], …]]``."""
    digest = hashlib.sha256()
    for each in placed:
        line = NOWHERE if each is None else [each.node.name, _devices(each.results)]
        digest.update(json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
    return digest.hexdigest()[:16]


def _devices(results: Sequence[AllocationResult]) -> list[list[str]]:
    return [[d.request, d.driver, d.pool, d.device] for result in results for d in result.devices.results]
