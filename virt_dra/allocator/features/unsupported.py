"""Features whose rules aren't written yet. A device that needs one is a named error as soon as nothing else keeps it from being chosen."""

from __future__ import annotations

from collections.abc import Hashable

from virt_dra.allocator.errors import UnsupportedFeature
from virt_dra.allocator.features.static import StaticCheck
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import Device, Kind, Rejection, Request


class Unsupported(StaticCheck):
    """The last check: a device that another check refuses anyway never causes an error."""

    def __init__(self, features: Features) -> None:
        self._features = features

    def kind(self, request: Request, device: Device) -> Kind:
        return self.add(request, device)

    def fact(self, request: Request, device: Device) -> Hashable:
        return self._needed(request, device)

    def add(self, request: Request, device: Device) -> bool:
        """Raises :class:`UnsupportedFeature`."""
        needed = self._needed(request, device)
        if needed is not None:
            raise UnsupportedFeature(needed, f"device {device.id}")
        return True

    def _needed(self, request: Request, device: Device) -> str | None:
        features, published = self._features, device.published
        if features.consumable_capacity and published.allow_multiple_allocations:
            return "allowMultipleAllocations (DRAConsumableCapacity)"
        if features.consumable_capacity and any(capacity.request_policy for capacity in published.capacity.values()):
            return "a capacity requestPolicy (DRAConsumableCapacity)"
        return None

    def explain(self, request: Request, device: Device) -> Rejection:
        raise AssertionError(f"asked why {device.id} is refused by a check that never refuses")
