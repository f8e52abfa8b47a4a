"""ExactCount or All: how many slots a request has, and for All which device goes into each (A-9). It shapes the
search."""

from __future__ import annotations

from collections.abc import Callable

from virt_dra.allocator.errors import FatalError, NodeError
from virt_dra.allocator.model import PoolDevice, Request, Slots
from virt_dra.allocator.pools import INCOMPLETE, Reachable
from virt_dra.api.resource_v1 import ALL, EXACT_COUNT

Selectable = Callable[[Request, PoolDevice], bool]
"""True if a device matches a request whatever is in use (A-8). Raises FatalError for broken selectors."""


def slots(request: Request, reachable: Reachable, selectable: Selectable) -> Slots:
    """The slots of a request. Raises NodeError when mode All includes an incomplete or invalid pool (AC-9), FatalError
    for an unknown mode (E8)."""
    if request.mode == EXACT_COUNT:
        return Slots(request, request.count)
    subject = f"claim {request.claim.key}, request {request.name}"
    if request.mode != ALL:
        raise FatalError(f"{subject}: unsupported count mode {request.mode}")
    devices: list[PoolDevice] = []
    for pool in reachable.pools:
        if pool.problem is not None:
            state = "being updated" if pool.problem.reason == INCOMPLETE else "invalid"
            raise NodeError(f"{subject}: asks for all devices, but resource pool {pool.id} is currently {state}")
        devices.extend(device for device in pool.devices if selectable(request, device))
    return Slots(request, len(devices), tuple(devices))
