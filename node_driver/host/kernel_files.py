"""The port to the kernel's files: sysfs, /dev and /proc of the node.

Looking at names and links is immediate. Reading and writing an attribute may wait for a lock that a stuck operation
holds, beyond any signal (``driver_override`` takes the device's lock even for reading), so it is done in a helper
process with a limit (D-45).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

LIMIT: Final = 15.0
"""Seconds that the kernel has for the operations of one call."""


@dataclass(frozen=True, slots=True)
class AttributeRead:
    """The attribute's text without the newline at its end."""

    path: str


@dataclass(frozen=True, slots=True)
class AttributeWrite:
    path: str
    text: str


KernelOperation = AttributeRead | AttributeWrite


class KernelFiles(Protocol):
    """Paths are absolute, as on the node: ``/sys/bus/pci/...``."""

    def exists(self, path: str) -> bool: ...

    def link(self, path: str) -> str:
        """The last part of what a link points to, "" if there is none."""

    def names(self, path: str) -> tuple[str, ...]:
        """What is in a folder, sorted; nothing if there is no folder."""

    def is_character_device(self, path: str) -> bool: ...

    async def holders(self, nodes: frozenset[str]) -> tuple[str, ...]:
        """The processes that have one of the nodes open, as ``name (pid)``."""

    async def needed_functions(self, *, addresses: bool) -> Mapping[str, str]:
        """The PCI functions that the node itself needs now, with why. ``addresses``: also those of interfaces that have
        an IPv4 address and no route, for which the kernel's lock of interfaces is waited for."""

    async def operate(self, target: str, *operations: KernelOperation, limit: float = LIMIT) -> tuple[str, ...]:
        """Carries out operations on one device in order and returns what was read. Operations on one target wait for
        each other; without any it only waits. Raises :class:`OSError` with the path for the first that the kernel
        refuses, which ends it, and :class:`~node_driver.host.changes.HostBusy`."""

    async def sleep(self, seconds: float) -> None: ...
