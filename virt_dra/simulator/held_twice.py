"""Devices that are allocated to several claims of a dump: two VMs share a device, or two dumps were mixed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict

from virt_dra.api.resource_v1 import ResourceClaim


class HeldTwiceJson(TypedDict):
    """A device that is allocated to several claims."""

    device: str
    """driver/pool/device"""
    claims: list[str]
    """namespace/name"""


@dataclass(frozen=True)
class HeldTwice:
    """A device (``driver/pool/device``) and the claims (``namespace/name``) to which it is allocated."""

    device: str
    claims: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"device {self.device} is allocated to several claims: ResourceClaims {' and '.join(self.claims)}. "
            "No scheduler does that; keep the claim whose pod really uses the "
            "device, and delete the others with their pods"
        )

    def to_json(self) -> HeldTwiceJson:
        return {"device": self.device, "claims": list(self.claims)}


def held_twice(claims: Iterable[ResourceClaim]) -> tuple[HeldTwice, ...]:
    """The devices held twice, by first claim. Different shares and admin access (A-3.3) are no conflict."""
    holders: dict[tuple[str, str, str], dict[str, set[str | None]]] = defaultdict(dict)
    for claim in claims:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation is not None else ():
            if not result.admin_access:
                held = holders[result.driver, result.pool, result.device].setdefault(claim.key, set())
                held.add(result.share_id)
    return tuple(
        HeldTwice("/".join(device), tuple(held))
        for device, held in holders.items()
        if len(held) > 1 and _collide(held.values())
    )


def _collide(shares: Iterable[set[str | None]]) -> bool:
    """True if two claims have the same share, or one of them has the whole device."""
    seen: set[str | None] = set()
    for of_claim in shares:
        if None in of_claim or of_claim & seen:
            return True
        seen |= of_claim
    return False
