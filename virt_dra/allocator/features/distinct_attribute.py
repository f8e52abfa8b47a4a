"""`distinctAttribute`: no two devices of the constrained requests share a value of the attribute (A-15.5). No gate inside (A-15.7)."""

from __future__ import annotations

from collections.abc import Hashable

from virt_dra.allocator.features.attributes import MISSING, NOT_CONSTRAINED, Values, applies, find, values_of
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import Device, Kind, Rejection, Request, Upcoming

REPEATED = "AttributeNotDistinct"
"""A device chosen before has the same value."""


class DistinctAttribute:
    def __init__(self, name: str, requests: tuple[str, ...], features: Features) -> None:
        self._name = name
        self._requests = requests
        self._lists = features.list_type_attributes
        self._seen: list[tuple[Device, Values]] = []

    def constrains(self, request: Request) -> bool:
        return applies(self._requests, request)

    def kind(self, request: Request, device: Device) -> Kind:
        return self._values(device) if applies(self._requests, request) else NOT_CONSTRAINED

    def add(self, request: Request, device: Device) -> bool:
        if not applies(self._requests, request):
            return True
        values = self._values(device)
        if values is None or self._clash(values) is not None:
            return False
        self._seen.append((device, values))
        return True

    def remove(self, request: Request, device: Device) -> None:
        if applies(self._requests, request):
            self._seen.pop()

    def state(self, upcoming: Upcoming) -> Hashable:
        matters = self._seen and any(applies(self._requests, request) for request in upcoming.requests)
        return frozenset(values for _, values in self._seen) if matters else None

    def _values(self, device: Device) -> Values | None:
        attribute = find(device, self._name)
        return None if attribute is None else values_of(attribute, lists=self._lists)

    def _clash(self, values: Values) -> Device | None:
        """Values of different types never clash, also 1 and true, which Python holds equal."""
        for device, seen in self._seen:
            if seen.type == values.type and seen.values & values.values:
                return device
        return None

    def explain(self, request: Request, device: Device) -> Rejection:
        values = self._values(device)
        if values is None:
            return Rejection(MISSING, f"attribute {self._name} missing", device.id, f"distinctAttribute {self._name}: no comparable value")
        detail = f"distinctAttribute {self._name}: {values} is also the value of {getattr(self._clash(values), 'id', 'another device')}"
        return Rejection(REPEATED, f"attribute {self._name} not distinct", device.id, detail)
