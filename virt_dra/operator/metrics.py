"""Prometheus metrics of a controller's process, and the operator's own.

Labels have few values, none of which a user can choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

Counts = dict[str, float]
"""A label's value -> how many."""


class GaugeSource(Protocol):
    """The source of gauges that are computed at each scrape."""

    def devices_by_state(self) -> Counts: ...
    def vmis_by_path(self) -> Counts: ...
    def informer_ages(self) -> Counts: ...


class ProcessMetrics:
    """One registry for one process, its own if none is given; nothing is global, so that several fit in a process.

    It is the observer of informers, of the queue, of requests (``virt_dra.cluster``) and of reconciles. ``prefix``: of
    the names that another process of ours on the cluster would use, too. ``subject``: what is reconciled.
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, *, prefix: str = "virt_dra", subject: str = "VMI"
    ) -> None:
        registry = self._registry = CollectorRegistry() if registry is None else registry
        self._ages = f"{prefix}_informer_age_seconds"
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        seconds = partial(Histogram, buckets=_SECONDS, registry=registry)
        results = f"Reconciles of {subject}s, by result (unchanged, written, outdated, refused, gone, failed)."
        self._reconciles = counter(f"{prefix}_reconciles", results, ("result",))
        self._reconcile_seconds = seconds(
            f"{prefix}_reconcile_seconds", f"Time of one reconcile of a {subject}, writes included."
        )
        self._queue_depth = gauge(
            f"{prefix}_queue_depth", f"{subject}s in the work queue, by state (ready, delayed, in_work).", ("state",)
        )
        self._queue_seconds = seconds(
            f"{prefix}_queue_seconds", f"Time from a watch event until a worker starts to reconcile its {subject}."
        )
        failures = "Lists and watches that failed or ended, by kind and reason."
        self._watch_restarts = counter(f"{prefix}_watch_restarts", failures, ("kind", "reason"))
        self._objects_listed = gauge(f"{prefix}_listed_objects", "Objects of the last whole list, by kind.", ("kind",))
        self._received = counter(f"{prefix}_watch_events", "Events of watches, by kind and type.", ("kind", "type"))
        requests = "Requests to the API server, by verb, resource and HTTP code; 0: no answer."
        self._requests = counter(f"{prefix}_api_requests", requests, ("verb", "resource", "code"))
        self._request_seconds = seconds(
            f"{prefix}_api_request_seconds", "Time of requests to the API server, by verb.", ("verb",)
        )
        self._throttled = counter(
            f"{prefix}_api_throttled_seconds", "Time that requests were held back to keep to our own rate."
        )
        unreadable = "Objects left out because they don't have their kind's shape."
        self._unreadable = counter(f"{prefix}_unreadable_objects", unreadable, ("kind",))
        self._leader = gauge(f"{prefix}_leader", "Whether this replica leads.")

    def exposition(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def _count_ages(self, ages: Callable[[], Counts]) -> None:
        text = "Time since the API server's last answer or watch event for a kind."
        self._registry.register(ScrapedGauge(self._ages, text, ("kind",), ages))

    def leading(self, leads: bool) -> None:
        self._leader.set(leads)

    # --- reconciles ---

    def reconciled(self, result: str, seconds: float) -> None:
        self._reconciles.labels(result).inc()
        self._reconcile_seconds.observe(seconds)

    # --- the queue ---

    def depth(self, ready: int, delayed: int, in_work: int) -> None:
        for state, number in (("ready", ready), ("delayed", delayed), ("in_work", in_work)):
            self._queue_depth.labels(state).set(number)

    def started(self, waited: float) -> None:
        self._queue_seconds.observe(waited)

    def finished(self, seconds: float, outcome: str) -> None:
        if outcome == "failed":
            self.reconciled("failed", seconds)

    # --- informers ---

    def listed(self, kind: str, objects: int, seconds: float) -> None:
        self._objects_listed.labels(kind).set(objects)

    def received(self, kind: str, event: str) -> None:
        self._received.labels(kind, event).inc()

    def restarted(self, kind: str, reason: str) -> None:
        self._watch_restarts.labels(kind, reason).inc()

    # --- requests ---

    def answered(self, verb: str, subject: str, status: int, seconds: float) -> None:
        self._requests.labels(verb, subject, str(status)).inc()
        self._request_seconds.labels(verb).observe(seconds)

    def throttled(self, seconds: float) -> None:
        self._throttled.inc(seconds)

    def unreadable(self, kind: str, key: str, problem: str) -> None:
        self._unreadable.labels(kind).inc()


class OperatorMetrics(ProcessMetrics):
    """The operator's, which also observes the sandbox that explains."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        super().__init__(registry)
        published = (
            "Time from when the operator learns of the last claim's allocation "
            "until all addresses of a VMI are published."
        )
        self._allocation_to_status = Histogram(
            "virt_dra_allocation_to_status_seconds", published, buckets=_SECONDS, registry=self._registry
        )
        starts = "Started processes that explain why pods wait; more than one means that one ended."
        self._explanation_processes = Counter("virt_dra_explanation_process_starts", starts, registry=self._registry)

    def count(self, counted: GaugeSource) -> None:
        """Register the gauges that are computed at each scrape."""
        states = "DRA devices of VMIs, by state (Resolved, Pending, Error)."
        paths = "VMIs with DRA devices, by integration path."
        self._registry.register(ScrapedGauge("virt_dra_devices", states, ("state",), counted.devices_by_state))
        self._registry.register(ScrapedGauge("virt_dra_vmis", paths, ("path",), counted.vmis_by_path))
        self._count_ages(counted.informer_ages)

    def published(self, seconds: float) -> None:
        self._allocation_to_status.observe(seconds)

    def process_started(self) -> None:
        self._explanation_processes.inc()


class ScrapedGauge(Collector):
    """A gauge (or another family), computed at each scrape. ``counts``: by a label's value, or by those of several."""

    def __init__(
        self,
        name: str,
        help_text: str,
        labels: Sequence[str],
        counts: Callable[[], Mapping[Any, float]],
        family: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily,
    ) -> None:
        self._empty, self._counts = partial(family, name, help_text, labels=labels), counts

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        family = self._empty()
        for labels, count in sorted(self._counts().items()):
            family.add_metric([labels] if isinstance(labels, str) else labels, count)
        yield family

    def describe(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Without it the registry would count once at registration."""
        yield self._empty()
