"""KEP-4816: alternatives in order of preference (`firstAvailable`): one request, several sets of slots. Off: a request
with alternatives is refused (E1)."""

from __future__ import annotations

from dataclasses import dataclass

from virt_dra.allocator.errors import FatalError
from virt_dra.allocator.gates import Features
from virt_dra.api.resource_v1 import DeviceRequest, DeviceSubRequest, ExactDeviceRequest, ResourceClaim

PREFERENCE_SCORE_MAX = 8
"""Alternatives a request may have; the first choice scores this many points (C-5.8)."""


def is_prioritized(claim: ResourceClaim, entry: DeviceRequest, features: Features) -> bool:
    """True if the request lists alternatives. Raises :class:`FatalError` if it may not (A-6.1)."""
    if entry.first_available and not features.prioritized_list:
        raise FatalError(
            f"claim {claim.key}, request {entry.name}: has subrequests, but the DRAPrioritizedList feature is disabled"
        )
    return bool(entry.first_available)


@dataclass(frozen=True, slots=True)
class Alternative:
    """One alternative, or an exact request. ``parent``: the request that lists it, None for an exact request."""

    name: str
    parent: str | None
    wanted: ExactDeviceRequest | DeviceSubRequest


def alternatives(claim: ResourceClaim, entry: DeviceRequest) -> tuple[Alternative, ...]:
    """The alternatives in order of preference. Raises :class:`FatalError` for a request of neither form (AC-12)."""
    if entry.first_available:
        return tuple(Alternative(wanted.name, entry.name, wanted) for wanted in entry.first_available)
    if entry.exactly is None:
        raise FatalError(f"claim {claim.key}, request {entry.name}: unknown request type")
    return (Alternative(entry.name, None, entry.exactly),)
