"""A device that is allocated, here or elsewhere, can't be allocated again (A-11, with AC-1 and AC-7), unless it can be
shared.

Existing allocations: exclusive allocations of the snapshot, and shares of a device that can't be shared (any more).
Choices of this attempt: devices taken by normal requests block every normal request; devices of admin requests block
admin requests of the same claim. Shared devices (capacity.py) are never taken: what is left of them decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Protocol

from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import (
    Availability,
    PoolDevice,
    RejectingFeature,
    Rejection,
    Request,
    SymmetryKey,
    Take,
    Upcoming,
)
from virt_dra.allocator.usage import Used

IN_USE = "DeviceInUse"
"""Allocated to some claim already."""
TAKEN = "DeviceTaken"
"""Chosen in this attempt for another request."""


class Selectors(RejectingFeature, Protocol):
    """The selectors of the requests, which explain their refusals."""

    def matches(self, request: Request, device: PoolDevice) -> bool | None:
        """True if the selectors match the device; None if they fail."""


class InUse(Availability):
    """Filter and check in one: the filter is the cheap first test of the search, the check keeps the marks."""

    def __init__(self, used: Used, features: Features, selectors: Selectors) -> None:
        """``selectors`` only explain refusals: a device that they don't match is no help when it is free."""
        self._used = used
        self._sharing = features.consumable_capacity
        self._selectors = selectors
        self._taken: dict[PoolDevice, Request] = {}
        self._of_claim: dict[tuple[int, PoolDevice], Request] = {}

    def admits(self, request: Request, device: PoolDevice) -> bool:
        if request.admin_access:
            return (request.claim_index, device) not in self._of_claim
        return device not in self._taken and not self._allocated(device)

    def _allocated(self, device: PoolDevice) -> bool:
        use = self._used.get(device.pool)
        if use is None:
            return False
        if device.id.device in use.exclusive:
            return True
        return device.id.device in use.shared and not self._sharable(device)

    def _sharable(self, device: PoolDevice) -> bool:
        return self._sharing and bool(device.published.allow_multiple_allocations)

    def symmetry_key(self, request: Request, device: PoolDevice) -> SymmetryKey:
        return None if not request.admin_access and self._allocated(device) else True

    def reuse_key(self, request: Request, device: PoolDevice) -> Hashable:
        return bool(device.published.allow_multiple_allocations)

    def add(self, request: Request, device: PoolDevice) -> bool:
        if not self.admits(request, device):
            return False
        if self._sharable(device):
            return True
        if not request.admin_access:
            self._taken[device] = request
            # An admin request of this claim may hold the same device: the mark below must not replace its mark.
            self._of_claim.setdefault((request.claim_index, device), request)
        else:
            self._of_claim[request.claim_index, device] = request
        return True

    def remove(self, request: Request, device: PoolDevice) -> None:
        if self._sharable(device):
            return
        if not request.admin_access:
            del self._taken[device]
        if self._of_claim.get((request.claim_index, device)) is request:
            del self._of_claim[request.claim_index, device]

    def state(self, upcoming: Upcoming) -> Hashable:
        claims = {request.claim_index for request in upcoming.requests if request.admin_access}
        marks: dict[PoolDevice, set[int]] = {device: set() for device in self._taken}
        for claim, device in self._of_claim if claims else ():
            if claim in claims:
                marks.setdefault(device, set()).add(claim)
        held = Counter(
            (key, device in self._taken, frozenset(of))
            for device, of in marks.items()
            if (key := upcoming.symmetry(device)) is not None
        )
        return frozenset(held.items()) or None

    def takes(self, request: Request, device: PoolDevice) -> Sequence[Take]:
        """The device, as far as all normal requests, or the admin requests of its claim, are concerned."""
        if self._sharable(device):
            return ()
        return (Take(("admin", request.claim_index) if request.admin_access else "device", device, 1, 1),)

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        if self._selectors.matches(request, device) is False:
            return self._selectors.explain(request, device)
        holder = self._of_claim.get((request.claim_index, device)) if request.admin_access else self._taken.get(device)
        if holder is not None:
            detail = f"already chosen for claim {holder.claim.key}, request {holder.full_name}"
            return Rejection(TAKEN, "too few devices", device.id, detail)
        use = self._used[device.pool]
        detail = (
            "allocated to another claim"
            if device.id.device in use.exclusive
            else "shares of it are allocated to other claims"
        )
        return Rejection(IN_USE, "device in use", device.id, detail)
