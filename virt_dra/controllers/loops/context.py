"""The context of a control loop: the cluster, shared informers, time, events, metrics, gates and timers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.cluster.port import Cluster
from virt_dra.cluster.watching.event_recorder import EventRecorder
from virt_dra.cluster.watching.shared_informers import SharedInformers


class LoopMetrics(Protocol):
    """Counters, gauges and histograms by their Prometheus name and labels. Must not raise."""

    def count(self, name: str, by: float = 1.0, **labels: str) -> None:
        """Increase a counter."""

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add an observation to a histogram; durations are in seconds."""


class NoMetrics:
    """Records nothing."""

    def count(self, name: str, by: float = 1.0, **labels: str) -> None: ...
    def gauge(self, name: str, value: float, **labels: str) -> None: ...
    def observe(self, name: str, value: float, **labels: str) -> None: ...


@dataclass(frozen=True)
class LoopTimers:
    """Durations in seconds that an administrator may choose; the defaults are those of Kubernetes 1.37 (C-2.7)."""

    binding_timeout: float = 600.0
    """How long a pod waits for the binding conditions of its devices (``DynamicResourcesArgs.bindingTimeout``)."""
    filter_timeout: float = 10.0
    """How long the allocator may search on one node (``DynamicResourcesArgs.filterTimeout``); 0: without limit."""
    pod_initial_backoff: float = 1.0
    """The first back-off of a pod in the scheduling queue (``podInitialBackoffSeconds``)."""
    pod_max_backoff: float = 10.0
    """The longest one (``podMaxBackoffSeconds``)."""


DEFAULT_TIMERS: Final = LoopTimers()


@dataclass(frozen=True)
class LoopContext:
    """The surroundings of a control loop, whose maker runs informers and recorders. ``clock``: the time of day.
    ``recorder``: of the Events of one component. ``chance``: a random number in [0, 1), for jitter. ``options``: by
    loop and name."""

    cluster: Cluster
    informers: SharedInformers
    clock: Callable[[], datetime]
    recorder: Callable[[str], EventRecorder]
    chance: Callable[[], float]
    gates: FeatureGates = PLAIN
    timers: LoopTimers = DEFAULT_TIMERS
    metrics: LoopMetrics = field(default_factory=NoMetrics)
    options: Mapping[str, object] = field(default_factory=dict)


class ControlLoop(Protocol):
    """A control loop. Its constructor takes a :class:`LoopContext` and asks for its informers; only :meth:`run`
    writes."""

    async def run(self) -> None:
        """Reconcile until cancelled. The informers run, and have synced. An error of the cluster is retried."""
