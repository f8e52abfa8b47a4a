"""One ResourceSlice as the inventory keeps it, and what selectors say of one of its devices. It stays when other slices change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from virt_dra.api.attribute_keys import DriverKeys
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cel import BudgetExceeded, EvaluationError, Interrupted, Selector, Work
from webhooks.selectors.published import Name, Published

__all__ = ["Answer", "Fault", "Part", "Pool", "Work", "ask"]

_PER_DEVICE: Final = 1.0
"""Microseconds (measured) of a device, besides what its selectors report of themselves."""

Pool = tuple[str, str]
"""Driver and pool."""


@dataclass(frozen=True)
class Fault:
    """A selector that can't be used: ``selector`` is its position; ``device`` is None where the text itself is wrong."""

    selector: int
    message: str
    device: Published | None = None


Answer = int | Fault
"""How many selectors match, one after the other; all of them, or the position of the first that doesn't, or that fails."""


@dataclass(frozen=True, eq=False)
class Part:
    """Make it with :meth:`of`. ``name``: the slice's."""

    pool: Pool
    generation: int
    name: str
    devices: tuple[Published, ...]

    @classmethod
    def of(cls, part: ResourceSlice, keys: Mapping[str, tuple[DriverKeys, ...]]) -> Part:
        """``keys``: configured attribute keys of addresses, by driver (K-6.6)."""
        spec = part.spec
        own = keys.get(spec.driver, ())
        devices = tuple(
            Published(spec.driver, spec.pool.name, device, spec.node_name or device.node_name or "", own) for device in spec.devices
        )
        return cls((spec.driver, spec.pool.name), spec.pool.generation, part.name, devices)

    @cached_property
    def by_name(self) -> Mapping[Name, Published]:
        return {each.name: each for each in self.devices}


def ask(published: Published, selectors: Sequence[Selector], work: Work) -> Answer:
    """What selectors, all of which must hold, say of a device. Raises Interrupted where the work is not enough, or a selector
    exceeds what one evaluation may take."""
    if not selectors:
        return 0
    given = published.input
    if isinstance(given, str):
        return Fault(0, given, published)
    if work.spent(_PER_DEVICE):
        raise Interrupted
    watcher = None if work.left is None and work.interrupt is None else work
    for position, selector in enumerate(selectors):
        try:
            if not selector.matches(given, watcher):
                return position
        except Interrupted:
            raise
        except BudgetExceeded:  # a limit of ours: what Kubernetes would say isn't known
            raise Interrupted from None
        except EvaluationError as error:
            return Fault(position, error.message, published)
    return len(selectors)
