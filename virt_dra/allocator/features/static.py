"""Checks without memory, and the words for a device that needs a feature which is switched off."""

from __future__ import annotations

from collections.abc import Hashable

from virt_dra.allocator.model import Check, Device, Kind, Rejection, Request, Upcoming

FEATURE_OFF = "FeatureDisabled"
"""The device needs a feature that is switched off."""


class StaticCheck(Check):
    """Its ``add`` looks at the request and the published device only, changes nothing, and is no constraint of a claim."""

    def constrains(self, request: Request) -> bool:
        return False

    def kind(self, request: Request, device: Device) -> Kind:
        return self.add(request, device) or None

    def fact(self, request: Request, device: Device) -> Hashable:
        return self.add(request, device)

    def remove(self, request: Request, device: Device) -> None:
        """Nothing to undo."""

    def state(self, upcoming: Upcoming) -> Hashable:
        return None


def feature_off(device: Device, gate: str) -> Rejection:
    """The refusal of a device that needs ``gate``."""
    return Rejection(FEATURE_OFF, f"feature {gate} disabled", device.id, f"the device needs {gate}, which is disabled")
