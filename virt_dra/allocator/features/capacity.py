"""What is known of KEP-5075 so far: a device with a negative capacity is broken input as soon as it is reached (E21).

Off: capacities are ignored. Sharing and requested amounts are not built yet (features/unsupported.py, requests.py).
"""

from __future__ import annotations

from virt_dra.allocator.errors import FatalError
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import Device, Rejection, Request
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import ALL, DeviceCapacity


class CapacityFilter:
    """Asked after the selectors, also for requests that want no capacity: then a device's default or whole capacity counts (A-17.2)."""

    def __init__(self, features: Features) -> None:
        self._on = features.consumable_capacity

    def admits(self, request: Request, device: Device) -> bool:
        """Raises :class:`FatalError`; of several negative capacities it names the first by name (A-19.1)."""
        capacities = device.published.capacity
        if self._on and capacities:
            for name in sorted(capacities):
                if _consumed_without_request(capacities[name]).sign() < 0:
                    shown = device.id.device if request.mode == ALL else device.id
                    raise FatalError(
                        f"claim {request.claim.key}, request {request.name}: checking capacity for device {shown}: "
                        f'capacity "{name}": capacity value is negative'
                    )
        return True

    def explain(self, request: Request, device: Device) -> Rejection:
        raise AssertionError(f"asked why the capacity of {device.id} refuses a request, which it never does")


def _consumed_without_request(capacity: DeviceCapacity) -> Quantity:
    policy = capacity.request_policy
    return capacity.value if policy is None or policy.default is None else policy.default
