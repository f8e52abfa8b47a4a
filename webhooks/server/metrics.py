"""The webhook's Prometheus metrics. Labels have few values, none of which a user can choose."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """One registry for one server; nothing is global, so that several servers fit in a process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reviews = Counter(
            "virt_dra_webhook_reviews",
            "Reviews answered with a verdict, by webhook (vmi, vm, launcher-pod), operation, and whether the object was allowed.",
            ("webhook", "operation", "allowed"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "virt_dra_webhook_review_duration_seconds",
            "Time from a request's headers to its answer, by webhook.",
            ("webhook",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.failures = Counter(
            "virt_dra_webhook_failures",
            "Requests answered without a verdict, by HTTP status code.",
            ("code",),
            registry=self.registry,
        )
        self.callers = Counter(
            "virt_dra_webhook_callers",
            "Requests for reviews, by whether the caller presented a client certificate of an API server.",
            ("verified",),
            registry=self.registry,
        )
        self.callers_mode = Gauge(
            "virt_dra_webhook_unverified_callers_mode",
            "1 for what becomes of reviews without a verified client certificate: refuse, limit (answered by what they carry) or tell.",
            ("mode",),
            registry=self.registry,
        )
        self.in_flight = Gauge("virt_dra_webhook_requests_in_flight", "Requests being answered.", registry=self.registry)
        self.connections = Gauge("virt_dra_webhook_connections", "Open connections.", registry=self.registry)
        self.refused_connections = Counter(
            "virt_dra_webhook_refused_connections",
            "Connections closed before a request: too many, or too slow in asking.",
            ("reason",),
            registry=self.registry,
        )
        self.ready = Gauge("virt_dra_webhook_ready", "Whether /readyz answers ok.", registry=self.registry)
        self.certificate_expiry = Gauge(
            "virt_dra_webhook_certificate_expiry_timestamp_seconds", "When the served certificate expires.", registry=self.registry
        )
        self.certificate_reloads = Counter(
            "virt_dra_webhook_certificate_reloads",
            "Certificates taken into service (result=loaded), and those that could not be (result=failed).",
            ("result",),
            registry=self.registry,
        )
        self.evaluations = Counter(
            "virt_dra_webhook_selector_evaluations",
            "Reviews whose selectors had to be evaluated, by outcome: answered, or not checked because killed (took too long), "
            "evicted (others waited), stopped (too much work), refused (the namespace has used up its share), late (waited too long), "
            "failed (no worker).",
            ("outcome",),
            registry=self.registry,
        )
        self.evaluation_seconds = Histogram(
            "virt_dra_webhook_selector_evaluation_duration_seconds",
            "Time that a review waited for its selectors, evaluation included.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.evaluating = Gauge(
            "virt_dra_webhook_selector_evaluations_in_flight",
            "Reviews whose selectors are evaluated, by state: fast, slow, waiting.",
            ("state",),
            registry=self.registry,
        )
        self.workers = Counter(
            "virt_dra_webhook_worker_starts",
            "Processes for evaluating selectors that were started; more than one means that one ended.",
            registry=self.registry,
        )
        self.cached = Gauge(
            "virt_dra_webhook_cached_objects", "Objects known of a live cluster, by kind.", ("kind",), registry=self.registry
        )
        self.cache_age = Gauge(
            "virt_dra_webhook_cache_age_seconds",
            "Time since the API server last said anything about a kind; more than a few minutes means that it isn't heard any more.",
            ("kind",),
            registry=self.registry,
        )

    # --- what the worker reports (webhooks.worker.parent.WorkerObserver) ---

    def asked(self, outcome: str, seconds: float) -> None:
        self.evaluations.labels(outcome).inc()
        self.evaluation_seconds.observe(seconds)

    def started(self) -> None:
        self.workers.inc()

    def state(self, fast: int, slow: int, waiting: int) -> None:
        for name, value in (("fast", fast), ("slow", slow), ("waiting", waiting)):
            self.evaluating.labels(name).set(value)

    def exposition(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)
