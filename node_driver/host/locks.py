"""The port to locks that the driver's instances on a node share (D-8, D-58)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from node_driver.host.changes import HostBusy


class LockBusy(HostBusy):
    """Somebody else holds a lock for longer than the limit."""


class Locks(Protocol):
    def hold(self, names: Iterable[str], *, limit: float) -> AbstractAsyncContextManager[None]:
        """Holds all the locks, which are taken in one order everywhere. Raises :class:`LockBusy` after ``limit``
        seconds. A process that dies releases its locks."""
