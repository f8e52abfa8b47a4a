"""What took a tenant too long is remembered for a while, so that it isn't tried again at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from virt_dra.fairness.use import Tenant

REMEMBERED: Final = 4096


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
        while len(self._until) > REMEMBERED:
            self._until.popitem(last=False)

    def has(self, tenant: Tenant, work: Hashable) -> bool:
        return self._until.get((tenant, work), 0.0) > self.clock()
