"""The report server's Prometheus metrics. Labels have few values, none of which a viewer can choose."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0)
_JUDGED: Final = (
    "Tokens that were reviewed, by outcome: allowed, forbidden (a right to list is missing), unknown (not valid), "
    "limited (too many failed attempts), unanswered (the API server didn't say)."
)


class ReportMetrics:
    """The metrics of one server, in a registry of its own if none is given."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=self.registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, registry=self.registry)

        self.answers = counter("virt_dra_report_answers", "Answers to viewers, by HTTP status code.", "code")
        self.judgements = counter("virt_dra_report_judgements", _JUDGED, "outcome")
        self.sessions = gauge("virt_dra_report_sessions", "Browsers that are signed in.")
        self.streams = gauge("virt_dra_report_streams", "Open streams of changes.")
        self.connections = gauge("virt_dra_report_connections", "Open connections.")
        refused = "Connections closed before a request: too many, or too slow."
        self.refused_connections = counter("virt_dra_report_refused_connections", refused, "reason")
        starts = "Started processes that render; more than one means that one ended."
        self.processes = counter("virt_dra_report_process_starts", starts)
        self.rendering = Histogram(
            "virt_dra_report_rendering_seconds", "Time of making the page.", buckets=_SECONDS, registry=self.registry
        )  # fmt: skip
        self.stale = gauge("virt_dra_report_stale", "1 while the page isn't kept up to date.")
        self.changed = gauge("virt_dra_report_content_changed_timestamp_seconds", "When the content last changed.")
        expiry = "virt_dra_report_certificate_expiry_timestamp_seconds"
        self.certificate_expiry = gauge(expiry, "When the served certificate expires.")

    # --- GateObserver, RenderingObserver ---

    def judged(self, outcome: str) -> None:
        self.judgements.labels(outcome).inc()

    def process_started(self) -> None:
        self.processes.inc()

    def rendered(self, seconds: float) -> None:
        self.rendering.observe(seconds)

    def text(self) -> bytes:
        """The metrics as Prometheus reads them."""
        return generate_latest(self.registry)
