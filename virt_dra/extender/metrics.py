"""The extender's Prometheus metrics. Labels have few values, none of which a user can choose."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
ANSWERS: Final = "virt_dra_extender_answers"
"""The counter that shows whether kube-scheduler asks."""
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class ExtenderMetrics:
    """The metrics of one extender, in a registry of its own if none is given."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._registry = CollectorRegistry() if registry is None else registry
        verdicts = "Answers to kube-scheduler, by verb and what became of the request; only those that are scored "
        verdicts += "prefer a node."
        self.answers = Counter(ANSWERS, verdicts, ("verb", "verdict"), registry=self._registry)
        by_policy = "Answers that prefer a node, by policy."
        self.scored = Counter("virt_dra_extender_scored", by_policy, ("policy",), registry=self._registry)
        self.seconds = Histogram(
            "virt_dra_extender_answer_seconds",
            "Time of an answer, by verb.",
            ("verb",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        knows = "Whether the extender knows the cluster."
        self.ready = Gauge("virt_dra_extender_ready", knows, registry=self._registry)
        starts = "Started processes that advise; more than one means that one ended."
        self.processes = Counter("virt_dra_extender_process_starts", starts, registry=self._registry)

    # --- SandboxObserver ---

    def process_started(self) -> None:
        self.processes.inc()

    def text(self) -> bytes:
        """The metrics as Prometheus reads them."""
        return generate_latest(self._registry)
