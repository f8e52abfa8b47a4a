"""A workload: pods placed one after the other and timed, with a digest of the choices."""

from __future__ import annotations

import hashlib
import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NotRequired, TypedDict

from virt_dra.allocator import AllocationError, BatchAllocator, Features, Placed, Snapshot
from virt_dra.api.core_v1 import Node
from virt_dra.api.reading.collector import collector_paused
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim
from virt_dra.simulator import collector
from virt_dra.simulator.allocation import Progress
from virt_dra.simulator.deadline import AllocationDeadline, error_text

_NOWHERE: Final = ["", None]
"""The digest's line for a pod that fits nowhere."""
_REPORTED_EVERY: Final = 500
"""Pods between two reports of progress."""


@dataclass(frozen=True)
class AllocationWorkload:
    """Nodes, devices and the claims of pods. ``sequence`` says which of ``variants`` each pod is, repeated."""

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
        return tuple(
            [
                template.with_(metadata=template.metadata.with_(name=f"pod-{pod}-{template.name}"))
                for template in templates
            ]
        )


class WorkloadFiguresJson(TypedDict):
    """How fast pods of a workload are placed."""

    scheduled: int
    unschedulable: int
    errors: int
    first_error: NotRequired[str]
    pods_per_s: float
    total_s: float
    pod_p50_us: float
    pod_p99_us: float
    digest: str
    """Of all answers."""


@dataclass(frozen=True)
class WorkloadFigures:
    """The result of a run. ``unschedulable``: pods that fit on no node; ``errors``: those with broken input."""

    scheduled: int
    unschedulable: int
    errors: int
    first_error: str | None
    total_seconds: float
    pod_seconds: tuple[float, ...]
    digest: str

    def to_json(self) -> WorkloadFiguresJson:
        ordered = sorted(self.pod_seconds)
        figures: WorkloadFiguresJson = {
            "scheduled": self.scheduled,
            "unschedulable": self.unschedulable,
            "errors": self.errors,
            "pods_per_s": round(len(ordered) / max(self.total_seconds, 1e-9), 1),
            "total_s": round(self.total_seconds, 6),
            "pod_p50_us": _percentile(ordered, 50),
            "pod_p99_us": _percentile(ordered, 99),
            "digest": self.digest,
        }
        if self.first_error is not None:
            figures["first_error"] = self.first_error
        return figures


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """A percentile of times, in microseconds."""
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] * 1e6, 1) if ordered else 0.0


def place_workload(
    workload: AllocationWorkload, *, auto: bool, progress: Progress, deadline: AllocationDeadline
) -> WorkloadFigures:
    """Place every pod. ``auto``: look for as many nodes as kube-scheduler does, else for one."""
    with collector_paused():
        walk = BatchAllocator(workload.snapshot, workload.nodes, workload.features, all_nodes=auto, interrupt=deadline)
    with collector.rare_collections():
        return _placed(workload, walk, progress, deadline)


def _placed(
    workload: AllocationWorkload, walk: BatchAllocator, progress: Progress, deadline: AllocationDeadline
) -> WorkloadFigures:
    for pod in range(workload.init_pods):
        deadline.start()
        try:
            walk.place(workload.claims(pod))
        except AllocationError:
            continue  # init pods aren't measured, and one that can't be placed doesn't concern the others
        if pod % _REPORTED_EVERY == 0:
            progress(pod, workload.init_pods + workload.pods)
    waiting = [workload.claims(pod) for pod in range(workload.init_pods, workload.init_pods + workload.pods)]
    return _measured(workload, walk, waiting, progress, deadline)


def _measured(
    workload: AllocationWorkload,
    walk: BatchAllocator,
    waiting: Sequence[tuple[ResourceClaim, ...]],
    progress: Progress,
    deadline: AllocationDeadline,
) -> WorkloadFigures:
    """The figures of a run. ``waiting``: the claims of each pod, which exist before a scheduler sees the pod."""
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
            pod_place = walk.place(claims)
        except AllocationError as error:
            pod_place, errors, first_error = None, errors + 1, first_error or error_text(error)
        seconds.append(time.perf_counter() - start)
        placed.append(pod_place)
        if pod_place is not None and workload.max_alive:
            alive.append(pod_place)
        if pod % _REPORTED_EVERY == 0:
            progress(workload.init_pods + pod, workload.init_pods + workload.pods)
    total = time.perf_counter() - begin
    scheduled = sum(pod_place is not None for pod_place in placed)
    return WorkloadFigures(
        scheduled, len(placed) - scheduled - errors, errors, first_error, total, tuple(seconds), digest_of(placed)
    )


def digest_of(placed: Sequence[Placed | None]) -> str:
    """The first 16 hex digits of SHA-256 over a line per pod: ``[node, [[request, driver, pool, device], …]]``."""
    digest = hashlib.sha256()
    for pod_place in placed:
        line = _NOWHERE if pod_place is None else [pod_place.node.name, _devices(pod_place.results)]
        digest.update(json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
    return digest.hexdigest()[:16]


def _devices(results: Sequence[AllocationResult]) -> list[list[str]]:
    return [[d.request, d.driver, d.pool, d.device] for result in results for d in result.devices.results]
