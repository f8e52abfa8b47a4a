"""The result of one reconcile of a VMI or VM, which either mode returns to the operator's loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from virt_dra.api.meta import Condition
from virt_dra.controllers.devices.inputs import DeviceInputs
from virt_dra.controllers.devices.metadata_files import FillInProblem
from virt_dra.controllers.events import Event

if TYPE_CHECKING:  # it needs the scheduler, which the inventory doesn't
    from virt_dra.scheduling.alignment import AlignmentRequest, AlignmentResult

NOT_ALLOCATABLE: Final = "DevicesNotAllocatable"
"""Event: the pod waits because its claims can't be allocated."""

Explain = Callable[[DeviceInputs, Condition | None], Condition | None]
"""Inputs of a VMI whose pod waits, and its condition Allocatable so far -> the new one, or None to leave it
unchanged."""


Align: TypeAlias = "Callable[[str, AlignmentRequest], AlignmentResult | None]"
"""A VMI's key and what its claims may ask for -> what they are to ask for; None: not known yet, the VMI is requeued."""


@dataclass(frozen=True)
class Reconciled:
    """What a reconcile did. ``events``: to emit, including those about refused writes. ``stale``: the plan was made
    from stale objects. ``requeue_at``: when time alone may change the plan. ``written``: the number of writes done."""

    events: tuple[Event, ...] = ()
    problems: tuple[FillInProblem, ...] = ()
    stale: bool = False
    requeue_at: datetime | None = None
    written: int = 0

    def combined_with(self, other: Self) -> Self:
        """The combined result of two reconciles, this one first."""
        return replace(
            self,
            events=(*self.events, *other.events),
            problems=(*self.problems, *other.problems),
            stale=self.stale or other.stale,
            requeue_at=earliest(self.requeue_at, other.requeue_at),
            written=self.written + other.written,
        )


NOTHING: Final = Reconciled()
"""Nothing is left to do about the object: it is gone, or has finished."""


def earliest(*moments: datetime | None) -> datetime | None:
    """The earliest of the times; None if there is none."""
    return min((moment for moment in moments if moment is not None), default=None)
