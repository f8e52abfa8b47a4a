"""How much of the capacity of a pool's shareable devices is consumed (C-12.7). Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import ZERO, Device, ShareableCapacityStatus, ShareableSummaryStatus
from virt_dra.controllers.loops.pool_status.view_problem import MOST_ITEMS, SHAREABLE_OVER_CAP, ViewProblem


def shareable_view(
    devices: Sequence[Device], in_use: Collection[str], consumed: Mapping[str, Quantity], pool: str
) -> ShareableSummaryStatus | ViewProblem | None:
    """Devices that several claims may share, and their capacity by name; None if there are none. A used device is
    partially available even if it is exhausted."""
    shareable = [device for device in devices if device.allow_multiple_allocations]
    if not shareable:
        return None
    totals: dict[str, Quantity] = {}
    for device in shareable:
        for name, capacity in device.capacity.items():
            totals[name] = totals.get(name, ZERO) + capacity.value
    if len(totals) > MOST_ITEMS:
        return ViewProblem(
            f"{SHAREABLE_OVER_CAP} pool {pool} has {len(totals)} shareable capacity "
            f"keys, exceeding the maximum of {MOST_ITEMS}"
        )
    used = sum(device.name in in_use for device in shareable)
    view = ShareableSummaryStatus(fully_available_devices=len(shareable) - used, partially_available_devices=used)
    capacities = tuple(_capacity(name, total, consumed.get(name, ZERO)) for name, total in sorted(totals.items()))
    return view.with_(capacity=capacities) if capacities else view


def _capacity(name: str, total: Quantity, consumed: Quantity) -> ShareableCapacityStatus:
    available = total - consumed
    return ShareableCapacityStatus(
        name=name, total=total, consumed=consumed, available=available if available > ZERO else ZERO
    )
