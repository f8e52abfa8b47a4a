"""`matchAttribute`: all devices of the constrained requests have a value of the attribute in common (A-15.3, A-15.4).
The common values so far are a stack, so that undo is exact."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field

from virt_dra.allocator.features.attributes import AttributeConstraint
from virt_dra.allocator.model import PoolDevice, Rejection, Request, Upcoming
from virt_dra.allocator.published import Values

DIFFERS = "AttributeDiffers"
"""The device's value is not the one that the devices chosen before have in common."""


@dataclass(eq=False)
class MatchAttribute(AttributeConstraint):
    _common: list[Values] = field(init=False, default_factory=list)

    def add(self, request: Request, device: PoolDevice) -> bool:
        if not self.constrains(request):
            return True
        values = self.values(request, device)
        if values is None:
            return False
        if self._common:
            before = self._common[-1]
            shared = before.values & values.values if before.type == values.type else frozenset()
            if not shared:
                return False
            values = Values(values.type, (), shared)
        self._common.append(values)
        return True

    def remove(self, request: Request, device: PoolDevice) -> None:
        if self.constrains(request):
            self._common.pop()

    def state(self, upcoming: Upcoming) -> Hashable:
        matters = self._common and self.matters(upcoming)
        return self._common[-1] if matters else None

    def labels(self, request: Request, device: PoolDevice) -> Collection[Hashable] | None:
        values = self.values(request, device)
        return None if values is None else [(values.type, value) for value in values.values]

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        values = self.values(request, device)
        if values is None:
            return self.missing("matchAttribute", request, device)
        wanted = self._common[-1]
        detail = f"matchAttribute {self.name}: is {values}, must be {wanted}"
        return Rejection(DIFFERS, f"attribute {self.name} differs", device.id, detail)
