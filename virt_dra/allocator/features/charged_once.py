"""A-12.4, for counters and compatibility groups: a shared device is charged with its first share, and never again. The
record is exact because checks are undone in reverse order."""

from __future__ import annotations

from collections.abc import Iterable

from virt_dra.allocator.model import PoolDevice
from virt_dra.allocator.usage import Used


class ChargedOnce:
    """The sharable devices that are charged already. Admin requests aren't counted: they share nothing (AC-6)."""

    def __init__(self, used: Used) -> None:
        self._used = used
        self._shares: dict[PoolDevice, int] = {}

    def before(self, device: PoolDevice) -> bool:
        """True if a share of it was allocated before this attempt, with or without capacity: the account has its
        charge."""
        use = self._used.get(device.pool)
        return use is not None and device.id.device in use.shared

    def join(self, device: PoolDevice) -> bool:
        """Take a share of a device that is charged. False, and nothing taken, where this would be the first share."""
        if self.before(device):
            return True
        shares = self._shares.get(device, 0)
        if shares:
            self._shares[device] = shares + 1
        return shares > 0

    def begin(self, device: PoolDevice) -> None:
        """Take the first share of a device that was charged just now."""
        self._shares[device] = 1

    def leave(self, device: PoolDevice) -> bool:
        """Give the last share taken back. False where it was the first: then its charge is to be taken back too."""
        if self.before(device):
            return True
        shares = self._shares.pop(device) - 1
        if shares:
            self._shares[device] = shares
        return shares > 0

    def __contains__(self, device: PoolDevice) -> bool:
        """True if a share was taken in this attempt."""
        return device in self._shares

    @property
    def devices(self) -> Iterable[PoolDevice]:
        """Those of which a share was taken in this attempt, and none before."""
        return self._shares
