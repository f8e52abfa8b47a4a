"""Seconds that tenants have used, of which a half is forgotten after each half-life, and what took them too long, which
isn't tried again for a while. The clock is passed in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf, log2
from typing import Final

Tenant = tuple[str, ...]
"""Names from the widest level to the narrowest."""

REMEMBERED: Final = 10_000
"""How many tenants' use is remembered, levels included; the least recently used is forgotten first."""
_SLOW_REMEMBERED: Final = 4096


@dataclass
class TenantUse:
    """What each tenant has used, at each of its levels: one that uses something all the time at a rate of ``r`` has a
    use of ``1.44 * r * half_life``."""

    clock: Callable[[], float]
    half_life: float
    _ranks: OrderedDict[Tenant, float] = field(default_factory=OrderedDict)
    """The binary logarithm of what the use would have been at time 0, which stays until the tenant is charged."""

    def of(self, tenant: Tenant) -> float:
        """The use of a tenant, or of a level of it."""
        rank = self._ranks.get(tenant, -inf)
        return 0.0 if rank == -inf else float(2.0 ** (rank - self.clock() / self.half_life))

    def rank(self, tenant: Tenant) -> float:
        """A number by which tenants of one level are in the order of their use, those that aren't known last."""
        return self._ranks.get(tenant, inf)

    def light_at(self, tenant: Tenant, seconds: float) -> float:
        """The time from which a tenant's use is no more than so many seconds."""
        return (self._ranks.get(tenant, -inf) - log2(seconds)) * self.half_life

    def add(self, tenant: Tenant, seconds: float) -> None:
        """Charge a tenant at all its levels."""
        for level in levels(tenant):
            used = self.of(level) + seconds
            self._ranks[level] = log2(used) + self.clock() / self.half_life if used else -inf
            self._ranks.move_to_end(level)
        while len(self._ranks) > REMEMBERED:
            self._ranks.popitem(last=False)

    def __len__(self) -> int:
        return len(self._ranks)


def levels(tenant: Tenant) -> list[Tenant]:
    """A tenant at each of its levels, the widest first."""
    return list(accumulate((name,) for name in tenant))


@dataclass
class TooSlow:
    """Remembers what took too long, by tenant, so that a tenant who makes something slow can't have that of others left
    undone. Bounded."""

    clock: Callable[[], float]
    seconds: float = 30.0
    _until: OrderedDict[tuple[Tenant, Hashable], float] = field(default_factory=OrderedDict)

    def add(self, tenant: Tenant, work: Hashable) -> None:
        self._until[tenant, work] = self.clock() + self.seconds
        self._until.move_to_end((tenant, work))
        while len(self._until) > _SLOW_REMEMBERED:
            self._until.popitem(last=False)

    def has(self, tenant: Tenant, work: Hashable) -> bool:
        return self._until.get((tenant, work), 0.0) > self.clock()
