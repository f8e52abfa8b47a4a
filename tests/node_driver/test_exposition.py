"""The driver's text of metrics is what prometheus_client writes for the same operations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from node_driver.exposition import Metric, exposition
from node_driver.metrics import DriverMetrics

LIMITS = (0.005, 0.1, 1.0, 30.0)
VALUES = st.floats(min_value=0, max_value=100, allow_nan=False)
LABELS = st.text(st.characters(codec="utf-8"), max_size=5)
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(("counter", "gauge", "histogram", "plain")), LABELS, VALUES), max_size=30
)


@given(OPERATIONS)
def test_the_same_operations_give_the_same_text(operations: list[tuple[str, str, float]]) -> None:
    registry = CollectorRegistry()
    theirs = (
        Counter("c", "Counts a \\ thing.", ("label",), registry=registry),
        Gauge("g", "Is.", ("label",), registry=registry),
        Histogram("h", "Takes\ntime.", ("label",), buckets=LIMITS, registry=registry),
        Counter("p", "Plain.", registry=registry),
    )
    ours = (
        Metric("counter", "c", "Counts a \\ thing.", ("label",)),
        Metric("gauge", "g", "Is.", ("label",)),
        Metric("histogram", "h", "Takes\ntime.", ("label",), LIMITS),
        Metric("counter", "p", "Plain."),
    )
    for kind, label, value in operations:
        if kind == "counter":
            theirs[0].labels(label).inc()
            ours[0].add(label)
        elif kind == "gauge":
            theirs[1].labels(label).set(value)
            ours[1].set(value, label)
        elif kind == "histogram":
            theirs[2].labels(label).observe(value)
            ours[2].observe(value, label)
        else:
            theirs[3].inc()
            ours[3].add()
    assert exposition(ours).decode() == without_times(generate_latest(registry).decode())


def without_times(text: str) -> str:
    """Without the series of when each metric was made, which Prometheus only reads of its newer format."""
    return "\n".join(line for line in text.split("\n") if "_created" not in line.split("{")[0])


def test_a_value_needs_each_label() -> None:
    metric = Metric("gauge", "g", "Is.", ("a", "b"))
    metric.set(1.0, "x")
    with pytest.raises(ValueError, match="shorter"):
        exposition((metric,))


def test_prometheus_reads_the_drivers_metrics() -> None:
    metrics = DriverMetrics()
    metrics.prepare_seconds.observe(0.2, "ready")
    metrics.wrote("create")
    families = {family.name: family for family in text_string_to_metric_families(exposition(metrics.all).decode())}
    assert set(families) == {metric.name.removesuffix("_total") for metric in metrics.all}
    assert [sample.value for sample in families["virt_dra_driver_slice_writes"].samples] == [1.0]
    counts = [sample.value for sample in families["virt_dra_driver_prepare_seconds"].samples]
    assert counts == [*[0.0] * 5, *[1.0] * 9, 1.0, 0.2]
