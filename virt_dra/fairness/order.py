"""Waiting tenants in the order of their use. Finding the next, or charging one, doesn't take longer the more there are:
it costs the logarithm of their number."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count

from virt_dra.fairness.use import Tenant, TenantUse, levels

_Place = tuple[float, int, str]
"""A rank, the number of the place, by which equal ones are in the order in which they came, and the tenant's name."""


class LeastUsedFirst:
    """Tenants with equally many levels. At each level, from the widest on, the one that has used least is first."""

    def __init__(self, use: TenantUse) -> None:
        self._use, self._numbers = use, count()
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
        """Moves a tenant, and what is there of its levels, behind those that have used less by now."""
        for level in levels(tenant):
            if level in self._places:
                self._put(level)

    def first(self) -> Tenant | None:
        """None if there are none."""
        level: Tenant = ()
        while heap := self._heaps.get(level):
            while self._places.get((*level, heap[0][2])) != heap[0]:
                heappop(heap)
            level = (*level, heap[0][2])
        return level or None

    def _put(self, level: Tenant) -> None:
        self._places[level] = place = self._use.rank(level), next(self._numbers), level[-1]
        heap = self._heaps.setdefault(level[:-1], [])
        heappush(heap, place)
        if len(heap) > 2 * self._members[level[:-1]] + 8:
            heap[:] = [place for place in heap if self._places.get((*level[:-1], place[2])) == place]
            heapify(heap)
