"""Watching the search. The search runs with the observer that does nothing; only to explain a failure it runs again, watched."""

from __future__ import annotations

from typing import Protocol

from virt_dra.allocator.model import Device, Refuses, Request, Slots


class Observer(Protocol):
    def entered(self, slots: Slots) -> None:
        """The search begins to fill a request (or one alternative of it)."""

    def picked(self, request: Request, device: Device) -> None:
        """The device was placed."""

    def rejected(self, request: Request, device: Device, by: Refuses) -> None:
        """``by`` refused the device; `by.explain` may be asked now, not later."""

    def backtracked(self, request: Request, device: Device) -> None:
        """The device was taken back."""

    def over_limit(self, request: Request) -> None:
        """The claim would get more devices than a result can hold."""


class Silent:
    """Does nothing."""

    def entered(self, slots: Slots) -> None: ...

    def picked(self, request: Request, device: Device) -> None: ...

    def rejected(self, request: Request, device: Device, by: Refuses) -> None: ...

    def backtracked(self, request: Request, device: Device) -> None: ...

    def over_limit(self, request: Request) -> None: ...


SILENT = Silent()
