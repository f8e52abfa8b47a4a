"""What an experiment consists of: a cluster, VMs that arrive, and what happens to the cluster meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from virt_dra.allocator import DEFAULT, Features
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import AllocationResult, DeviceTaint
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.unknown import UnknownFact
from virt_dra.scheduling.pod_requests import unknown_to
from virt_dra.scheduling.policies.placer import VmShape

SHORTEST: Final = 1.0
"""Seconds that a VM runs, or is stopped, at least: bounds the number of events."""


@dataclass(frozen=True, slots=True)
class Span:
    """A time in seconds, or the mean of an exponential distribution."""

    seconds: float
    drawn: bool = False


@dataclass(frozen=True, slots=True)
class KeepRule:
    """The terms on which stopped VMs keep their devices. Seconds: how long a stopped VM keeps them, and waits for a
    closed node; None: for ever."""

    stopped_for: float | None
    node_loss: float | None


@dataclass(frozen=True, slots=True)
class StopPattern:
    """A kind of VM that runs, is stopped, and runs again until its lifetime, which counts while it runs, is over. How
    long each time depends on the seed and the VM alone, so that every policy sees the same, with keeping and without.
    ``seed``: of what is drawn. ``keep``: None if a VM gives up its devices when it stops."""

    running: Span
    stopped: Span
    seed: str
    keep: KeepRule | None = None

    def runs_for(self, vm: str, stops: int) -> float:
        """Seconds that a VM runs after it was stopped so many times."""
        return self._drawn(self.running, f"{self.seed}/{vm}/{stops}/runs")

    def stopped_for(self, vm: str, stops: int) -> float:
        """Seconds that it is stopped the next time."""
        return self._drawn(self.stopped, f"{self.seed}/{vm}/{stops}/stopped")

    @staticmethod
    def _drawn(span: Span, seed: str) -> float:
        return max(Random(seed).expovariate(1 / span.seconds) if span.drawn else span.seconds, SHORTEST)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One VM, or a gang of VMs that start together."""

    at: float
    """Seconds since the beginning."""
    shape: VmShape
    name: str
    lifetime: float | None = None
    """Seconds from its start to its end; None: it stays."""
    priority: int = 0
    """VMs of higher priority are tried first."""
    members: int = 1
    """More than one: a gang."""
    evicted: bool = False
    """True for a VM that runs again after it was evicted."""
    pattern: StopPattern | None = None
    """When it is stopped and started again; None: it runs to its end."""
    stops: int = 0
    """How often it was stopped."""

    @property
    def ran_before(self) -> bool:
        """True for a VM that doesn't start for the first time."""
        return self.evicted or self.stops > 0


def by_time(arrivals: Iterable[Arrival]) -> list[Arrival]:
    """The arrivals in the order in which they are tried."""
    return sorted(arrivals, key=lambda arrival: (arrival.at, -arrival.priority))


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod of the cluster that runs when the experiment begins; it ends, or is evicted and waits, as others."""

    arrival: Arrival
    node: int
    results: tuple[AllocationResult, ...]


@dataclass(frozen=True, slots=True)
class NodesDown:
    """Nodes fail or are drained: their VMs are evicted, and wait again. ``until``: seconds; None: for ever. ``evicts``:
    not if only cordoned."""

    at: float
    nodes: tuple[int, ...]
    until: float | None
    word: str
    """What happens, for reports: fail, drain or cordon."""
    evicts: bool = True


@dataclass(frozen=True, slots=True)
class DevicesTainted:
    """Devices get a taint, by driver, pool and device (None: all of them). NoExecute evicts their VMs."""

    at: float
    taint: DeviceTaint
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    until: float | None = None


Disturbance = NodesDown | DevicesTainted


@dataclass(frozen=True)
class Experiment:
    """Everything that a simulation needs but the policy. Disturbances are sorted by time."""

    cluster: ClusterModel
    """Its running pods and allocated claims take their room and devices all the time; its rules hold all the time."""
    nodes: tuple[Node, ...]
    """The cluster's, in the order in which equal ones are preferred."""
    arrivals: Sequence[Arrival]
    """Sorted by time; of those at one time, the one of highest priority first (:func:`by_time`)."""
    running: Sequence[RunningPod] = ()
    """What runs at the beginning; neither these pods nor their claims are in ``cluster``."""
    disturbances: Sequence[Disturbance] = ()
    until: float | None = None
    """When it ends, in seconds; None: when the last VM has arrived, and the last disturbance begun."""
    features: Features = DEFAULT
    nodes_only: bool = False
    """Policies choose the node alone, as `virt-dra extender` does; its devices are those that kube-scheduler takes."""
    timed: bool = True
    """False if VMs arrive one after the other, at times that mean nothing: their number takes the place of seconds."""
    whole_per_cent: bool = False
    """Policies rate nodes in whole per cent, and one of the best is drawn, as kube-scheduler does."""
    warm_up: float = 0.0
    """Seconds from the beginning in which nothing is measured but the state of the cluster."""
    keeps_stays: bool = False
    """Where each VM ran is kept."""
    unit: str = "devices"
    """What cards are called in reports."""
    notes: tuple[str, ...] = field(default=())
    """What was left out of the input, for the user."""

    @property
    def unknown(self) -> tuple[UnknownFact, ...]:
        """What placing the VMs doesn't take into account."""
        return unknown_to([shape.pod for shape in {arrival.shape for arrival in self.arrivals}], self.cluster)

    def ending(self, until: float) -> Experiment:
        """The experiment with another end."""
        return replace(self, until=until)

    @property
    def end(self) -> float:
        """The end of the experiment, in seconds."""
        if self.until is not None:
            return self.until
        return max(
            [self.arrivals[-1].at if self.arrivals else 0.0, *(disturbance.at for disturbance in self.disturbances)]
        )
