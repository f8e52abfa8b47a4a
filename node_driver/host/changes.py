"""One change of the host as a value: a property of a device that had one value and gets another.

Applying it sets ``after``, undoing it sets ``before``; both may be repeated. The checkpoint keeps changes, so that a
crash between any two steps can be undone (D-46, D-50).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class HostProperty(StrEnum):
    DRIVER = "driver"
    """Of a PCI function: the name of the driver that it is bound to, "" for none. Set by driver_override and probe."""
    MDEV = "mdev"
    """Of a UUID: ``parent/type``, "" if it doesn't exist."""
    VGPU_PROFILE = "vgpu-profile"
    """Of a VF: the type id of its vGPU profile, "0" for none (D-61)."""
    NETWORK_FUNCTION = "network-function"
    """Of a VF: its settings at the PF as JSON with sorted keys (D-62)."""


@dataclass(frozen=True, slots=True)
class HostChange:
    property: HostProperty
    target: str
    before: str
    after: str

    def reversed(self) -> HostChange:
        return HostChange(self.property, self.target, self.after, self.before)


class HostError(Exception):
    """A change that failed or can't be made. ``str(error)`` says what happened and what to do; it reaches the pod's
    Event (D-20)."""


class HostBusy(HostError):
    """The kernel hasn't answered within the limit; the attempt goes on, and a later call joins it (D-45)."""


class Host(Protocol):
    """What can be read and changed; the real one writes to sysfs in helper processes."""

    async def value(self, host_property: HostProperty, target: str) -> str:
        """What is now. Raises :class:`HostError` if the target doesn't exist."""

    async def set_value(self, host_property: HostProperty, target: str, value: str) -> None:
        """Returns once reading it back gives ``value``. Raises :class:`HostError`, :class:`HostBusy`."""
