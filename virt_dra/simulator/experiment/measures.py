"""What a simulation measures: waiting, use of the devices, fragmentation, evictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

from virt_dra.scheduling.policies.cards import WHOLE
from virt_dra.scheduling.policies.placer import PolicyPlacer
from virt_dra.scheduling.policies.typical import TypicalVms

SAMPLES = 200
"""Points of a time series, at most twice as many."""


class ClusterSampleJson(TypedDict):
    """The cluster at one moment. Shares are of 1."""

    at: NotRequired[float]
    """Seconds since the beginning, where there are times."""
    arrived: int
    """VMs that have arrived."""
    asked: float
    """What they ask for in cards, beside the cluster's."""
    used: float
    """The part of the cards that is in use."""
    waiting: int
    """VMs that wait."""
    fragmentation: float
    """The part of the cards that is free and that a typical VM can't use."""
    largestVM: int
    """The most whole cards that one VM can still get."""
    largestShare: float
    """The largest free part of one card that a VM can still get."""


class WaitsJson(TypedDict):
    """Percentiles of the time that VMs wait, in seconds."""

    p50: float
    p95: float
    p99: float


class KindMeasuresJson(TypedDict):
    """VMs of one kind."""

    kind: str
    vms: int
    started: int
    waiting: int
    pendingSeconds: NotRequired[WaitsJson]
    used: float
    """Over time, the part of the cards that they have."""


class UsedJson(TypedDict):
    """The part of cards in use, over time and at the end."""

    mean: float
    end: float


class FragmentationJson(TypedDict):
    """The part of the cards that is free and that a typical VM can't use."""

    end: float
    max: float


class LargestVmJson(TypedDict):
    """The most whole cards that one VM can still get."""

    end: int
    min: int


class ModelMeasuresJson(TypedDict):
    """The cards of one model of device."""

    model: str
    cards: int
    pendingSeconds: NotRequired[WaitsJson]
    used: UsedJson


class KeepingMeasuresJson(TypedDict):
    """VMs that are stopped and start again."""

    restarts: int
    """Times that a stopped VM started again."""
    restartPendingSeconds: WaitsJson
    keptUnusedHours: float
    """Cards that stopped VMs kept, times hours."""
    released: int
    """VMs whose kept devices were released."""


class MeasuresJson(TypedDict):
    """The result of one run of a policy."""

    policy: str
    complete: bool
    """False if it was interrupted."""
    ended: NotRequired[float]
    """Seconds since the beginning, where there are times."""
    cards: int
    vms: int
    started: int
    waiting: int
    evictions: int
    gangs: int
    gangsWaiting: int
    pendingSeconds: NotRequired[WaitsJson]
    used: UsedJson
    unallocated: float
    """Cards that are unused at the end."""
    fragmentation: FragmentationJson
    largestVM: LargestVmJson
    errors: int
    """VMs whose claims are broken."""
    firstError: NotRequired[str]
    keeping: NotRequired[KeepingMeasuresJson]
    """Where VMs are stopped."""
    kinds: list[KindMeasuresJson]
    models: list[ModelMeasuresJson]
    samples: list[ClusterSampleJson]


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """The cluster at one moment. Shares are of 1."""

    at: float
    """Seconds since the beginning."""
    arrived: int
    """VMs that have arrived."""
    asked: float
    """What they ask for in cards, beside the cluster's."""
    used: float
    """The part of the cards that is in use."""
    waiting: int
    """VMs that wait."""
    fragmentation: float
    """The part of the cards that is free and that a typical VM can't use, on average over the workload."""
    largest_vm: int
    """The most whole cards that one VM can still get, with cpu and memory as the least demanding VM needs."""
    largest_share: float
    """The largest free part of one card that a VM can still get so."""

    def to_json(self, *, timed: bool) -> ClusterSampleJson:
        sample: ClusterSampleJson = {
            "arrived": self.arrived,
            "asked": round(self.asked, 6),
            "used": round(self.used, 6),
            "waiting": self.waiting,
            "fragmentation": round(self.fragmentation, 6),
            "largestVM": self.largest_vm,
            "largestShare": round(self.largest_share, 3),
        }
        if timed:
            sample["at"] = round(self.at, 3)
        return sample


WaitPercentiles = tuple[float, float, float]
"""p50, p95 and p99, in seconds."""


def _waits_to_json(waits: WaitPercentiles) -> WaitsJson:
    p50, p95, p99 = (round(seconds, 3) for seconds in waits)
    return {"p50": p50, "p95": p95, "p99": p99}


