"""Whether counters can suffice for all claims together: a bound that ends searches which would try every combination in vain.

For any weights, the devices chosen together weigh no more than what is left. So if even the lightest devices that could serve each
request weigh more, there is no solution. The weights tried: one counter alone, and all counters of a name (e.g. the memory of all
GPUs), once by amount and once by share of what is left of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from virt_dra.allocator.counter_sets import Account, CounterSets
from virt_dra.allocator.model import Device, PoolId, Slots

_WHOLE = 10**12
"""What is left of a counter, in shares of it. Rounding only makes the bound weaker."""
_FEW = 8
"""Up to so many counters are weighed one by one too."""

_MANY = 6
"""Fewer devices are tried sooner than weighed."""

Alternative = tuple[Slots, Sequence[Device]]
"""With the devices that could serve it if nothing else were chosen."""

Weights = Mapping[tuple[PoolId, int], int]
"""Pool and number of the counter -> weight of one unit. Counters not listed weigh nothing."""

PoolOf = Callable[[PoolId], tuple[CounterSets, Account]]


def lacks(entries: Sequence[Sequence[Alternative]], pool_of: PoolOf) -> bool:
    """Whether the entries, each by one of its alternatives, surely can't be had together. False proves nothing."""
    if sum(min(slots.count for slots, _ in alternatives) for alternatives in entries) < _MANY:
        return False
    devices = {device for alternatives in entries for _, suiting in alternatives for device in suiting}
    pools = {device.pool: pool_of(device.pool) for device in devices if device.published.consumes_counters}
    for weights in _weightings(pools):
        supply = sum(weight * pools[pool][1].left[number] for (pool, number), weight in weights.items())
        cost = {device: _weight(device, weights, pools) for device in devices}
        demand = 0
        for alternatives in entries:
            least = [weight for slots, suiting in alternatives if (weight := _least(slots, suiting, cost)) is not None]
            if not least:
                return True
            demand += min(least)
        if demand > supply:
            return True
    return False


def _weightings(pools: Mapping[PoolId, tuple[CounterSets, Account]]) -> list[Weights]:
    by_name: dict[tuple[str, bool], dict[tuple[PoolId, int], int]] = {}
    alone: list[Weights] = []
    for pool, (sets, account) in pools.items():
        for number, counter in enumerate(sets.counters):
            left = account.left[number]
            if left > 0 and sets.takers[number]:
                by_name.setdefault((counter.name, True), {})[pool, number] = _WHOLE // left
                by_name.setdefault((counter.name, False), {})[pool, number] = counter.unit
                alone.append({(pool, number): 1})
    return [*by_name.values(), *(alone if len(alone) <= _FEW else ())]


def _weight(device: Device, weights: Weights, pools: Mapping[PoolId, tuple[CounterSets, Account]]) -> int:
    if not device.published.consumes_counters:
        return 0
    charge = pools[device.pool][0].charges[device.id.device]
    if charge.sharable:  # another share takes nothing
        return 0
    return sum(weights.get((device.pool, number), 0) * amount for number, amount in charge.amounts)


def _least(slots: Slots, suiting: Sequence[Device], cost: Mapping[Device, int]) -> int | None:
    """None if there are too few devices at all."""
    if len(suiting) < slots.count:
        return None
    if slots.request.admin_access:
        return 0
    return sum(sorted(cost[device] for device in suiting)[: slots.count])
