"""What one reconcile of a VMI or VM returns to the operator's loop, in either mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Self

from virt_dra.api.meta import Condition
from virt_dra.controllers.devices.inputs import DeviceInputs
from virt_dra.controllers.devices.metadata_files import FillInProblem
from virt_dra.controllers.events import Event

Explain = Callable[[DeviceInputs, Condition | None], Condition | None]
"""Inputs of a VMI whose pod waits for a node, and the condition so far -> the condition Allocatable, or None to leave it as it is."""


@dataclass(frozen=True)
class Reconciled:
    """``again``: what was planned was old; plan anew once the sources have what changed. ``events``: to tell, refusals included."""

    events: tuple[Event, ...] = ()
    problems: tuple[FillInProblem, ...] = ()
    again: bool = False
    look_again: datetime | None = None
    written: int = 0

    def and_(self, other: Self) -> Self:
        """Both, done one after the other."""
        moments = [moment for moment in (self.look_again, other.look_again) if moment is not None]
        return replace(
            self,
            events=(*self.events, *other.events),
            problems=(*self.problems, *other.problems),
            again=self.again or other.again,
            look_again=min(moments, default=None),
            written=self.written + other.written,
        )


NOTHING = Reconciled()


NOT_ALLOCATABLE: Final = "DevicesNotAllocatable"
"""Event: the pod waits because its claims can't be allocated."""
