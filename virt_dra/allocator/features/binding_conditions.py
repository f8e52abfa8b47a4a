"""KEP-5007: devices that get ready only after they were allocated, and report it by conditions, which are copied into
the result for the scheduler to wait for (C-6). The order of pools puts them last (A-5.6), with the feature off too.
Off: a device with binding conditions is not selectable (A-8.1)."""

from __future__ import annotations

from typing import Any

from virt_dra.allocator.features.static import feature_off
from virt_dra.allocator.model import Filter, PoolDevice, Rejection, Request


class NoBindingConditions(Filter):
    """The filter where the feature is off."""

    reusable = True

    def admits(self, request: Request, device: PoolDevice) -> bool:
        return not device.published.binding_conditions

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        return feature_off(device, "DRADeviceBindingConditions")


def write(fields: dict[str, Any], device: PoolDevice) -> None:
    """The conditions to wait for, and those that end the wait (A-18.1)."""
    published = device.published
    if published.binding_conditions:
        fields["binding_conditions"] = published.binding_conditions
    if published.binding_failure_conditions:
        fields["binding_failure_conditions"] = published.binding_failure_conditions
