"""Claim services and a health source for tests of the wire."""

from __future__ import annotations

import asyncio

from node_driver.wire.service import (
    ClaimName,
    FailedClaim,
    HandedDevice,
    Health,
    HealthReport,
    ReadyClaim,
    ReleasedClaim,
)


class OneDeviceEach:
    """Prepares one device for each claim, named as the claim. ``calls``: what was asked for. Claims named in
    ``failures`` fail, those in ``crashes`` raise, those in ``held`` wait for the event."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failures: dict[str, str] = {}
        self.crashes: dict[str, Exception] = {}
        self.held: dict[str, asyncio.Event] = {}

    async def prepare(self, claim: ClaimName) -> ReadyClaim | FailedClaim:
        failure = await self._work("prepare", claim)
        cdi = f"passthrough.virt-dra.io/device={claim.uid}-{claim.name}"
        return failure or ReadyClaim((HandedDevice(("gpu",), "node-a", claim.name, (cdi,)),))

    async def unprepare(self, claim: ClaimName) -> ReleasedClaim | FailedClaim:
        return await self._work("unprepare", claim) or ReleasedClaim()

    async def _work(self, call: str, claim: ClaimName) -> FailedClaim | None:
        self.calls.append(f"{call} {claim.name}")
        if claim.name in self.held:
            await self.held[claim.name].wait()
        if claim.name in self.crashes:
            raise self.crashes[claim.name]
        failure = self.failures.get(claim.name)
        return FailedClaim(failure) if failure else None


class SettableHealth:
    """:class:`~node_driver.wire.service.HealthSource` whose reports a test sets."""

    def __init__(self, *reports: HealthReport) -> None:
        self._reports = reports
        self._changed = asyncio.Event()

    def reports(self) -> tuple[HealthReport, ...]:
        return self._reports

    async def changed(self) -> None:
        await self._changed.wait()

    def set(self, *reports: HealthReport) -> None:
        self._reports = reports
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def report(device: str, health: Health = Health.HEALTHY, message: str = "") -> HealthReport:
    return HealthReport("node-a", device, health, 1_790_000_000, message)
