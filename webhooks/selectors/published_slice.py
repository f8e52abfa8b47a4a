"""One ResourceSlice as the inventory keeps it, and the evaluation of selectors on one device. Immutable, so unchanged slices are reused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cel import BudgetExceeded, CompiledSelector, EvaluationError, Interrupted, Work
from webhooks.selectors.slice_device import SliceDevice, SliceDeviceName

__all__ = ["DeviceAnswer", "PoolKey", "PublishedSlice", "SelectorFault", "Work", "ask"]

_PER_DEVICE: Final = 1.0
"""Microseconds (measured) per device, besides what evaluating its selectors is charged."""

PoolKey = tuple[str, str]
"""Driver and pool."""


@dataclass(frozen=True)
class SelectorFault:
    """An error of a selector: ``selector`` is its position; ``device`` the one it failed on, None where it doesn't compile."""

    selector: int
    message: str
    device: SliceDevice | None = None


DeviceAnswer = int | SelectorFault
"""The position of the first selector that doesn't match, or their number where all match; a fault where one fails."""


@dataclass(frozen=True, eq=False)
class PublishedSlice:
    """A ResourceSlice's name, pool and devices; made with :meth:`of`. Compared by identity."""

    pool: PoolKey
    generation: int
    name: str
    devices: tuple[SliceDevice, ...]

    @classmethod
    def of(cls, part: ResourceSlice, keys: Mapping[str, tuple[DriverKeys, ...]]) -> PublishedSlice:
        """Convert a slice. ``keys``: configured attribute keys of device addresses, by driver (K-6.6)."""
        spec = part.spec
        own = keys.get(spec.driver, ())
        devices = tuple(
            SliceDevice(spec.driver, spec.pool.name, device, spec.node_name or device.node_name or "", own) for device in spec.devices
        )
        return cls((spec.driver, spec.pool.name), spec.pool.generation, part.name, devices)

    @cached_property
    def by_name(self) -> Mapping[SliceDeviceName, SliceDevice]:
        return {each.name: each for each in self.devices}


def ask(published: SliceDevice, selectors: Sequence[CompiledSelector], work: Work) -> DeviceAnswer:
    """Evaluate selectors, all of which must hold, on a device. Raises Interrupted where the budget of work doesn't suffice, or a selector
    exceeds the limits of one evaluation."""
    if not selectors:
        return 0
    given = published.input
    if isinstance(given, str):
        return SelectorFault(0, given, published)
    if work.spent(_PER_DEVICE):
        raise Interrupted
    watcher = None if work.left is None and work.interrupt is None else work
    for position, selector in enumerate(selectors):
        try:
            if not selector.matches(given, watcher):
                return position
        except Interrupted:
            raise
        except BudgetExceeded:  # our own limit, not Kubernetes': its result is unknown
            raise Interrupted from None
        except EvaluationError as error:
            return SelectorFault(position, error.message, published)
    return len(selectors)
