"""The port through which the search asks a pruner (pruning/) what it may skip: only what can't change the first
solution or the error. The base class skips nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple, Protocol

from virt_dra.allocator.model import (
    Availability,
    Check,
    Choice,
    ClaimPlan,
    Filter,
    PoolDevice,
    Request,
    RequestPlan,
    Slots,
)


class SearchOutcome(Enum):
    FOUND = "found"
    FAILED = "failed"
    TOO_MANY = "too many devices"
    """The claim would exceed its 32 devices: other devices of the same request can't help, only a smaller alternative
    can."""


class Position(NamedTuple):
    """A node of the search tree: the slot to fill next, with devices from index ``start`` of the request's candidates
    on."""

    entry: int
    """Index in `Problem.entries`."""
    alternative: int = -1
    """-1: none is chosen yet."""
    slot: int = 0
    start: int = 0


Move = Position | SearchOutcome
"""Descend to a position, or report an outcome to the frame on top of the stack."""


class RequestEntry(NamedTuple):
    """One entry of a claim's ``spec.devices.requests``."""

    claim: int
    plan: RequestPlan
    number: int
    """Index among the requests of its claim."""


@dataclass(frozen=True)
class Problem:
    """The problem that a search solves: the requests of all claims in order, their candidates, and the constraints on
    them."""

    claims: Sequence[ClaimPlan]
    candidates: Callable[[Request], Sequence[PoolDevice]]
    """Devices for a request in the order of A-5.6: a superset of those that pass all filters or make one raise an
    error."""
    availability: Availability
    filters: Sequence[Filter]
    """They don't depend on what is chosen, and don't apply to fixed devices (mode All)."""
    checks: Sequence[Sequence[Check]]
    """Of each claim; every sequence includes ``availability``."""

    @cached_property
    def entries(self) -> Sequence[RequestEntry]:
        return [
            RequestEntry(number, plan, i)
            for number, claim in enumerate(self.claims)
            for i, plan in enumerate(claim.requests)
        ]

    def devices(self, slots: Slots) -> Sequence[PoolDevice]:
        """The domain of the slots: fixed devices, or candidates."""
        return self.candidates(slots.request) if slots.fixed is None else slots.fixed

    def add(self, request: Request, device: PoolDevice) -> Check | None:
        """Add the device to every check of its claim. If a check refuses it, undoes what was added and returns that
        check (A-10.5)."""
        checks = self.checks[request.claim_index]
        added = 0
        refused: Check | None = None
        try:
            for check in checks:
                if not check.add(request, device):
                    refused = check
                    break
                added += 1
        finally:
            if added < len(checks):  # one refused, or raised
                for check in reversed(checks[:added]):
                    check.remove(request, device)
        return refused

    def remove(self, request: Request, device: PoolDevice) -> None:
        """The exact reverse of a successful `add`."""
        for check in reversed(self.checks[request.claim_index]):
            check.remove(request, device)


class SearchState(Protocol):
    """A running search, as its pruner sees it."""

    problem: Problem
    chosen: list[list[Choice]]
    """Per claim, in the order of choice."""
    steps: int
    deepest: int
    """Index of the last entry that was reached."""
    constraint_refusal: tuple[Request, PoolDevice] | None
    """The first device of an All request that a constraint refused, which will be reported if there is no solution
    (AC-8)."""

    def spend(self, steps: int) -> None:
        """Charge the pruner's own work to the search's budget. Raises Aborted."""


class Pruner:
    """The port. By itself it skips nothing: the search is plain backtracking."""

    active = False
    """While False the search calls only `failed`."""

    def start(self, search: SearchState) -> None:
        """Called once, before anything is chosen."""

    def failed(self, at: Position, outcome: SearchOutcome) -> None:
        """There is no solution below ``at``; everything chosen below it is undone. May set ``active``."""

    def known_failure(self, at: Position) -> SearchOutcome | None:
        """The outcome of the search below ``at``, if an equal state is known to fail."""
        return None

    def prunes_alternative(self, at: Position) -> bool:
        """True if the alternative, not entered yet, can't lead to a solution."""
        return False

    def prunes_choice(self, after: Position, *, retry: bool) -> bool:
        """True if the device just placed leaves no solution from ``after`` on. ``retry``: another device failed in its
        place."""
        return False

    def prunes_siblings(self, at: Position) -> bool:
        """True if, after a choice at ``at`` failed, every other choice there fails too: the search backjumps."""
        return False

    def symmetry(self, at: Position, device: PoolDevice) -> Hashable | None:
        """Equal for devices that are interchangeable at ``at``; None: unknown."""
        return None


NO_PRUNING = Pruner()
