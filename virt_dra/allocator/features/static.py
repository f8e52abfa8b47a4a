"""Checks without memory, and the rejection of a device that needs a feature which is switched off."""

from __future__ import annotations

from collections.abc import Hashable

from virt_dra.allocator.model import Check, PoolDevice, Rejection, Request, SymmetryKey, Upcoming

FEATURE_OFF = "FeatureDisabled"
"""The device needs a feature that is switched off."""


class StaticCheck(Check):
    """A check without memory. By default its ``add`` depends on the request and the published device only."""

    def symmetry_key(self, request: Request, device: PoolDevice) -> SymmetryKey:
        return self.add(request, device) or None

    def reuse_key(self, request: Request, device: PoolDevice) -> Hashable:
        return self.add(request, device)

    def remove(self, request: Request, device: PoolDevice) -> None:
        """Nothing to undo."""

    def state(self, upcoming: Upcoming) -> Hashable:
        return None


def feature_off(device: PoolDevice, gate: str) -> Rejection:
    """The refusal of a device that needs ``gate``."""
    return Rejection(FEATURE_OFF, f"feature {gate} disabled", device.id, f"the device needs {gate}, which is disabled")
