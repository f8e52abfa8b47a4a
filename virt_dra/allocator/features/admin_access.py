"""KEP-5018: requests for devices that others use. Admin requests pass `in_use`, and what they hold stays available to
others (A-11, AC-7). Off: a request that mentions `adminAccess`, even as false, is refused (E5)."""

from __future__ import annotations

from virt_dra.allocator.errors import FatalError
from virt_dra.allocator.gates import Features
from virt_dra.api.resource_v1 import DeviceSubRequest, ExactDeviceRequest


def wants(subject: str, wanted: ExactDeviceRequest | DeviceSubRequest, features: Features) -> bool:
    """True if admin access is requested; alternatives can't (A-11.5). ``subject`` names the request in the error
    (A-6.3)."""
    if isinstance(wanted, DeviceSubRequest) or wanted.admin_access is None:
        return False
    if not features.admin_access:
        raise FatalError(f"{subject}: admin access is requested, but the feature is disabled")
    return wanted.admin_access
