"""Devices in use (A-3), per pool, and how allocations change them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from virt_dra.allocator.model import PoolId
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import AllocationResult


@dataclass(frozen=True)
class PoolUse:
    """The use of one pool (A-3.1), by device name. ``exclusive`` counts allocations: two claims may hold a device by
    mistake (C-22.10), and releasing one must not free it. ``shares`` are (device name, share id). ``consumed`` is the
    sum over a device's shares, per capacity name."""

    exclusive: Mapping[str, int] = field(default_factory=dict)
    shares: frozenset[tuple[str, str]] = frozenset()
    consumed: Mapping[str, Mapping[str, Quantity]] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not self.exclusive and not self.shares and not self.consumed

    @cached_property
    def shared(self) -> frozenset[str]:
        """Names of devices of which a share is allocated, or some capacity consumed (A-12.4)."""
        return frozenset([device for device, _ in self.shares]).union(self.consumed)

    @cached_property
    def devices(self) -> frozenset[str]:
        """Names of devices that are in use in any way (A-3.5)."""
        return self.shared.union(self.exclusive)


NOTHING_USED = PoolUse()

Used = Mapping[PoolId, PoolUse]
"""The use of all pools of a cluster; pools that aren't there are free."""


class DeviceUse(NamedTuple):
    """One device in use: a result of an allocation, or a line of a state that no claims produce (A-3.1). Without
    ``share_id`` and ``consumed`` it is exclusive. ``consumed`` without a share counts as capacity only."""

    driver: str
    pool: str
    device: str
    share_id: str | None = None
    consumed: Mapping[str, Quantity] | None = None


def uses_of(allocations: Iterable[AllocationResult]) -> Iterator[DeviceUse]:
    """The uses of devices, one per result, except with admin access, which uses nothing up (A-3.3)."""
    for allocation in allocations:
        for result in allocation.devices.results:
            if not result.admin_access:
                share = result.share_id
                yield DeviceUse(
                    result.driver,
                    result.pool,
                    result.device,
                    share,
                    None if share is None else result.consumed_capacity or None,
                )


def by_pool(uses: Iterable[DeviceUse]) -> dict[PoolId, list[DeviceUse]]:
    """The uses of each pool, in their order."""
    uses_by_pool: dict[PoolId, list[DeviceUse]] = {}
    driver = pool = None
    of_pool: list[DeviceUse] = []
    for use in uses:
        if use.pool != pool or use.driver != driver:  # most often the next use is of the same pool
            driver, pool = use.driver, use.pool
            of_pool = uses_by_pool.setdefault(PoolId(driver, pool), [])
        of_pool.append(use)
    return uses_by_pool


def changed(before: PoolUse, changes: Iterable[DeviceUse], by: int) -> PoolUse:
    """The use of a pool after ``changes`` of its devices, added (``by`` 1) or taken back (-1)."""
    exclusive = dict(before.exclusive)
    shares: set[tuple[str, str]] | None = None
    consumed: dict[str, Mapping[str, Quantity]] | None = None
    for use in changes:
        if use.share_id is None and use.consumed is None:
            count = exclusive.pop(use.device, 0) + by
            if count > 0:
                exclusive[use.device] = count
            continue
        if use.share_id is not None:
            shares = set(before.shares) if shares is None else shares
            (shares.add if by > 0 else shares.discard)((use.device, use.share_id))
        if use.consumed is not None:
            consumed = dict(before.consumed) if consumed is None else consumed
            amounts = dict(consumed.get(use.device, {}))
            for name, amount in use.consumed.items():
                consumed_before = amounts.get(name)
                if by > 0:
                    amounts[name] = amount if consumed_before is None else consumed_before + amount
                elif consumed_before is not None:
                    amounts[name] = consumed_before - amount
            if by < 0 and not any(amounts.values()):  # nothing is left of it
                consumed.pop(use.device, None)
            else:
                consumed[use.device] = amounts
    return PoolUse(
        exclusive,
        before.shares if shares is None else frozenset(shares),
        before.consumed if consumed is None else consumed,
    )
