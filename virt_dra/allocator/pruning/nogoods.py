"""Nogood recording: states in which the search failed, so that an equal state isn't searched again (Schiex and
Verfaillie 1994).

A state is a relaxation of the partial assignment: only what can still influence the rest of the search. Each check
reduces its memory to that (`Check.state`), and counts interchangeable devices instead of naming them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from virt_dra.allocator.model import RESULT_LIMIT, Choice
from virt_dra.allocator.pruning.interchangeability import Interchangeability
from virt_dra.allocator.pruning_port import Position, Problem, RequestEntry, SearchOutcome


class ReducedState(NamedTuple):
    at: Position
    held: int
    """The number of devices that the claim holds; 0 where its limit of 32 is out of reach."""
    checks: tuple[Hashable, ...]


class Nogoods:
    """The failed states of one search, with the outcome of each."""

    def __init__(
        self, problem: Problem, symmetry: Interchangeability, chosen: Sequence[Sequence[Choice]], limit: int
    ) -> None:
        """``chosen``: the search's own list. ``limit``: the most states that are kept."""
        self._entries = problem.entries
        self._checks = problem.checks
        self._symmetry = symmetry
        self._chosen = chosen
        self._limit = limit
        self._failures: dict[Position, dict[ReducedState, SearchOutcome]] = {}
        self._count = 0
        self._most = _most_from(problem.entries)

    def state(self, at: Position) -> ReducedState:
        """The present state, for the search below ``at``."""
        claim, plan, _ = self._entries[at.entry]
        if at.alternative < 0:
            upcoming = self._symmetry.upcoming(at.entry)
        else:
            upcoming = self._symmetry.upcoming_within(at.entry, plan.alternatives[at.alternative].request, at.start)
        held = 0 if self.has_room(at) else len(self._chosen[claim])
        return ReducedState(at, held, tuple([check.state(upcoming) for check in self._checks[claim]]))

    def recorded(self, at: Position) -> SearchOutcome | None:
        """The outcome below ``at``, if the present state is recorded."""
        failures = self._failures.get(at)
        return None if failures is None else failures.get(self.state(at))

    def record(self, state: ReducedState, outcome: SearchOutcome) -> None:
        if self._count < self._limit:
            self._count += 1
            self._failures.setdefault(state.at, {})[state] = outcome

    def has_room(self, at: Position) -> bool:
        """True if the claim can't reach its limit from ``at`` on, or holds nothing yet: then the number it holds
        doesn't matter."""
        claim, plan, _ = self._entries[at.entry]
        held = len(self._chosen[claim])
        if held == 0:
            return True
        if at.alternative < 0:
            return held + self._most[at.entry] <= RESULT_LIMIT
        most = plan.alternatives[at.alternative].count - at.slot
        if at.entry + 1 < len(self._entries) and self._entries[at.entry + 1].claim == claim:
            most += self._most[at.entry + 1]
        return held + most <= RESULT_LIMIT


def _most_from(entries: Sequence[RequestEntry]) -> list[int]:
    """Per entry, the most devices that its claim's entries from there on can ask for."""
    most: list[int] = []
    for number in reversed(range(len(entries))):
        own = max(slots.count for slots in entries[number].plan.alternatives)
        same_claim = number + 1 < len(entries) and entries[number + 1].claim == entries[number].claim
        most.append(own + (most[-1] if same_claim else 0))
    return most[::-1]
