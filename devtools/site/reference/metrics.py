"""Every Prometheus metric of the processes that there are, read from what they serve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from devtools.site.markdown import code, escaped, table
from node_driver.exposition import exposition
from node_driver.metrics import DriverMetrics
from virt_dra.extender.metrics import ExtenderMetrics
from virt_dra.operator.keeper_metrics import KeeperMetrics
from virt_dra.operator.metrics import OperatorMetrics
from virt_dra.report_server.metrics import ReportMetrics
from webhooks.server.metrics import Metrics

_INTRODUCTION: Final = """\
# Metrics

Made of what the processes serve. Each process serves them without TLS at `/metrics` of its plain port. A histogram
also has `_bucket`, `_sum` and `_count`. No label has a value that a user can choose. [Alerts and a
dashboard](../docs/guides/monitoring.md) use them.
"""


@dataclass(frozen=True)
class MetricRow:
    """``name``: as Prometheus stores it (a counter's ends in ``_total``)."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


class _Registry(CollectorRegistry):
    """Keeps its collectors in the order in which they were registered."""

    def __init__(self) -> None:
        super().__init__()
        self.collectors: list[Collector] = []

    def register(self, collector: Collector) -> None:
        self.collectors.append(collector)
        super().register(collector)


class _NothingYet:
    """A source of gauges with one value of each label, so that their labels can be seen."""

    def _one(self) -> dict[str, float]:
        return {"": 0.0}

    devices_by_state = vmis_by_path = informer_ages = unused_device_seconds = _one

    def kept_devices(self) -> dict[tuple[str, str], float]:
        return {("", ""): 0.0}


def _operator(registry: CollectorRegistry) -> None:
    OperatorMetrics(registry).count(_NothingYet())


def _keeper(registry: CollectorRegistry) -> None:
    KeeperMetrics(registry).count(_NothingYet())


_REGISTERED: Final[Mapping[str, Callable[[CollectorRegistry], object]]] = MappingProxyType(
    {
        "webhook": Metrics,
        "operator": _operator,
        "keeper": _keeper,
        "extender": ExtenderMetrics,
        "report server": ReportMetrics,
    }
)
"""What registers a process' metrics. The node driver has no registry (node_driver/exposition.py)."""

PROCESSES: Final = ("webhook", "operator", "keeper", "node driver", "extender", "report server")
"""Those with metrics."""


def metric_rows(process: str) -> Iterator[MetricRow]:
    """The metrics of a process in the order of their registration."""
    if process not in _REGISTERED:
        for metric in DriverMetrics().all:
            yield MetricRow(metric.name, metric.kind, metric.labels, metric.text)
        return
    registry = _Registry()
    _REGISTERED[process](registry)
    for collector in registry.collectors:
        for family in collector.collect():
            labels = tuple(dict.fromkeys(name for sample in family.samples for name in sample.labels if name != "le"))
            # A metric with labels has no samples before its first value; the client offers no other way to ask for its
            # labels.
            declared = collector._labelnames if isinstance(collector, MetricWrapperBase) else labels
            name = f"{family.name}_total" if family.type == "counter" else family.name
            yield MetricRow(name, family.type, tuple(declared), family.documentation)


def served_metrics(process: str) -> bytes:
    """What a process that has just begun serves."""
    if process not in _REGISTERED:
        return exposition(DriverMetrics().all)
    registry = CollectorRegistry()
    _REGISTERED[process](registry)
    return generate_latest(registry)


def metrics_page() -> str:
    parts = [_INTRODUCTION]
    for process in PROCESSES:
        rows = (
            (code(row.name), row.kind, ", ".join(map(code, row.labels)), escaped(row.help))
            for row in metric_rows(process)
        )
        parts += [f"## {process.capitalize()}\n", table(("metric", "type", "labels", "meaning"), rows)]
    return "\n".join(parts)
