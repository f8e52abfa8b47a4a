"""Waiting tenants in the order of start-time fair queueing, at each level of their names (P. Goyal, H. Vin, H. Cheng:
"Start-time fair queueing", SIGCOMM 1996). Finding the next, or charging one, doesn't take longer the more there are: it
costs the logarithm of their number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

from virt_dra.fairness.use import REMEMBERED, Tenant, TenantUse, levels

Start = tuple[float, float]
"""When a turn starts, in seconds that turns have taken; among equals, a rank by use."""
_Place = tuple[Start, int, str]
"""A start, the number of the place, by which equal ones are in the order in which they came, and the tenant's name."""


class StartTimes:
    """When the next turn of each tenant starts, in seconds that turns have taken since somebody began to wait.

    A tenant that comes starts now, and then later by what each of its turns took. So neither does one that never used
    anything come before all who did, nor is one that comes rarely kept waiting for those that never leave. Of tenants
    that start at once, as many do who come together, the one that has used least is first, and strangers are last.
    """

    def __init__(self, use: TenantUse) -> None:
        self._use = use
        self._now: OrderedDict[Tenant, float] = OrderedDict()
        """By level: the latest start among its members."""
        self._next: OrderedDict[Tenant, float] = OrderedDict()
        """By tenant, or level of it: when it may start again. Both forget the longest unused first."""

    def start(self, level: Tenant) -> Start:
        return max(self._now.get(level[:-1], 0.0), self._next.get(level, 0.0)), self._use.rank(level)

    def charge(self, tenant: Tenant, seconds: float) -> None:
        """A turn of a tenant took so long."""
        for level in levels(tenant):
            started, _ = self.start(level)
            for times, at, time in ((self._now, level[:-1], started), (self._next, level, started + seconds)):
                times[at] = time
                times.move_to_end(at)
                if len(times) > REMEMBERED:
                    times.popitem(last=False)

    def restart(self) -> None:
        """Nobody waits any more, so that all are equal again."""
        self._now.clear()
        self._next.clear()

    def __len__(self) -> int:
        return len(self._now) + len(self._next)


class EarliestStartFirst:
    """Tenants with equally many levels. At each level, from the widest on, the one that starts earliest is first."""

    def __init__(self, start: Callable[[Tenant], Start]) -> None:
        self._start, self._numbers = start, count()
        self._heaps: dict[Tenant, list[_Place]] = {}
        """By level, its members; among them places that are outdated."""
        self._places: dict[Tenant, _Place] = {}
        """By tenant, or level of it: its place."""
        self._members: dict[Tenant, int] = {}
        """By level: how many members it has."""

    def add(self, tenant: Tenant) -> None:
        """Does nothing for one that is there."""
        if tenant in self._places:
            return
        for level in levels(tenant):
            if level not in self._places:
                self._members[level[:-1]] = self._members.get(level[:-1], 0) + 1
                self._put(level)

    def discard(self, tenant: Tenant) -> None:
        if tenant not in self._places:
            return
        for level in reversed(levels(tenant)):
            if self._members.get(level):
                return  # of another tenant, too
            del self._places[level]
            above = level[:-1]
            self._members[above] -= 1
            if not self._members[above]:
                del self._members[above], self._heaps[above]

    def charged(self, tenant: Tenant) -> None:
        """Moves a tenant, and what is there of its levels, to where they start by now."""
        for level in levels(tenant):
            if level in self._places:
                self._put(level)

    def first(self) -> Tenant | None:
        """The tenant that starts first; None if there is none."""
        level: Tenant = ()
        while heap := self._heaps.get(level):
            while self._places.get((*level, heap[0][2])) != heap[0]:
                heappop(heap)
            level = (*level, heap[0][2])
        return level or None

    def starts(self, tenant: Tenant) -> list[Start]:
        """When a tenant that is there starts, at each of its levels."""
        return [self._places[level][0] for level in levels(tenant)]

    def _put(self, level: Tenant) -> None:
        self._places[level] = place = self._start(level), next(self._numbers), level[-1]
        heap = self._heaps.setdefault(level[:-1], [])
        heappush(heap, place)
        if len(heap) > 2 * self._members[level[:-1]] + 8:
            heap[:] = [place for place in heap if self._places.get((*level[:-1], place[2])) == place]
            heapify(heap)
