"""Bipartite matching of needs to units: Kuhn's augmenting paths (1955), over sets of units given as integers (bit i:
unit i)."""

from __future__ import annotations

from collections.abc import Iterable


def satisfiable(needs: Iterable[tuple[int, int]]) -> bool:
    """True if all needs can be satisfied at once. Each is a number of units and the set of units that serve it; a unit
    serves one need. Assigns free units greedily, then moves units between needs along augmenting paths until all are
    satisfied or one can't be."""
    wanted = sorted(needs, key=lambda need: need[1].bit_count() - need[0])
    free = 0
    for count, units in wanted:
        if units.bit_count() < count:
            return False
        free |= units
    if sum(count for count, _ in wanted) > free.bit_count():
        return False
    if len(wanted) < 2:
        return True
    held = [0] * len(wanted)
    for number, (count, units) in enumerate(wanted):
        taken = _lowest(units & free, count)
        held[number] = taken
        free &= ~taken
    for number, (count, _) in enumerate(wanted):
        for _ in range(count - held[number].bit_count()):
            unit = _augment(number, wanted, held, free)
            if not unit:
                return False
            free &= ~unit
    return True


def _lowest(bits: int, count: int) -> int:
    """The ``count`` lowest bits, or all if there are fewer."""
    if bits.bit_count() <= count:
        return bits
    lowest = 0
    for _ in range(count):
        bit = bits & -bits
        lowest |= bit
        bits ^= bit
    return lowest


def _augment(start: int, wanted: list[tuple[int, int]], held: list[int], free: int) -> int:
    """Give need ``start`` one more unit along the shortest augmenting path. Returns the unit that was free before; 0 if
    there is none."""
    parent: dict[int, tuple[int, int]] = {}
    """Need -> the need that takes one of its units, and the unit."""
    seen = {start}
    queue = [start]
    reached = 0
    for need in queue:
        new = wanted[need][1] & ~reached
        available = new & free
        if available:
            unit = available & -available
            got = unit
            while True:
                held[need] |= got
                if need == start:
                    return unit
                receiver, got = parent[need]
                held[need] ^= got
                need = receiver
        reached |= new
        for other, units in enumerate(held):
            if units & new and other not in seen:
                common = units & new
                parent[other] = (need, common & -common)
                seen.add(other)
                queue.append(other)
    return 0
