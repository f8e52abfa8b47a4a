"""The phases of a launcher as others see them, and the steps by which a guest is shut down. Pure: time is an
argument."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, StrEnum

from lxml import etree

from launcher.conversion import ConvertedDevice


class Phase(StrEnum):
    """What the launcher does now."""

    WAITING = "Waiting"
    RUNNING = "Running"
    DAEMON_GONE = "DaemonGone"
    SHUTTING_DOWN = "ShuttingDown"
    ENDED = "Ended"
    FAILED = "Failed"


class ShutdownStep(Enum):
    """A way to make a guest end, mildest first."""

    REQUEST = "request"
    BUTTON = "button"
    DESTROY = "destroy"


def shutdown_step(elapsed: float, grace: float, taken: ShutdownStep | None) -> ShutdownStep | None:
    """The step that is due ``elapsed`` seconds after a stop was asked for; None while the last one that was ``taken``
    has time. An agent may hang, and a guest that boots misses a request: at half time the power button is pressed."""
    if elapsed >= grace:
        return ShutdownStep.DESTROY
    if taken is None:
        return ShutdownStep.REQUEST
    return ShutdownStep.BUTTON if taken is ShutdownStep.REQUEST and elapsed >= grace / 2 else None


@dataclass(frozen=True)
class DevicePlace:
    """A device of the running domain. ``guest``: its PCI address there, "" without one."""

    device: str
    host: str
    guest: str


@dataclass(frozen=True)
class LauncherStatus:
    """The phase, since when, why, and where the devices are."""

    phase: Phase
    since: datetime
    reason: str = ""
    devices: tuple[DevicePlace, ...] = ()

    def to_json(self) -> str:
        since = self.since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        devices = [{"device": place.device, "host": place.host, "guest": place.guest} for place in self.devices]
        return json.dumps({"phase": self.phase, "since": since, "reason": self.reason, "devices": devices}) + "\n"


def device_places(devices: Sequence[ConvertedDevice], live_xml: str) -> tuple[DevicePlace, ...]:
    """The places that libvirt gave to the devices, by their order in the domain: libvirt keeps it, and may drop an
    alias (K-7.17)."""
    hostdevs = etree.fromstring(live_xml).findall("devices/hostdev")
    return tuple(
        DevicePlace(device.device, str(device.address), _guest_address(hostdev.find("address")))
        for device, hostdev in zip(devices, hostdevs, strict=False)
    )


def _guest_address(address: etree._Element | None) -> str:
    if address is None or address.get("type") != "pci":
        return ""
    domain, bus, slot, function = (int(address.get(part, "0"), 16) for part in ("domain", "bus", "slot", "function"))
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"
