"""Seconds that tenants have used, of which a half is forgotten after each half-life. The clock is passed in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

Tenant = tuple[str, ...]
"""Names from the widest level to the narrowest."""

REMEMBERED: Final = 10_000
"""How many tenants' use is remembered, levels included; the least recently used is forgotten first."""


@dataclass
class TenantUse:
    """What each tenant has used, at each of its levels: one that uses something all the time at a rate of ``r`` has a
    use of ``1.44 * r * half_life``."""

    clock: Callable[[], float]
    half_life: float
    _used: OrderedDict[Tenant, tuple[float, float]] = field(default_factory=OrderedDict)
    """Seconds, and when they were right."""

    def of(self, tenant: Tenant) -> float:
        """The use of a tenant, or of a level of it."""
        seconds, at = self._used.get(tenant, (0.0, 0.0))
        return float(seconds * 0.5 ** ((self.clock() - at) / self.half_life)) if seconds else 0.0

    def by_level(self, tenant: Tenant) -> tuple[float, ...]:
        """The use at each level, to compare tenants by: a wider level counts before a narrower one."""
        return tuple(map(self.of, _levels(tenant)))

    def add(self, tenant: Tenant, seconds: float) -> None:
        """Charge a tenant at all its levels."""
        for level in _levels(tenant):
            self._used[level] = self.of(level) + seconds, self.clock()
            self._used.move_to_end(level)
        while len(self._used) > REMEMBERED:
            self._used.popitem(last=False)

    def __len__(self) -> int:
        return len(self._used)


def _levels(tenant: Tenant) -> list[Tenant]:
    return list(accumulate((name,) for name in tenant))
