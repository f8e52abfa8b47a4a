"""Whether demands can be met from units that each serve one demand: bipartite matching over sets of units given as bits."""

from __future__ import annotations

from collections.abc import Iterable


def satisfiable(demands: Iterable[tuple[int, int]]) -> bool:
    """``demands``: how many units each needs, and which serve it (bit i: unit i). Each unit serves one demand.

    Takes what is free, then moves units between demands along augmenting paths until all are met or one can't be.
    """
    wanted = sorted(demands, key=lambda demand: demand[1].bit_count() - demand[0])
    free = 0
    for need, units in wanted:
        if units.bit_count() < need:
            return False
        free |= units
    if sum(need for need, _ in wanted) > free.bit_count():
        return False
    if len(wanted) < 2:
        return True
    held = [0] * len(wanted)
    for number, (need, units) in enumerate(wanted):
        taken = _lowest(units & free, need)
        held[number] = taken
        free &= ~taken
    for number, (need, _) in enumerate(wanted):
        for _ in range(need - held[number].bit_count()):
            unit = _augment(number, wanted, held, free)
            if not unit:
                return False
            free &= ~unit
    return True


def _lowest(bits: int, count: int) -> int:
    """At most ``count`` of the bits."""
    if bits.bit_count() <= count:
        return bits
    found = 0
    for _ in range(count):
        bit = bits & -bits
        found |= bit
        bits ^= bit
    return found


def _augment(start: int, wanted: list[tuple[int, int]], held: list[int], free: int) -> int:
    """Give demand ``start`` one more unit, others changing theirs where they must. Returns the unit that was free before; 0 if none."""
    gives: dict[int, tuple[int, int]] = {}
    """Demand -> who gets which of its units, once it has another."""
    seen = {start}
    queue = [start]
    reached = 0
    for demand in queue:
        new = wanted[demand][1] & ~reached
        found = new & free
        if found:
            unit = found & -found
            got = unit
            while True:
                held[demand] |= got
                if demand == start:
                    return unit
                receiver, got = gives[demand]
                held[demand] ^= got
                demand = receiver
        reached |= new
        for other, units in enumerate(held):
            if units & new and other not in seen:
                common = units & new
                gives[other] = (demand, common & -common)
                seen.add(other)
                queue.append(other)
    return 0
