"""The health of devices as a kubelet keeps it and shows it in a pod's status (C-16.10, KEP-4680). It evicts no pod and
changes no allocation. Pure: the clock is an argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from virt_dra.api.core_v1 import Container, ResourceHealth, ResourceStatus
from virt_dra.simulator.agents.claim_manager import PreparedDevice

HealthState = Literal["Healthy", "Unhealthy", "Unknown"]

DEFAULT_TIMEOUT: Final = timedelta(seconds=30)
"""After so long without a report a device's health is unknown, unless the driver said another time."""
MOST_DEVICES: Final = 16_384
"""Devices of one driver that are remembered: reports aren't checked against slices."""
LONGEST_MESSAGE: Final = 1024
"""Bytes; a longer message is cut to 1021 and an ellipsis."""

_DeviceName = tuple[str, str]
"""Pool and device."""


@dataclass(frozen=True)
class ReportedHealth:
    """What a driver reports about one device. ``timeout``: zero or less means the default."""

    pool: str
    device: str
    health: HealthState
    message: str = ""
    timeout: timedelta = timedelta(0)


@dataclass(frozen=True)
class _Known:
    health: HealthState
    message: str
    timeout: timedelta
    at: datetime

    def is_stale(self, now: datetime) -> bool:
        return now - self.at > self.timeout


UNKNOWN: Final[tuple[HealthState, str]] = ("Unknown", "")


class HealthReports:
    """The reports of all drivers of a node."""

    def __init__(self) -> None:
        self._drivers: dict[str, dict[_DeviceName, _Known]] = {}

    def report(self, driver: str, devices: Iterable[ReportedHealth], now: datetime) -> tuple[_DeviceName, ...]:
        """Take a driver's whole report. Returns the devices whose health changed. Devices that it leaves out keep
        theirs until it is stale, then they are forgotten. New ones beyond the limit are ignored."""
        of_driver = self._drivers.setdefault(driver, {})
        changed: list[_DeviceName] = []
        reported: set[_DeviceName] = set()
        for device in devices:
            name = device.pool, device.device
            reported.add(name)
            before = of_driver.get(name)
            if before is None and len(of_driver) >= MOST_DEVICES:
                continue
            timeout = device.timeout if device.timeout > timedelta(0) else DEFAULT_TIMEOUT
            after = _Known(device.health, shortened(device.message), timeout, now)
            if before is None or replace(before, at=now) != after:
                changed.append(name)
            of_driver[name] = after
        for name, left_out in tuple(of_driver.items()):
            if name not in reported and left_out.is_stale(now):
                del of_driver[name]
                if left_out.health != "Unknown":
                    changed.append(name)
        return tuple(changed)

    def stream_ended(self, driver: str) -> None:
        """Forget what the driver reported: its connection ended."""
        self._drivers.pop(driver, None)

    def of(self, driver: str, pool: str, device: str, now: datetime) -> tuple[HealthState, str]:
        """State and message of a device; unknown if it wasn't reported lately."""
        recorded = self._drivers.get(driver, {}).get((pool, device))
        return UNKNOWN if recorded is None or recorded.is_stale(now) else (recorded.health, recorded.message)


def shortened(message: str) -> str:
    raw = message.encode()
    return message if len(raw) <= LONGEST_MESSAGE else f"{raw[: LONGEST_MESSAGE - 3].decode(errors='ignore')}..."


def allocated_resources_status(
    container: Container,
    devices: Mapping[str, Iterable[PreparedDevice]],
    health: HealthReports,
    now: datetime,
    *,
    messages: bool = True,
) -> tuple[ResourceStatus, ...]:
    """``allocatedResourcesStatus`` of a regular container: an entry for each of its claims, or their requests.
    ``devices``: those prepared for the pod, by entry. ``messages``: gate ResourceHealthStatusMessage. The ID is the
    first CDI device ID, or ``driver/pool/device``."""
    statuses: dict[str, ResourceStatus] = {}
    for reference in container.resources.claims:
        name = f"claim:{reference.name}/{reference.request}" if reference.request else f"claim:{reference.name}"
        wanted = (reference.request or "").partition("/")[0]
        entries: dict[str, ResourceHealth] = {}
        for device in devices.get(reference.name, ()):
            if not wanted or device.base_request == wanted:
                identity = device.cdi_ids[0] if device.cdi_ids else f"{device.driver}/{device.pool}/{device.device}"
                state, message = health.of(device.driver, device.pool, device.device, now)
                entry = ResourceHealth(resource_id=identity, health=state)
                entries.setdefault(identity, entry.with_(message=message) if message and messages else entry)
        if entries:
            statuses[name] = ResourceStatus(name=name, resources=tuple(entries.values()))
    return tuple(statuses.values())
