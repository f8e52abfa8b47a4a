"""One change of the host as a value: a property of a device that had one value and gets another.

Applying it sets ``after``, undoing it sets ``before``; both may be repeated. The checkpoint keeps changes, so that a
crash between any two steps can be undone (D-46, D-50).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class HostProperty(StrEnum):
    DRIVER = "driver"
    """Of a PCI function: ``driver/override``, each "" for none (:class:`~node_driver.host.binding.Binding`)."""
    MDEV = "mdev"
    """Of a UUID: ``parent/type``, "" if it doesn't exist."""
    VGPU_PROFILE = "vgpu-profile"
    """Of a VF: the type id of its vGPU profile, "0" for none (D-61)."""
    NETWORK_FUNCTION = "network-function"
    """Of a VF: its settings at the PF as JSON with sorted keys (D-62)."""
    VF_COUNT = "vf-count"
    """Of a PF: a :class:`~node_driver.hardware.inventory.VfCount` (D-48). No claim changes it."""


@dataclass(frozen=True, slots=True)
class HostChange:
    property: HostProperty
    target: str
    before: str
    after: str


class HostError(Exception):
    """A change that failed or can't be made. ``str(error)`` says what happened and what to do; it reaches the pod's
    Event (D-20)."""


class TargetGone(HostError):
    """The device isn't there (any more): there is nothing to change, and nothing to put back."""


class HostBusy(HostError):
    """The kernel hasn't answered within the limit; the attempt goes on, and a later call waits for it (D-45).
    ``change``: what it is about, where that is one."""

    change: HostChange | None = None


class Host(Protocol):
    """What can be read and changed; the real one asks the kernel in helper processes."""

    async def value(self, host_property: HostProperty, target: str) -> str:
        """What is now. Raises :class:`TargetGone`, :class:`HostError`."""

    async def set_value(self, host_property: HostProperty, target: str, value: str) -> None:
        """Returns once reading it back gives ``value``. Raises as :meth:`value`, and :class:`HostBusy`."""

    async def obstacle(self, members: Sequence[str], target_driver: str) -> str:
        """Why these functions must not be bound to that driver now, and what to do (D-45); "" if nothing speaks against
        it."""

    async def vfio_nodes(self, address: str) -> tuple[str, ...]:
        """The device nodes by which a PCI function or an mdev is opened (D-30), once they exist. Raises
        :class:`HostError` if they don't appear."""

    async def holders(self, address: str) -> tuple[str, ...]:
        """The processes that have those nodes open, as ``name (pid)``; none for a device that is gone."""

    async def reset(self, members: Sequence[str]) -> None:
        """Resets functions, so that the next owner finds nothing in them (D-63). Raises :class:`TargetGone`,
        :class:`HostError`, :class:`HostBusy`."""

    async def erase(self, address: str) -> None:
        """Erases all that a function stores, verified. May take an hour. Raises as :meth:`reset`."""