@dataclass(frozen=True, slots=True)
class KindMeasures:
    """VMs of one kind."""

    kind: str
    vms: int
    started: int
    waiting: int
    waits: WaitPercentiles
    used: float
    """Over time, the part of the cards that they have."""

    def to_json(self, *, timed: bool) -> KindMeasuresJson:
        measures: KindMeasuresJson = {
            "kind": self.kind,
            "vms": self.vms,
            "started": self.started,
            "waiting": self.waiting,
            "used": round(self.used, 6),
        }
        if timed:
            measures["pendingSeconds"] = _waits_to_json(self.waits)
        return measures


@dataclass(frozen=True, slots=True)
class ModelMeasures:
    """The cards of one model of device."""

    model: str
    cards: int
    waits: WaitPercentiles
    """Of the VMs that were started on them."""
    used_mean: float
    used_end: float

    def to_json(self, *, timed: bool) -> ModelMeasuresJson:
        measures: ModelMeasuresJson = {
            "model": self.model,
            "cards": self.cards,
            "used": {"mean": round(self.used_mean, 6), "end": round(self.used_end, 6)},
        }
        if timed:
            measures["pendingSeconds"] = _waits_to_json(self.waits)
        return measures


@dataclass(frozen=True, slots=True)
class KeepingMeasures:
    """VMs that are stopped and started again, whether they keep their devices or not."""

    restarts: int
    """Times that a stopped VM started again."""
    waits: WaitPercentiles
    """How long stopped VMs waited to start again; those that still wait count with the time so far."""
    kept_hours: float
    """Cards that stopped VMs kept, times hours: in use by nobody."""
    released: int
    """VMs whose devices were released while they were stopped, or waited for their node."""

    def to_json(self) -> KeepingMeasuresJson:
        return {
            "restarts": self.restarts,
            "restartPendingSeconds": _waits_to_json(self.waits),
            "keptUnusedHours": round(self.kept_hours, 3),
            "released": self.released,
        }


@dataclass(frozen=True)
class Measures:
    """The result of one policy."""

    policy: str
    ended: float
    """Seconds since the beginning."""
    timed: bool
    """False if there are no times: what is in seconds means nothing, and is not shown."""
    complete: bool
    """False if it was interrupted."""
    cards: int
    vms: int
    """VMs that have arrived, those of gangs included."""
    started: int
    """VMs that have started, each once, however often it was evicted."""
    waiting: int
    """VMs that wait at the end, those of gangs included."""
    evictions: int
    gangs: int
    gangs_waiting: int
    """Gangs that have not started at the end."""
    errors: int
    """VMs whose claims are broken."""
    first_error: str | None
    pending_p50: float
    """Seconds that VMs waited; those that still wait count with the time so far."""
    pending_p95: float
    pending_p99: float
    used_mean: float
    """Over time, the part of the cards in use."""
    samples: tuple[ClusterSample, ...]
    notes: tuple[str, ...] = field(default=())
    kinds: tuple[KindMeasures, ...] = ()
    models: tuple[ModelMeasures, ...] = ()
    keeping: KeepingMeasures | None = None
    """None where no VM is stopped."""

    @property
    def last(self) -> ClusterSample:
        return self.samples[-1]

    @property
    def unallocated(self) -> float:
        """Cards that are unused at the end."""
        return self.cards * (1 - self.last.used)

    def to_json(self) -> MeasuresJson:
        shown: MeasuresJson = {
            "policy": self.policy,
            "complete": self.complete,
            "cards": self.cards,
            "vms": self.vms,
            "started": self.started,
            "waiting": self.waiting,
            "evictions": self.evictions,
            "gangs": self.gangs,
            "gangsWaiting": self.gangs_waiting,
            "used": {"mean": round(self.used_mean, 6), "end": round(self.last.used, 6)},
            "unallocated": round(self.unallocated, 3),
            "fragmentation": {
                "end": round(self.last.fragmentation, 6),
                "max": round(max(sample.fragmentation for sample in self.samples), 6),
            },
            "largestVM": {"end": self.last.largest_vm, "min": min(sample.largest_vm for sample in self.samples)},
            "errors": self.errors,
            "kinds": [kind.to_json(timed=self.timed) for kind in self.kinds],
            "models": [model.to_json(timed=self.timed) for model in self.models],
            "samples": [sample.to_json(timed=self.timed) for sample in self.samples],
        }
        if self.timed:
            shown["ended"] = round(self.ended, 3)
            shown["pendingSeconds"] = _waits_to_json((self.pending_p50, self.pending_p95, self.pending_p99))
        if self.keeping is not None:
            shown["keeping"] = self.keeping.to_json()
        if self.first_error is not None:
            shown["firstError"] = self.first_error
        return shown


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest of sorted numbers that is at least as large as ``percent`` of them; 0 of none."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * percent // 100) - 1))]


