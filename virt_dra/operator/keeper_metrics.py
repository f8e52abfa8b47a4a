"""The keeper's Prometheus metrics."""

from __future__ import annotations

from typing import Protocol

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily

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
        # By namespace, which is an administrator's choice: who pays for what is kept and unused.
        devices = "Devices of claims that VMs keep, by namespace and state (in_use, unused)."
        labels = ("namespace", "state")
        self._registry.register(ScrapedGauge("virt_dra_keeper_devices", devices, labels, counted.kept_devices))
        # Every replica counts, so that a change of the leader loses nothing.
        seconds = "Seconds for which stopped VMs kept devices, times the number of devices, by namespace."
        name, unused = "virt_dra_keeper_unused_device_seconds", counted.unused_device_seconds
        self._registry.register(ScrapedGauge(name, seconds, ("namespace",), unused, CounterMetricFamily))
        self._count_ages(counted.informer_ages)

    def released(self, reason: str) -> None:
        self._releases.labels(reason).inc()
