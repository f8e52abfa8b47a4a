"""`distinctAttribute`: no two devices of the constrained requests share a value of the attribute (A-15.5). No gate
inside (A-15.7)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from virt_dra.allocator.features.attributes import AttributeConstraint
from virt_dra.allocator.model import PoolDevice, Rejection, Request, Take, Upcoming
from virt_dra.allocator.published import Values

REPEATED = "AttributeNotDistinct"
"""A device chosen before has the same value."""


@dataclass(eq=False)
class DistinctAttribute(AttributeConstraint):
    _seen: list[tuple[PoolDevice, Values]] = field(init=False, default_factory=list)

    def add(self, request: Request, device: PoolDevice) -> bool:
        if not self.constrains(request):
            return True
        values = self.values(request, device)
        if values is None or self._clash(values) is not None:
            return False
        self._seen.append((device, values))
        return True

    def remove(self, request: Request, device: PoolDevice) -> None:
        if self.constrains(request):
            self._seen.pop()

    def state(self, upcoming: Upcoming) -> Hashable:
        matters = self._seen and self.matters(upcoming)
        return frozenset(values for _, values in self._seen) if matters else None

    def _clash(self, values: Values) -> PoolDevice | None:
        """Values of different types never clash, also 1 and true, which Python holds equal."""
        for device, seen in self._seen:
            if seen.type == values.type and seen.values & values.values:
                return device
        return None

    def takes(self, request: Request, device: PoolDevice) -> Sequence[Take]:
        """Each of its values."""
        values = self.values(request, device)
        return () if values is None else [Take(values.type, value, 1, 1) for value in values.values]

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        values = self.values(request, device)
        if values is None:
            return self.missing("distinctAttribute", request, device)
        clash = self._clash(values)
        other = clash.id if clash is not None else "another device"
        name = self.name
        detail = f"distinctAttribute {name}: {values} is also the value of {other}"
        return Rejection(REPEATED, f"attribute {name} not distinct", device.id, detail)
