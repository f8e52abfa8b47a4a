"""The driver's Prometheus metrics (D-66). Labels have few values, none of which a user can choose."""

from __future__ import annotations

import time
from collections import Counter as Counts
from collections.abc import Callable
from typing import Final

from node_driver.conditions import ConditionReason, Evaluation
from node_driver.devices import DeviceKind
from node_driver.exposition import Metric
from node_driver.host.changes import HostProperty
from node_driver.wire.service import ClaimName, ClaimService, FailedClaim, ReadyClaim, ReleasedClaim

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0)


class DriverMetrics:
    """It is the observer of publishing."""

    def __init__(self) -> None:
        self.prepare_seconds = Metric(
            "histogram", "virt_dra_driver_prepare_seconds", "Time to prepare a claim, by result (ready, failed).",
            ("result",), _SECONDS,
        )  # fmt: skip
        self.unprepare_seconds = Metric(
            "histogram", "virt_dra_driver_unprepare_seconds",
            "Time to release a call's claims, by result (released, failed).", ("result",), _SECONDS,
        )  # fmt: skip
        devices = "Published devices, by kind and state (free, claimed)."
        self._devices = Metric("gauge", "virt_dra_driver_devices", devices, ("kind", "state"))
        conditions = "Devices with a condition, by reason."
        self._conditions = Metric("gauge", "virt_dra_driver_tainted_devices", conditions, ("reason",))
        excluded = "Devices of the node that aren't published."
        self._excluded = Metric("gauge", "virt_dra_driver_excluded_devices", excluded)
        hung = "Changes of the host that the kernel didn't finish in time."
        self._hung = Metric("counter", "virt_dra_driver_hung_writes", hung, ("property",))
        self._checkpoints = Metric("counter", "virt_dra_driver_checkpoint_writes", "Writes of the checkpoint.")
        slices = "Writes of ResourceSlices, by verb."
        self._slices = Metric("counter", "virt_dra_driver_slice_writes", slices, ("verb",))
        failures = "Attempts to publish that failed, by the API server's reason."
        self._publishing_failures = Metric("counter", "virt_dra_driver_publishing_failures", failures, ("reason",))
        self.all = (
            self.prepare_seconds, self.unprepare_seconds, self._devices, self._conditions, self._excluded, self._hung,
            self._checkpoints, self._slices, self._publishing_failures,
        )  # fmt: skip

    def wrote(self, verb: str) -> None:
        self._slices.add(verb)

    def failed(self, reason: str) -> None:
        self._publishing_failures.add(reason)

    def checkpoint_written(self) -> None:
        self._checkpoints.add()

    def hung(self, host_property: HostProperty) -> None:
        self._hung.add(host_property.value)

    def evaluated(self, evaluation: Evaluation, claimed: frozenset[str]) -> None:
        """``claimed``: names of the devices that claims have."""
        devices = Counts(
            (device.kind, "claimed" if device.name in claimed else "free") for device in evaluation.published.devices
        )
        for kind in DeviceKind:
            for state in ("free", "claimed"):
                self._devices.set(devices[kind, state], kind.value, state)
        tainted = Counts(condition.reason for condition in evaluation.conditions)
        for reason in ConditionReason:
            self._conditions.set(tainted[reason], reason.value)
        self._excluded.set(len(evaluation.published.excluded))


class MeasuredClaims:
    """A :class:`ClaimService` whose calls are timed."""

    def __init__(self, claims: ClaimService, metrics: DriverMetrics, after: Callable[[], None]) -> None:
        """``after`` is called after each call: what claims have may have changed."""
        self._claims, self._metrics, self._after = claims, metrics, after

    async def prepare(self, name: ClaimName) -> ReadyClaim | FailedClaim:
        began = time.monotonic()
        answer = await self._claims.prepare(name)
        self._observe(self._metrics.prepare_seconds, "ready", answer, began)
        return answer

    async def unprepare(self, name: ClaimName) -> ReleasedClaim | FailedClaim:
        began = time.monotonic()
        answer = await self._claims.unprepare(name)
        self._observe(self._metrics.unprepare_seconds, "released", answer, began)
        return answer

    def _observe(self, seconds: Metric, good: str, answer: object, began: float) -> None:
        seconds.observe(time.monotonic() - began, "failed" if isinstance(answer, FailedClaim) else good)
        self._after()
