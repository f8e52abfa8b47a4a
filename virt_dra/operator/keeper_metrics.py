"""The keeper's Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from virt_dra.operator.metrics import Counts, ProcessMetrics, ScrapedGauge


class KeptDevicesSource(Protocol):
    """The source of the keeper's gauges that are computed at each scrape."""

    def kept_devices(self) -> dict[tuple[str, str], float]: ...
    def unused_device_seconds(self) -> dict[str, float]: ...
    def informer_ages(self) -> Counts: ...


class KeeperMetrics(ProcessMetrics):
    """The keeper's."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        super().__init__(registry, prefix="virt_dra_keeper", subject="VM")
        releases = "Claims of VMs that were released, by reason."
        self._releases = Counter("virt_dra_keeper_releases", releases, ("reason",), registry=self._registry)

    def count(self, counted: KeptDevicesSource) -> None:
        """Register the gauges that are computed at each scrape."""
        self._registry.register(_KeptDevices(counted))
        self._registry.register(_UnusedSeconds(counted))
        age = "Time since the API server's last answer or watch event for a kind."
        self._registry.register(
            ScrapedGauge("virt_dra_keeper_informer_age_seconds", age, "kind", counted.informer_ages)
        )

    def released(self, reason: str) -> None:
        self._releases.labels(reason).inc()


class _KeptDevices(Collector):
    """By namespace, which is an administrator's choice: who pays for what is kept and unused."""

    def __init__(self, counted: KeptDevicesSource) -> None:
        self._counted = counted

    def collect(self) -> Iterator[GaugeMetricFamily]:
        (family,) = self.describe()
        for labels, count in sorted(self._counted.kept_devices().items()):
            family.add_metric(labels, count)
        yield family

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Without it the registry would count once at registration."""
        text = "Devices of claims that VMs keep, by namespace and state (in_use, unused)."
        yield GaugeMetricFamily("virt_dra_keeper_devices", text, labels=["namespace", "state"])


class _UnusedSeconds(Collector):
    """What keeping cost each namespace. Every replica counts, so that a change of the leader loses nothing."""

    def __init__(self, counted: KeptDevicesSource) -> None:
        self._counted = counted

    def collect(self) -> Iterator[CounterMetricFamily]:
        (family,) = self.describe()
        for namespace, seconds in sorted(self._counted.unused_device_seconds().items()):
            family.add_metric([namespace], seconds)
        yield family

    def describe(self) -> Iterator[CounterMetricFamily]:
        """Without it the registry would count once at registration."""
        text = "Seconds for which stopped VMs kept devices, times the number of devices, by namespace."
        yield CounterMetricFamily("virt_dra_keeper_unused_device_seconds", text, labels=["namespace"])
