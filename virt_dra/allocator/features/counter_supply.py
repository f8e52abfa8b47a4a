"""A lower bound on what all claims together take of counters: refutes problems of which a search would try every
combination.

For any non-negative weights of the counters (a surrogate constraint, Glover 1968) the chosen devices can't weigh more
than what is left. So if even the lightest devices that could serve each request weigh more, there is no solution. The
weights tried: one counter alone, and all counters of one name (e.g. the memory of all GPUs), by amount and by share of
what is left of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from virt_dra.allocator.counter_sets import Account, CounterSets
from virt_dra.allocator.model import PoolDevice, PoolId, Slots

_WHOLE = 10**12
"""The weight of all that is left of a counter. Rounding only makes the bound weaker."""
_FEW = 8
"""Up to so many counters are also weighted one by one."""

SlotCandidates = tuple[Slots, Sequence[PoolDevice]]
"""An alternative, and the devices that could serve it if nothing else were chosen."""

CounterWeights = Mapping[tuple[PoolId, int], int]
"""Pool and number of the counter -> weight of one unit. Counters not listed weigh nothing."""

PoolCounters = Callable[[PoolId], tuple[CounterSets, Account]]


def exceeded(entries: Sequence[Sequence[SlotCandidates]], pool_of: PoolCounters, least_devices: int) -> bool:
    """True if the entries, each by one of its alternatives, provably can't be served together. Not computed for fewer
    devices than ``least_devices``."""
    if sum(min(slots.count for slots, _ in alternatives) for alternatives in entries) < least_devices:
        return False
    devices = {device for alternatives in entries for _, candidates in alternatives for device in candidates}
    pools = {device.pool: pool_of(device.pool) for device in devices if device.published.consumes_counters}
    for weights in _weightings(pools):
        supply = sum(weight * pools[pool][1].left[number] for (pool, number), weight in weights.items())
        cost = {device: _weight(device, weights, pools) for device in devices}
        needed = 0
        for alternatives in entries:
            least = [
                weight for slots, candidates in alternatives if (weight := _least(slots, candidates, cost)) is not None
            ]
            if not least:
                return True
            needed += min(least)
        if needed > supply:
            return True
    return False


def _weightings(pools: Mapping[PoolId, tuple[CounterSets, Account]]) -> list[CounterWeights]:
    by_name: dict[tuple[str, bool], dict[tuple[PoolId, int], int]] = {}
    alone: list[CounterWeights] = []
    for pool, (sets, account) in pools.items():
        for number, counter in enumerate(sets.counters):
            left = account.left[number]
            if left > 0 and sets.takers[number]:
                by_name.setdefault((counter.name, True), {})[pool, number] = _WHOLE // left
                by_name.setdefault((counter.name, False), {})[pool, number] = counter.unit
                alone.append({(pool, number): 1})
    return [*by_name.values(), *(alone if len(alone) <= _FEW else ())]


def _weight(device: PoolDevice, weights: CounterWeights, pools: Mapping[PoolId, tuple[CounterSets, Account]]) -> int:
    if not device.published.consumes_counters:
        return 0
    charge = pools[device.pool][0].charges[device.id.device]
    if charge.sharable:  # another share takes nothing
        return 0
    return sum(weights.get((device.pool, number), 0) * amount for number, amount in charge.amounts)


def _least(slots: Slots, candidates: Sequence[PoolDevice], cost: Mapping[PoolDevice, int]) -> int | None:
    """The weight of the lightest devices that fill the slots; None if there are too few devices."""
    if len(candidates) < slots.count:
        return None
    if slots.request.admin_access:
        return 0
    return sum(sorted(cost[device] for device in candidates)[: slots.count])
