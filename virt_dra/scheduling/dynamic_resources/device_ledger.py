"""The devices in use: of allocated claims and allocations in flight, in one snapshot (C-4.2 to C-4.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from virt_dra.allocator import Snapshot
from virt_dra.api.resource_v1 import AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice


@dataclass(frozen=True)
class Published:
    """What a snapshot is built from besides claims. Rules: none where DRADeviceTaintRules is off."""

    slices: Iterable[ResourceSlice]
    classes: Iterable[DeviceClass]
    rules: Iterable[DeviceTaintRule] = ()


@dataclass
class _InFlight:
    allocation: AllocationResult
    sharers: int


class DeviceLedger:
    """The devices in use, as a snapshot. Rebuilt after :meth:`republished`. A claim counts once, stored or in
    flight."""

    def __init__(self, published: Callable[[], Published]) -> None:
        self._published = published
        self._stored: dict[str, AllocationResult] = {}
        """Allocations in the status of claims, by the claim's UID; so are the following."""
        self._in_flight: dict[str, _InFlight] = {}
        self._counted: dict[str, AllocationResult] = {}
        """What :attr:`_snapshot` has."""
        self._snapshot: Snapshot | None = None

    @classmethod
    def holding(cls, snapshot: Snapshot) -> DeviceLedger:
        """A ledger that begins with the devices in use of a snapshot, and whose slices don't change."""
        ledger = cls(lambda: Published(snapshot.slices, snapshot.classes.values()))
        ledger._snapshot = snapshot
        return ledger

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot for the attempts from now on, until the next change."""
        if self._snapshot is None:
            published = self._published()
            empty = Snapshot.build(published.slices, published.classes, (), published.rules)
            self._snapshot = empty.with_allocation(*self._counted.values())
        return self._snapshot

    def republished(self) -> None:
        """Slices, classes or taint rules changed."""
        self._snapshot = None

    def claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """A claim changed in the cache of claims."""
        if new is not None and new.status.allocation is not None:
            self._stored[new.metadata.uid] = new.status.allocation
            self._count(new.metadata.uid)
        elif old is not None and self._stored.pop(old.metadata.uid, None) is not None:
            self._count(old.metadata.uid)

    def in_flight(self, uid: str) -> AllocationResult | None:
        """The allocation that is being written to a claim."""
        in_flight = self._in_flight.get(uid)
        return None if in_flight is None else in_flight.allocation

    def signal(self, uid: str, allocation: AllocationResult) -> None:
        """Reserve decided on this allocation; another pod of the same group may share it (C-4.3)."""
        in_flight = self._in_flight.get(uid)
        if in_flight is not None:
            in_flight.sharers += 1
            return
        self._in_flight[uid] = _InFlight(allocation, 1)
        self._count(uid)

    def rename(self, before: str, uid: str) -> None:
        """Replaces the provisional UID of a claim by the one that the API server gave it (C-7.6)."""
        in_flight = self._in_flight.pop(before, None)
        if in_flight is None:
            return
        self._in_flight[uid] = in_flight
        if uid not in self._counted and before in self._counted:
            self._counted[uid] = self._counted.pop(before)
        self._count(before)
        self._count(uid)

    def remove(self, uid: str, *, force: bool = False) -> bool:
        """Removes a pod's share in the allocation in flight; whether that was the last. ``force``: all shares."""
        in_flight = self._in_flight.get(uid)
        if in_flight is None:
            return False
        if not force and in_flight.sharers > 1:
            in_flight.sharers -= 1
            return False
        del self._in_flight[uid]
        self._count(uid)
        return True

    def _count(self, uid: str) -> None:
        """Bring the snapshot up to date for one claim."""
        wanted = self._stored.get(uid) or self.in_flight(uid)
        counted = self._counted.get(uid)
        if wanted is None:
            self._counted.pop(uid, None)
        else:
            self._counted[uid] = wanted
        if self._snapshot is None or (
            counted is not None and wanted is not None and counted.devices.results == wanted.devices.results
        ):
            return
        if counted is not None:
            self._snapshot = self._snapshot.without_allocation(counted)
        if wanted is not None:
            self._snapshot = self._snapshot.with_allocation(wanted)
