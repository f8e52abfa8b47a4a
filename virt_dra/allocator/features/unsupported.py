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


class Unsupported:
    """The last check: a device that another check refuses anyway never causes an error."""

    def __init__(self, features: Features) -> None:
        self._features = features

    def constrains(self, request: Request) -> bool:
        return False

    def kind(self, request: Request, device: Device) -> Kind:
        return self.add(request, device) or None

    def add(self, request: Request, device: Device) -> bool:
        """Raises :class:`UnsupportedFeature`."""
        return self._refused(request, device) is None

    def remove(self, request: Request, device: Device) -> None:
        """Keeps no state."""

    def state(self, upcoming: Upcoming) -> Hashable:
        return None

    def _refused(self, request: Request, device: Device) -> str | None:
        """The name of the switched-off feature that makes the device unusable."""
        features, published = self._features, device.published
        if published.consumes_counters and not features.partitionable_devices:
            return "DRAPartitionableDevices"  # A-10.4 (1)
        if device.slice.skip_node_operations and features.experimental and not features.optional_node_operations:
            return "DRAOptionalNodeOperations"  # without any alpha feature the field is ignored
        if features.consumable_capacity and published.allow_multiple_allocations:
            raise UnsupportedFeature("allowMultipleAllocations (DRAConsumableCapacity)", f"device {device.id}")
        if features.consumable_capacity and any(capacity.request_policy for capacity in published.capacity.values()):
            raise UnsupportedFeature("a capacity requestPolicy (DRAConsumableCapacity)", f"device {device.id}")
        if published.consumes_counters and not request.admin_access:  # admin access charges no counters (AC-6)
            if features.compatibility_groups and any(c.compatibility_groups for c in published.consumes_counters):
                raise UnsupportedFeature("compatibilityGroups (DRADeviceCompatibilityGroups)", f"device {device.id}")
            raise UnsupportedFeature("consumesCounters (DRAPartitionableDevices)", f"device {device.id}")
        if published.binding_conditions:
            raise UnsupportedFeature("bindingConditions (DRADeviceBindingConditions)", f"device {device.id}")
        if device.slice.skip_node_operations and features.optional_node_operations:
            raise UnsupportedFeature("skipNodeOperations (DRAOptionalNodeOperations)", f"device {device.id}")
        return None

    def explain(self, request: Request, device: Device) -> Rejection:
        feature = self._refused(request, device)
        return Rejection(FEATURE_OFF, f"feature {feature} disabled", device.id, f"the device needs {feature}, which is disabled")


class BindingConditions:
    """KEP-5007. Off: a device with binding conditions is not selectable (A-8.1)."""

    def __init__(self, features: Features) -> None:
        self._on = features.device_binding_and_status

    def admits(self, request: Request, device: Device) -> bool:
        return self._on or not device.published.binding_conditions

    def explain(self, request: Request, device: Device) -> Rejection:
        feature = "DRADeviceBindingConditions"
        return Rejection(FEATURE_OFF, f"feature {feature} disabled", device.id, f"the device needs {feature}, which is disabled")
