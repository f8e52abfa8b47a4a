"""The node's hardware as it was read last, and what of it has to be read again (D-42)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from node_driver.hardware.inventory import Hardware
from node_driver.state.records import ClaimRecord


class HardwareReader(Protocol):
    """What isn't readable raises :class:`OSError`."""

    async def read(self) -> Hardware:
        """The node as it is now."""

    async def read_again(self, earlier: Hardware, touched: frozenset[str]) -> Hardware:
        """The node as it is now, where only ``touched``, addresses and UUIDs, changed since it was read ``earlier``."""


class LastReading:
    """The hardware as it was read last, and the claims as they were just before that. Whatever those have changed
    since isn't shown by the hardware."""

    def __init__(self, reader: HardwareReader) -> None:
        self._reader = reader
        self.hardware = Hardware()
        self.claims: Mapping[str, ClaimRecord] = {}
        self._reported: frozenset[str] | None = None
        """Addresses and UUIDs that may have changed since; None: anything may have."""

    def report(self, names: frozenset[str] | None) -> None:
        """These, addresses and UUIDs, may have changed; None: anything may have."""
        self._reported = None if names is None or self._reported is None else self._reported | names

    async def renew(self, claims: Mapping[str, ClaimRecord] | None) -> None:
        """Reads what was reported and what claims have touched since, and no more: after a claim these are its devices
        alone. ``claims``: as the checkpoint has them now, None if nobody knows. Raises :class:`OSError`: while a device
        goes, its files fail; what was read before stays then, and all is read the next time."""
        reported, self._reported = self._reported, frozenset()
        try:
            if reported is None or claims is None:
                hardware = await self._reader.read()
            else:
                touched = reported | touched_by_claims(self.claims, claims)
                hardware = await self._reader.read_again(self.hardware, touched)
        except OSError:
            self.report(None)
            raise
        self.hardware, self.claims = hardware, claims or {}


def touched_by_claims(earlier: Mapping[str, ClaimRecord], now: Mapping[str, ClaimRecord]) -> frozenset[str]:
    """The addresses and UUIDs of devices whose claims are others now: whatever a claim changes of the node, its record
    says before and after."""
    names: set[str] = set()
    for uid in earlier.keys() | now.keys():
        before, after = earlier.get(uid), now.get(uid)
        if before is not after and before != after:  # most are the same objects
            for record in filter(None, (before, after)):
                names |= record.held_names | record.parents | {change.target for change in record.changes}
    return frozenset(names)
