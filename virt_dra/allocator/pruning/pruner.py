"""What the search leaves out once it has worked in vain for a while. None of it changes the answer, nor which error is met.

* *Memory* (memory.py): nothing is entered again in a state in which it failed before.
* *Counting* (bounds.py): what can't be completed because too little is left is not tried.
* *Likeness* (kinds.py): if one device didn't lead anywhere in a place, one that is alike to everything upcoming won't either.
* *Blame*: a failure for which the choice just undone is not to blame (the state it failed in is still the state without the choice)
  is there whatever is chosen instead. If nothing chosen is to blame, or the counting refuses even the empty choice, the search is over.

All but the memory pass over places where the plain search would look. They may, as long as nothing there has to be met: a device that
is an error (a failing selector), or a refusal that is reported (reports.py). Choosing more never makes anything possible, so what fails
for good reasons fails with more chosen, too, and requests behind the deepest one reached would not be reached there either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING

from virt_dra.allocator.model import Device
from virt_dra.allocator.pruning.interchangeability import Kinds
from virt_dra.allocator.pruning.lower_bounds import Bounds
from virt_dra.allocator.pruning.nogoods import Memory, State
from virt_dra.allocator.steps import Enter, Outcome

if TYPE_CHECKING:
    from virt_dra.allocator.search import Search


_LOOK_AHEAD = 300
"""Steps before requests that weren't reached yet are counted too."""


class Shortcuts:
    def __init__(self, search: Search) -> None:
        self._search = search
        self._entries = search.entries
        self._kinds = Kinds(
            search.entries, search.candidates, search.availability, search.filters, search.checks, search.reports, search.spend
        )
        self._memory = Memory(search.entries, self._kinds, search.checks, search.chosen)
        self._bounds = Bounds(search.entries, self._kinds, search.checks, search.spend)
        self._blamed: State | None = None
        """The state in which the entry failed that everything fails with."""
        self._over = False
        self._counted_from_the_start = -1
        self._looked_through = (0, False)
        self._last_blemished = -1
        self._horizon = -1

    def known(self, at: Enter) -> Outcome | None:
        """The outcome from here on, if it is known."""
        return self._memory.known(at)

    def failed(self, at: Enter, outcome: Outcome) -> None:
        """From here on the search failed. Everything after it is undone, so the state is the one it was entered with."""
        if self._over:
            return
        state = self._memory.state(at)
        self._memory.remember(state, outcome)
        if outcome is not Outcome.NO or not self._begins_entry(at) or self._blamed is not None or not self._memory.has_room(at):
            return
        self._blamed = state
        if not self._clean(0):
            return
        if all(each is None for each in state.checks):
            self._over = True
        elif self._counted_from_the_start < self._search.deepest:
            self._counted_from_the_start = self._search.deepest
            self._over = self._bounds.refuse(Enter(0), (), self._search.deepest) or self._lacks()

    def hopeless(self, at: Enter) -> bool:
        """After a choice at ``at`` was undone, or before the next alternative: whether all that could be chosen instead fails too."""
        if self._over:
            return True
        if self._blamed is not None:
            if self._may_skip(at) and self._memory.state(self._blamed.at) == self._blamed:
                return True
            self._blamed = None
        return self.refused(at)

    def refused(self, at: Enter) -> bool:
        """Whether counting proves that what is chosen can't be completed from here on."""
        last = self.last
        return at.entry <= last and self._may_skip(at) and self._bounds.refuse(at, self._search.chosen, last)

    @property
    def looks_ahead(self) -> bool:
        """Whether the search took so long that every choice is worth counting."""
        if self._horizon < 0 and self._search.steps >= _LOOK_AHEAD:
            self._horizon = self._furthest()
        return self._horizon >= 0

    @property
    def last(self) -> int:
        """The last entry that is counted: the deepest one reached, or further ahead, where nothing on the way has to be met."""
        return max(self._search.deepest, self._horizon) if self.looks_ahead else self._search.deepest

    def _furthest(self) -> int:
        """The last entry up to which all may be looked at, and which counting doesn't refuse: what is refused is to be reached, so
        that the explanation names it."""
        low, high = self._search.deepest, self._search.deepest
        while high + 1 < len(self._entries) and not self._blemished(high + 1, reported=False):
            high += 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._bounds.refuse(Enter(0), (), middle):
                high = middle - 1
            else:
                low = middle
        return low

    def likeness(self, at: Enter, device: Device) -> Hashable:
        """Equal for devices that are interchangeable in this place; None if this may not be used.

        Devices that were chosen already are alike if they were, and still are, alike to the same requests."""
        if not self._may_skip(at):
            return None
        request = self._entries[at.entry].plan.alternatives[at.alternative].request
        kind = self._kinds.upcoming_within(at.entry, request, 0).kind(device)
        before = [
            (claim, self._kinds.look(choice.request), self._kinds.of(choice.request, device))
            for claim, choices in enumerate(self._search.chosen)
            for choice in choices
            if choice.device is device
        ]
        return (kind, frozenset(Counter(before).items())) if before else kind

    def _lacks(self) -> bool:
        """Whether all requests together want more than there is, also those not reached yet."""
        if not self._search.bounds or not self._clean(0, len(self._entries)):
            return False
        wanted = [
            [
                (slots, [each for each in self._kinds.devices(slots) if self._kinds.of(slots.request, each) is not None])
                for slots in plan.alternatives
            ]
            for _, plan, _ in self._entries
        ]
        devices = {device for alternatives in wanted for _, suiting in alternatives for device in suiting}
        return any(bound.lacks(wanted) for bound in self._search.bounds if any(map(bound.concerns, devices)))

    def _begins_entry(self, at: Enter) -> bool:
        return at.slot == 0 and (at.alternative < 0 or not self._entries[at.entry].plan.prioritized)

    def _may_skip(self, at: Enter) -> bool:
        """Whether passing over what comes from here on hides nothing.

        Where the limit of the claim matters, its earlier requests count too: it decides how much of them is tried again."""
        if self._memory.has_room(at):
            return self._clean(at.entry)
        first = at.entry
        while first > 0 and self._entries[first - 1].claim == self._entries[at.entry].claim:
            first -= 1
        return self._clean(first)

    def _clean(self, first: int, end: int | None = None) -> bool:
        """Whether nothing has to be met from entry ``first`` to the deepest one reached, or before entry ``end``."""
        if end is None:
            end = self.last + 1
        reported = self._search.refused_constraint is not None
        if self._looked_through != (end, reported):
            self._looked_through = (end, reported)
            self._last_blemished = max((entry for entry in range(end) if self._blemished(entry, reported)), default=-1)
        return first > self._last_blemished

    def _blemished(self, entry: int, reported: bool) -> bool:
        """Whether some device is an error to the entry, or a refusal of it would have to be reported."""
        if self._kinds.broken(entry):
            return True
        return not reported and any(self._kinds.reported(slots.request) for slots in self._entries[entry].plan.alternatives)
