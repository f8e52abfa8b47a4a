"""The webhook's Prometheus metrics. Labels have few values, none of which a user can choose."""

from __future__ import annotations

from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


_PREFIX = "virt_dra_webhook"
_REVIEWS = "Reviews with a verdict, by webhook (vmi, vm, launcher-pod), operation, and whether the object was allowed."
_MODE = (
    "1 for the mode for reviews without a verified client certificate: "
    "refuse, limit (decided by their content alone) or tell."
)
_OUTCOMES = (
    "Reviews whose selectors had to be evaluated, by outcome: answered, or not checked because killed (took too long), "
    "evicted (others waited), stopped (too much work), refused (the namespace has used up its share), late (waited too "
    "long), failed (no worker)."
)
_UNKNOWN_LISTS = "Lists of selectors, of class and request, whose devices weren't all known at a review's verdict."
_UNKNOWN_SLICES = "ResourceSlices whose answers were unknown then, each counted for each list."
_CACHE_AGE = "Time since the last watch event of a kind; more than a few minutes means that the watch is broken."


class ConnectionMetrics(Protocol):
    """What is counted: open connections, and those refused, by reason."""

    connections: Gauge
    refused_connections: Counter


class Metrics:
    """The metrics of one server, in a registry of its own if none is given; nothing is global, so that several servers
    fit in a process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{_PREFIX}_{name}", text, labels, registry=self.registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", text, labels, registry=self.registry)

        def histogram(name: str, text: str, *labels: str) -> Histogram:
            return Histogram(f"{_PREFIX}_{name}", text, labels, buckets=_SECONDS, registry=self.registry)

        self.reviews = counter("reviews", _REVIEWS, "webhook", "operation", "allowed")
        self.seconds = histogram(
            "review_duration_seconds", "Time from a request's headers to its answer, by webhook.", "webhook"
        )
        self.failures = counter("failures", "Requests answered without a verdict, by HTTP status code.", "code")
        self.callers = counter(
            "callers", "Reviews by whether the caller presented a client certificate of an API server.", "verified"
        )
        self.callers_mode = gauge("unverified_callers_mode", _MODE, "mode")
        self.in_flight = gauge("requests_in_flight", "Requests being answered.")
        self.connections = gauge("connections", "Open connections.")
        self.refused_connections = counter(
            "refused_connections", "Connections closed before a request: too many, or too slow.", "reason"
        )
        self.ready = gauge("ready", "Whether /readyz answers ok.")
        self.certificate_expiry = gauge("certificate_expiry_timestamp_seconds", "When the served certificate expires.")
        self.certificate_reloads = counter(
            "certificate_reloads", "Certificates loaded (result=loaded) or not (result=failed).", "result"
        )
        self.evaluations = counter("selector_evaluations", _OUTCOMES, "outcome")
        self.evaluation_seconds = histogram(
            "selector_evaluation_duration_seconds", "Time that a review waited for its selectors."
        )
        self.evaluating = gauge(
            "selector_evaluations_in_flight", "Reviews with selectors in evaluation: fast, slow, waiting.", "state"
        )
        self.unknown_lists = counter("unknown_selectors", _UNKNOWN_LISTS)
        self.unknown_slices = counter("unknown_slices", _UNKNOWN_SLICES)
        self.workers = counter(
            "worker_starts", "Started processes for evaluating selectors; more than one means that one ended."
        )
        self.cached = gauge("cached_objects", "Cached objects of a live cluster, by kind.", "kind")
        self.cache_age = gauge("cache_age_seconds", _CACHE_AGE, "kind")

    # --- webhooks.worker.parent.WorkerObserver ---

    def asked(self, outcome: str, seconds: float) -> None:
        self.evaluations.labels(outcome).inc()
        self.evaluation_seconds.observe(seconds)

    def process_started(self) -> None:
        self.workers.inc()

    def state(self, fast: int, slow: int, waiting: int) -> None:
        for name, value in (("fast", fast), ("slow", slow), ("waiting", waiting)):
            self.evaluating.labels(name).set(value)

    # --- webhooks.server.deciding.DecisionObserver ---

    def left_unknown(self, lists: int, slices: int) -> None:
        self.unknown_lists.inc(lists)
        self.unknown_slices.inc(slices)

    def exposition(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)