class CardMeter:
    """The cards of a cluster, kept up to date node by node; those of several nodes count at the first."""

    def __init__(self, placer: PolicyPlacer, typical: TypicalVms) -> None:
        self._placer = placer
        self._workload = typical.workload
        self._needs = typical.least_demanding
        self._free: list[int] = []
        self._whole: list[int] = []
        """By node, its unused cards."""
        self.counted: list[tuple[int, ...]] = []
        """By node, the cards that count here."""
        self.cards = 0
        seen: set[tuple[str, str, str]] = set()
        for number in range(len(placer.nodes)):
            counted = self._new_cards(number, seen)
            self.counted.append(counted)
            self.cards += len(counted)
            free, whole = self._of_node(number)
            self._free.append(free)
            self._whole.append(whole)
        self.free = sum(self._free)

    def _new_cards(self, number: int, seen: set[tuple[str, str, str]]) -> tuple[int, ...]:
        cards = self._placer.cards(number)
        new: set[int] = set()
        old: set[int] = set()
        for device, parts in zip(cards.reachable.devices, cards.layout.parts, strict=True):
            target = old if device.id in seen else new
            seen.add(device.id)
            target.update(part.card for part in parts)
        return tuple(sorted(new - old))

    @property
    def used(self) -> float:
        return 1 - self.free / (self.cards * WHOLE) if self.cards else 0.0

    @property
    def largest_vm(self) -> int:
        """The most whole cards that one VM can still get on a node, with a typical VM's cpu and memory."""
        largest = 0
        for number, open_ in enumerate(self._placer.open):
            if open_ and self._whole[number] > largest:
                largest = max(largest, self._servable(number, self._whole[number] * WHOLE) // WHOLE)
        return largest

    def largest_share(self) -> float:
        """The largest free part of one card, with cpu and memory for it as a typical VM asks for them."""
        largest = 0
        for number, open_ in enumerate(self._placer.open):
            free = max(self._placer.card_state(number).free, default=0) if open_ else 0
            if free > largest:
                largest = max(largest, self._servable(number, free))
        return largest / WHOLE

    def _servable(self, number: int, most: int) -> int:
        """The part of ``most`` thousandths of a node's cards for which it has cpu and memory left."""
        room = self._placer.rooms[number]
        if room.pods_left <= 0:
            return 0
        return max(
            [
                min(
                    [
                        most,
                        *[
                            left * cards // wanted
                            for left, wanted in ((room.cpu_left, cpu), (room.memory_left, memory))
                            if wanted
                        ],
                    ]
                )
                for cards, cpu, memory in self._needs
            ],
            default=most,
        )

    def update(self, numbers: Sequence[int]) -> None:
        """Follows a change of the use of these nodes."""
        for number in numbers:
            free, whole = self._of_node(number)
            self.free += free - self._free[number]
            self._free[number], self._whole[number] = free, whole

    def _of_node(self, number: int) -> tuple[int, int]:
        state = self._placer.card_state(number)
        free = [state.free[card] for card in self.counted[number]]
        return sum(free), sum([left == WHOLE for left in free])

    def fragmentation(self) -> float:
        """The part of all cards that is free and that a typical VM can't use; on closed nodes all that is free."""
        if not self.cards or not self._workload.weight:
            return 0.0
        total = 0
        for number, room in enumerate(self._placer.rooms):
            if self._free[number]:
                cards, state = self._placer.cards(number), self._placer.card_state(number)
                total += (
                    self._workload.fragmentation(cards, state, room)
                    if self._placer.open[number]
                    else self._free[number] * self._workload.weight
                )
        return total / (self.cards * WHOLE * self._workload.weight)


class Waits:
    """How long VMs waited, in seconds."""

    def __init__(self) -> None:
        self._waits: list[float] = []

    def add(self, seconds: float) -> None:
        self._waits.append(seconds)

    def percentiles(self, unfinished: Sequence[float]) -> WaitPercentiles:
        """p50, p95, p99. ``unfinished``: of those that still wait."""
        ordered = sorted([*self._waits, *unfinished])
        return percentile(ordered, 50), percentile(ordered, 95), percentile(ordered, 99)
