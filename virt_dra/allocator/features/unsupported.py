"""Features whose rules aren't written yet. A device that needs one is a named error as soon as nothing else keeps it from being chosen.

Where a gate is off the reference's answer is simple, and given here: the device is not usable, or the field is ignored.
"""

from __future__ import annotations

from collections.abc import Hashable

from virt_dra.allocator.errors import UnsupportedFeature
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import Device, Kind, Rejection, Request, Upcoming

FEATURE_OFF = "FeatureDisabled"
"""The device needs a feature that is switched off."""


class _Stateless:
    """A check without memory."""

    def constrains(self, request: Request) -> bool:
        return False

    def remove(self, request: Request, device: Device) -> None:
        """Nothing to undo."""

    def state(self, upcoming: Upcoming) -> Hashable:
        return None


class FeaturesOff(_Stateless):
    """Devices that can't be used because a feature is off. Asked before taints and constraints (A-10)."""

    def __init__(self, features: Features) -> None:
        self._features = features

    def kind(self, request: Request, device: Device) -> Kind:
        return self.add(request, device) or None

    def fact(self, request: Request, device: Device) -> Hashable:
        return self.add(request, device)

    def add(self, request: Request, device: Device) -> bool:
        return self._missing(device) is None

    def _missing(self, device: Device) -> str | None:
        features = self._features
        if device.slice.skip_node_operations and features.experimental and not features.optional_node_operations:
            return "DRAOptionalNodeOperations"  # without any alpha feature the field is ignored
        if device.published.consumes_counters and not features.partitionable_devices:
            return "DRAPartitionableDevices"  # A-10.4 (1)
        return None

    def explain(self, request: Request, device: Device) -> Rejection:
        return _feature_off(device, self._missing(device) or "unknown")


class Unsupported(_Stateless):
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
        if published.consumes_counters and not request.admin_access:  # admin access charges no counters (AC-6)
            if features.compatibility_groups and any(c.compatibility_groups for c in published.consumes_counters):
                return "compatibilityGroups (DRADeviceCompatibilityGroups)"
            return "consumesCounters (DRAPartitionableDevices)"
        if published.binding_conditions:
            return "bindingConditions (DRADeviceBindingConditions)"
        if device.slice.skip_node_operations and features.optional_node_operations:
            return "skipNodeOperations (DRAOptionalNodeOperations)"
        return None

    def explain(self, request: Request, device: Device) -> Rejection:
        raise AssertionError(f"asked why {device.id} is refused by a check that never refuses")


class BindingConditions:
    """KEP-5007. Off: a device with binding conditions is not selectable (A-8.1)."""

    def __init__(self, features: Features) -> None:
        self._on = features.device_binding_and_status

    def admits(self, request: Request, device: Device) -> bool:
        return self._on or not device.published.binding_conditions

    def explain(self, request: Request, device: Device) -> Rejection:
        return _feature_off(device, "DRADeviceBindingConditions")


def _feature_off(device: Device, feature: str) -> Rejection:
    return Rejection(FEATURE_OFF, f"feature {feature} disabled", device.id, f"the device needs {feature}, which is disabled")
