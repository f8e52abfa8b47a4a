"""The pruner: combines the techniques of this package once a search has taken long.

* *Nogood recording* (nogoods.py): a state that failed isn't searched again.
* *Lower bounds* (lower_bounds.py): a partial assignment that provably can't be completed is refuted without search.
* *Symmetry breaking* (interchangeability.py): after a device failed in a slot, devices interchangeable with it are
  skipped there.
* *Conflict-directed backjumping* (Prosser 1993, with the reduced state in place of a conflict set): if an entry fails
  in a state that is the same without the last choice, that choice isn't part of the conflict, and its alternatives fail
  too. If no choice is part of it, or the lower bound refutes even the empty assignment, the search ends.

All but nogood recording skip places that the plain search would visit. That is sound because constraints are monotone:
choosing more never makes anything possible. It must not hide what the plain search would *report*: a device that is an
error (failing selector), or a refusal that becomes the error (reportable.py). Entries where that can happen are never
skipped (`_may_skip`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from math import inf

from virt_dra.allocator.effort import DEFAULT_EFFORT, Effort
from virt_dra.allocator.model import Bound, PoolDevice, Slots
from virt_dra.allocator.pruning.interchangeability import Interchangeability
from virt_dra.allocator.pruning.lower_bounds import LowerBounds
from virt_dra.allocator.pruning.nogoods import Nogoods, ReducedState
from virt_dra.allocator.pruning.reportable import reportable
from virt_dra.allocator.pruning_port import Position, Pruner, SearchOutcome, SearchState


class SearchPruner(Pruner):
    """Prunes one search. Active after ``effort.patience`` steps and a failure."""

    _search: SearchState
    _symmetry: Interchangeability
    _nogoods: Nogoods
    _lower_bounds: LowerBounds

    def __init__(self, bounds: Sequence[Bound] = (), effort: Effort = DEFAULT_EFFORT) -> None:
        """``bounds``: relaxations of the whole problem that the features know."""
        self._bounds = bounds
        self._effort = effort
        self._patience = inf if effort.patience is None else effort.patience
        self._conflict: ReducedState | None = None
        """The state in which an entry failed; while it stays the same, choices before it aren't part of the
        conflict."""
        self._over = False
        """The whole search is known to fail."""
        self._refuted_up_to = -1
        """The entry up to which the empty assignment was last tried to be refuted."""
        self._last_unskippable: dict[tuple[int, bool], int] = {}
        """(end, reported) -> the last entry before ``end`` that may not be skipped, -1 if all may."""
        self._horizon = -1

    def start(self, search: SearchState) -> None:
        self._search = search
        self._problem = search.problem
        self._entries = search.problem.entries
        self._reportable = reportable(search.problem)

    def _activate(self) -> None:
        self.active = True
        search, problem = self._search, self._problem
        self._symmetry = Interchangeability(problem, self._reportable, search.spend)
        self._nogoods = Nogoods(problem, self._symmetry, search.chosen, self._effort.nogoods)
        self._lower_bounds = LowerBounds(problem, self._symmetry, search.spend, self._effort)

    def failed(self, at: Position, outcome: SearchOutcome) -> None:
        if not self.active:
            if self._search.steps < self._patience:
                return
            self._activate()
        if self._over:
            return
        state = self._nogoods.state(at)  # everything below is undone, so it is the state in which ``at`` was entered
        self._nogoods.record(state, outcome)
        begins_entry = at.slot == 0 and (at.alternative < 0 or not self._entries[at.entry].plan.prioritized)
        if (
            outcome is not SearchOutcome.FAILED
            or not begins_entry
            or self._conflict is not None
            or not self._nogoods.has_room(at)
        ):
            return
        self._conflict = state
        if not self._skippable(0):
            return
        deepest = self._search.deepest
        if all(check_state is None for check_state in state.checks):
            self._over = True
        elif self._refuted_up_to < deepest:
            self._refuted_up_to = deepest
            self._over = self._lower_bounds.refutes(Position(0), (), deepest) or self.violates_bound()

    def known_failure(self, at: Position) -> SearchOutcome | None:
        return self._nogoods.recorded(at)

    def prunes_alternative(self, at: Position) -> bool:
        return self._looks_ahead() and at.entry < self._last() and self._refuted(at)

    def prunes_choice(self, after: Position, *, retry: bool) -> bool:
        return (retry or self._looks_ahead()) and self._refuted(after)

    def prunes_siblings(self, at: Position) -> bool:
        # All alternatives of the deepest entry are tried: the explanation is to name them.
        if at.alternative < 0 and at.entry >= self._search.deepest:
            return False
        if self._over:
            return True
        if self._conflict is not None:
            if self._may_skip(at) and self._nogoods.state(self._conflict.at) == self._conflict:
                return True
            self._conflict = None
        return self._refuted(at)

    def symmetry(self, at: Position, device: PoolDevice) -> Hashable | None:
        """Devices that hold something already are interchangeable if they are so for the requests that chose them,
        too."""
        if not self._may_skip(at):
            return None
        request = self._entries[at.entry].plan.alternatives[at.alternative].request
        key = self._symmetry.upcoming_within(at.entry, request, 0).symmetry(device)
        before = [
            (claim, self._symmetry.group(choice.request), self._symmetry.key(choice.request, device))
            for claim, choices in enumerate(self._search.chosen)
            for choice in choices
            if choice.device is device
        ]
        return (key, frozenset(Counter(before).items())) if before else key

    def _refuted(self, at: Position) -> bool:
        """True if a lower bound proves that what is chosen can't be completed from ``at`` on."""
        last = self._last()
        return at.entry <= last and self._may_skip(at) and self._lower_bounds.refutes(at, self._search.chosen, last)

    def _looks_ahead(self) -> bool:
        """True once the search has taken so long that a bound for every choice pays."""
        if self._horizon < 0 and self._search.steps >= self._effort.look_ahead:
            self._horizon = self._furthest()
        return self._horizon >= 0

    def _last(self) -> int:
        """The last entry that bounds count: the deepest one reached, or the horizon."""
        return max(self._search.deepest, self._horizon) if self._looks_ahead() else self._search.deepest

    def _furthest(self) -> int:
        """The last entry up to which entries may be skipped and the bound doesn't refute the empty assignment: an entry
        that makes the problem infeasible has to be reached, for the explanation to name it."""
        low, high = self._search.deepest, self._search.deepest
        while high + 1 < len(self._entries) and not self._unskippable(high + 1, reported=False):
            high += 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._lower_bounds.refutes(Position(0), (), middle):
                high = middle - 1
            else:
                low = middle
        return low

    def violates_bound(self) -> bool:
        """True if all requests together, also those not reached yet, exceed a bound of some feature."""
        if not self._bounds or not self._skippable(0, len(self._entries)):
            return False
        wanted = [[(slots, self._allowed(slots)) for slots in plan.alternatives] for _, plan, _ in self._entries]
        devices = {device for alternatives in wanted for _, candidates in alternatives for device in candidates}
        return any(bound.exceeded(wanted, self._effort) for bound in self._bounds if any(map(bound.concerns, devices)))

    def _allowed(self, slots: Slots) -> Sequence[PoolDevice]:
        """The devices that could fill one of the slots if nothing else were chosen."""
        key, request = self._symmetry.key, slots.request
        return [device for device in self._problem.devices(slots) if key(request, device) is not None]

    def _may_skip(self, at: Position) -> bool:
        """True if skipping everything below ``at`` hides nothing that is reported. Where the claim's limit can be
        reached, its earlier entries count too: the limit decides which of them are tried again."""
        if self._nogoods.has_room(at):
            return self._skippable(at.entry)
        first = at.entry
        while first > 0 and self._entries[first - 1].claim == self._entries[at.entry].claim:
            first -= 1
        return self._skippable(first)

    def _skippable(self, first: int, end: int | None = None) -> bool:
        """True if all entries from ``first`` up to ``end`` (default: the last one counted) may be skipped."""
        if end is None:
            end = self._last() + 1
        reported = self._search.constraint_refusal is not None
        last = self._last_unskippable.get((end, reported))
        if last is None:
            last = max((entry for entry in range(end) if self._unskippable(entry, reported)), default=-1)
            self._last_unskippable[end, reported] = last
        return first > last

    def _unskippable(self, entry: int, reported: bool) -> bool:
        """True if some device is an error to the entry, or a refusal of it would be reported (only the first one
        is)."""
        if self._symmetry.broken(entry):
            return True
        return not reported and any(
            self._symmetry.reportable(slots.request) for slots in self._entries[entry].plan.alternatives
        )
