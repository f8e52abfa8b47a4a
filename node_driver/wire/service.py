"""The ports between the kubelet's protocol and the driver."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ClaimName:
    """A claim as the kubelet names it; its contents are the API server's (D-14)."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class HandedDevice:
    """A device of a prepared claim (D-9, D-12, D-13). ``requests``: without subrequests; the first CDI id is the
    device's own."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_ids: tuple[str, ...]
    share_id: str = ""


@dataclass(frozen=True, slots=True)
class ReadyClaim:
    devices: tuple[HandedDevice, ...]


@dataclass(frozen=True, slots=True)
class ReleasedClaim:
    """Nothing of the claim is left on the node."""


@dataclass(frozen=True, slots=True)
class FailedClaim:
    """``message`` reaches the pod's Event: it says what is wrong and what to do (D-20)."""

    message: str


class ClaimService(Protocol):
    """Both may be repeated (D-17)."""

    async def prepare(self, name: ClaimName) -> ReadyClaim | FailedClaim: ...

    async def unprepare(self, name: ClaimName) -> ReleasedClaim | FailedClaim: ...


class Health(Enum):
    """With the numbers of the wire (D-37)."""

    UNKNOWN = 0
    HEALTHY = 1
    UNHEALTHY = 2


@dataclass(frozen=True, slots=True)
class HealthReport:
    """``updated``: seconds since the epoch."""

    pool: str
    device: str
    health: Health
    updated: int
    message: str = ""


class HealthSource(Protocol):
    def reports(self) -> tuple[HealthReport, ...]:
        """All devices, as they are now."""

    async def changed(self) -> None:
        """Returns when a report may differ from the last that :meth:`reports` gave."""
