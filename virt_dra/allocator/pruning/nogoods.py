"""States in which the search failed: nothing is entered again in one of them.

A state is all that decides whether the search can succeed from some place on: `Check.state` says what still matters of the past, and
devices that are alike to everything upcoming are interchangeable in it, so which of them is taken doesn't matter, only how many.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from virt_dra.allocator.model import RESULT_LIMIT, Check, Choice
from virt_dra.allocator.pruning.interchangeability import Entry, Kinds
from virt_dra.allocator.steps import Enter, Outcome

_REMEMBERED_FAILURES = 100_000
"""Bounds the memory of one attempt; beyond it failures are found again."""


class State(NamedTuple):
    at: Enter
    held: int
    """Devices that the claim holds; 0 where its limit is too far away to matter."""
    checks: tuple[Hashable, ...]


class Memory:
    def __init__(
        self, entries: Sequence[Entry], kinds: Kinds, checks: Sequence[Sequence[Check]], chosen: Sequence[Sequence[Choice]]
    ) -> None:
        self._entries = entries
        self._kinds = kinds
        self._checks = checks
        self._chosen = chosen
        self._failures: dict[Enter, dict[State, Outcome]] = {}
        self._remembered = 0
        self._most = _most_from(entries)

    def state(self, at: Enter) -> State:
        """The state now, seen from ``at``."""
        claim, plan, _ = self._entries[at.entry]
        if at.alternative < 0:
            upcoming = self._kinds.upcoming(at.entry)
        else:
            upcoming = self._kinds.upcoming_within(at.entry, plan.alternatives[at.alternative].request, at.start)
        held = 0 if self.has_room(at) else len(self._chosen[claim])
        return State(at, held, tuple([check.state(upcoming) for check in self._checks[claim]]))

    def known(self, at: Enter) -> Outcome | None:
        """The outcome from here on, if an equal state is known to fail."""
        failures = self._failures.get(at)
        return None if failures is None else failures.get(self.state(at))

    def remember(self, state: State, outcome: Outcome) -> None:
        if self._remembered < _REMEMBERED_FAILURES:
            self._remembered += 1
            self._failures.setdefault(state.at, {})[state] = outcome

    def has_room(self, at: Enter) -> bool:
        """Whether the limit of the claim can play no part from here on that depends on what the claim holds already."""
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


def _most_from(entries: Sequence[Entry]) -> list[int]:
    """Per entry, the most devices that its claim's entries from there on can ask for."""
    most: list[int] = []
    for number in reversed(range(len(entries))):
        own = max(slots.count for slots in entries[number].plan.alternatives)
        same_claim = number + 1 < len(entries) and entries[number + 1].claim == entries[number].claim
        most.append(own + (most[-1] if same_claim else 0))
    return most[::-1]
