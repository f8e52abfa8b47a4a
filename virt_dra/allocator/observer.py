"""Observers of the search. The base class ignores everything; another one is used only to repeat a failed search and
explain it."""

from __future__ import annotations

from virt_dra.allocator.model import PoolDevice, RejectingFeature, Request, Slots


class Observer:
    def entered(self, slots: Slots) -> None:
        """The search begins to fill a request (or one alternative of it)."""

    def picked(self, request: Request, device: PoolDevice) -> None:
        """The device was placed."""

    def rejected(self, request: Request, device: PoolDevice, by: RejectingFeature) -> None:
        """``by`` refused the device; `by.explain` may be called now, not later."""

    def backtracked(self, request: Request, device: PoolDevice) -> None:
        """The device was taken back."""

    def over_limit(self, request: Request) -> None:
        """The claim would get more devices than a result can hold."""


SILENT = Observer()
