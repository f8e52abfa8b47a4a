"""The only backtracking: depth first, devices in a fixed order, the first complete solution wins (A-7).

It knows slots, filters and checks, and nothing about what they mean. Where the reference recurses there is a stack of frames here:
each frame is one choice that can still be changed. Two answers travel down that stack: NO, and TOO_MANY (the claim would exceed its
32 devices, so other devices of the same size can't help and only a smaller alternative can).

What finds its devices soon does nothing else. After `_PATIENCE` steps a failure makes the search ask what it can leave out
(shortcuts.py), without changing the answer or the error that is met. The work is bounded by a step budget, so that the outcome
doesn't depend on the machine, and can be interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from virt_dra.allocator.errors import DeadlineExceeded, Interrupt, StepLimitExceeded
from virt_dra.allocator.model import RESULT_LIMIT, Availability, Bound, Check, Choice, ClaimPlan, Device, Filter, Request, Slots
from virt_dra.allocator.observer import Observer
from virt_dra.allocator.pruning.interchangeability import Entry
from virt_dra.allocator.pruning.pruner import Shortcuts
from virt_dra.allocator.pruning.reportable import may_report
from virt_dra.allocator.steps import Enter, Outcome, Step

DEFAULT_STEP_LIMIT = 1_000_000
"""Steps (one device looked at, or one slot entered) before an attempt on one node is cut off: a few seconds."""

_LOOK_EVERY = 500
"""Steps between two looks at the interrupt: a few milliseconds."""

_PATIENCE = 64
"""Steps before shortcuts are looked for: finding them costs more than a short search does."""


class Frame(Protocol):
    def resume(self, outcome: Outcome) -> Step:
        """Everything after this choice failed: change it, or leave the stack and pass the failure on."""


class Search:
    """One attempt. ``chosen`` and ``selected`` are the solution after `run` returned True, and empty after False."""

    def __init__(
        self,
        claims: Sequence[ClaimPlan],
        candidates: Callable[[Request], Sequence[Device]],
        availability: Availability,
        filters: Sequence[Filter],
        checks: Sequence[Sequence[Check]],
        observer: Observer,
        step_limit: int = DEFAULT_STEP_LIMIT,
        bounds: Sequence[Bound] = (),
        interrupt: Interrupt | None = None,
    ) -> None:
        """``candidates``: devices for a request in the order of A-5.6, at least all that pass the filters or are an error to them.

        ``filters`` answer the same whatever is chosen, and aren't asked about devices that are given (mode All). ``checks`` has one
        sequence per claim, each with ``availability`` in it. ``bounds``: what may know that all requests together want too much.
        ``interrupt``: asked now and then whether to stop."""
        self.entries = [Entry(number, plan, i) for number, claim in enumerate(claims) for i, plan in enumerate(claim.requests)]
        self.candidates = candidates
        self.availability = availability
        self.filters = filters
        self.checks = checks
        self.observer = observer
        self.chosen: list[list[Choice]] = [[] for _ in claims]
        self.selected: dict[tuple[int, int], int] = {}
        self.solved = False
        self.steps = 0
        self.deepest = -1
        """The last of the entries that were reached."""
        self.refused_constraint: tuple[Request, Device] | None = None
        """The first device of an All request that a constraint refused (E18, AC-8)."""
        self.reports = may_report(claims, checks, self._add, self._remove)
        self.shortcuts: Shortcuts | None = None
        self.bounds = bounds
        self._step_limit = step_limit
        self._interrupt = interrupt
        self._look_at = min(step_limit, _LOOK_EVERY) if interrupt is not None else step_limit
        self._frames: list[Frame] = []

    def run(self) -> bool:
        """Raises :class:`FatalError` for broken selectors that are reached, :class:`StepLimitExceeded`, :class:`DeadlineExceeded`."""
        step: Step = Enter(0)
        while True:
            if isinstance(step, Enter):
                step = self._enter(step)
            elif step is Outcome.FOUND:
                self.solved = True
                return True
            elif not self._frames:
                return False
            else:
                step = self._frames[-1].resume(step)

    def _enter(self, at: Enter) -> Step:
        entries = self.entries
        if at.entry == len(entries):
            return Outcome.FOUND
        claim, plan, number = entries[at.entry]
        if at.alternative < 0:
            self.deepest = max(self.deepest, at.entry)
            if at.entry and entries[at.entry - 1].claim != claim:
                self._frames.append(_ClaimEnd(self))
            if self.shortcuts is not None and (known := self.shortcuts.known(at)) is not None:
                return known
            if plan.prioritized:
                frame = _Alternatives(self, at, (claim, number), len(plan.alternatives))
                self._frames.append(frame)
                return frame.advance()
            at = Enter(at.entry, 0)
        slots = plan.alternatives[at.alternative]
        if at.slot == 0:
            self.observer.entered(slots)
            if slots.fixed is not None and not slots.fixed:
                return self._failed(at, Outcome.NO)
        if at.slot >= slots.count:
            return Enter(at.entry + 1)
        if slots.count - at.slot > RESULT_LIMIT - len(self.chosen[claim]):
            self.observer.over_limit(slots.request)
            return Outcome.TOO_MANY
        if slots.fixed is not None:
            return self._place_fixed(at, slots.request, slots.fixed[at.slot])
        if at.slot and self.shortcuts is not None and (known := self.shortcuts.known(at)) is not None:
            return known
        scan = _Scan(self, at, slots)
        self._frames.append(scan)
        return scan.advance()

    def _place_fixed(self, at: Enter, request: Request, device: Device) -> Step:
        """Mode All: exactly this device or none; a failure of a constraint is remembered, it explains the outcome (AC-8)."""
        refused = self.place(request, device)
        if refused is None:
            self._frames.append(_Fixed(self, at, request, device))
            return Enter(at.entry, at.alternative, at.slot + 1)
        if self.refused_constraint is None and refused.constrains(request):
            self.refused_constraint = (request, device)
        return self._failed(at, Outcome.NO)

    def leave(self, at: Enter, outcome: Outcome) -> Outcome:
        """The top frame, made at ``at``, is done; the one below learns the outcome."""
        self._frames.pop()
        return self._failed(at, outcome)

    def _failed(self, at: Enter, outcome: Outcome) -> Outcome:
        """From ``at`` on there is nothing. If that leaves something to try, the shortcuts learn of it."""
        if self._frames:
            if self.shortcuts is None and self.steps >= _PATIENCE:
                self.shortcuts = Shortcuts(self)
            if self.shortcuts is not None:
                self.shortcuts.failed(at, outcome)
        return outcome

    def give_up(self) -> Outcome:
        """The top frame is done, for reasons that are known and will be met again, or because it was no choice."""
        self._frames.pop()
        return Outcome.NO

    def spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self._look_at:
            if self.steps > self._step_limit:
                raise StepLimitExceeded(self._step_limit)
            if self._interrupt is not None and self._interrupt():
                raise DeadlineExceeded
            self._look_at = min(self._step_limit, self.steps + _LOOK_EVERY)

    def admits(self, request: Request, device: Device) -> bool:
        if not self.availability.admits(request, device):
            self.observer.rejected(request, device, self.availability)
            return False
        for each in self.filters:
            if not each.admits(request, device):
                self.observer.rejected(request, device, each)
                return False
        return True

    def place(self, request: Request, device: Device) -> Check | None:
        """Add the device to every check of its claim. A refusal undoes what was added and returns the refusing check (A-10.5)."""
        refused = self._add(request, device)
        if refused is not None:
            self.observer.rejected(request, device, refused)
            return refused
        self.chosen[request.claim_index].append(Choice(request, device))
        self.observer.picked(request, device)
        return None

    def unplace(self, request: Request, device: Device) -> None:
        """The exact reverse of a successful `place`."""
        self.observer.backtracked(request, device)
        self.chosen[request.claim_index].pop()
        self._remove(request, device)

    def _add(self, request: Request, device: Device) -> Check | None:
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

    def _remove(self, request: Request, device: Device) -> None:
        for check in reversed(self.checks[request.claim_index]):
            check.remove(request, device)


class _ClaimEnd:
    """Between two claims. The limit is per claim, so TOO_MANY of a later claim is a plain NO for this one (A-7.2)."""

    __slots__ = ("_search",)

    def __init__(self, search: Search) -> None:
        self._search = search

    def resume(self, outcome: Outcome) -> Step:
        return self._search.give_up()


class _Alternatives:
    """firstAvailable: one alternative after the other. TOO_MANY only if every alternative was too many (A-7.2)."""

    __slots__ = ("_alternatives", "_at", "_key", "_next", "_only_too_many", "_search")

    def __init__(self, search: Search, at: Enter, key: tuple[int, int], alternatives: int) -> None:
        self._search = search
        self._at = at
        self._key = key
        self._alternatives = alternatives
        self._next = 0
        self._only_too_many = True

    def advance(self) -> Step:
        search, entry = self._search, self._at.entry
        shortcuts = search.shortcuts
        while self._next < self._alternatives:
            alternative = Enter(entry, self._next)
            self._next += 1
            if shortcuts is not None and shortcuts.looks_ahead and entry < shortcuts.last and shortcuts.refused(alternative):
                self._only_too_many = False
                continue
            search.selected[self._key] = alternative.alternative
            return alternative
        return self._leave(Outcome.TOO_MANY if self._only_too_many else Outcome.NO)

    def resume(self, outcome: Outcome) -> Step:
        if outcome is Outcome.NO:
            self._only_too_many = False
            shortcuts = self._search.shortcuts
            # All alternatives of the request that blocks everything are tried: the explanation shall name them.
            if shortcuts is not None and self._at.entry < self._search.deepest and shortcuts.hopeless(self._at):
                del self._search.selected[self._key]
                return self._search.give_up()
        return self.advance()

    def _leave(self, outcome: Outcome) -> Step:
        self._search.selected.pop(self._key, None)
        return self._search.leave(self._at, outcome)


class _Fixed:
    """One device of an All request. There is no other choice (A-9.4)."""

    __slots__ = ("_at", "_device", "_request", "_search")

    def __init__(self, search: Search, at: Enter, request: Request, device: Device) -> None:
        self._search = search
        self._at = at
        self._request = request
        self._device = device

    def resume(self, outcome: Outcome) -> Step:
        self._search.unplace(self._request, self._device)
        return self._search.leave(self._at, outcome)


class _Scan:
    """One slot of an ExactCount request: devices in order, each slot starting behind the one before it (combinations, A-7.1)."""

    __slots__ = ("_at", "_count", "_cursor", "_devices", "_placed", "_request", "_search", "_vain")

    def __init__(self, search: Search, at: Enter, slots: Slots) -> None:
        self._search = search
        self._at = at
        self._request = slots.request
        self._count = slots.count
        self._devices = search.candidates(slots.request)
        self._cursor = at.start
        self._placed: Device | None = None
        self._vain: set[Hashable] | None = None
        """What devices were like that led nowhere, once shortcuts are looked for."""

    def advance(self) -> Step:
        search, request, devices = self._search, self._request, self._devices
        for index in range(self._cursor, len(devices)):
            device = devices[index]
            if not search.admits(request, device):
                continue
            if self._vain and search.shortcuts is not None and search.shortcuts.likeness(self._at, device) in self._vain:
                continue
            if search.place(request, device) is None:
                entry, alternative, slot, _ = self._at
                after = Enter(entry, alternative, slot + 1, index + 1) if slot + 1 < self._count else Enter(entry + 1)
                shortcuts = search.shortcuts
                if shortcuts is not None and (self._vain is not None or shortcuts.looks_ahead) and shortcuts.refused(after):
                    search.unplace(request, device)
                    self._in_vain(shortcuts, device)
                    continue
                search.spend(index + 1 - self._cursor)
                self._cursor = index + 1
                self._placed = device
                return after
        search.spend(len(devices) - self._cursor)
        return search.leave(self._at, Outcome.NO)

    def resume(self, outcome: Outcome) -> Step:
        search, device = self._search, self._placed
        if device is None:
            raise AssertionError("only a scan that placed a device stays on the stack")
        search.unplace(self._request, device)
        self._placed = None
        if outcome is Outcome.TOO_MANY:
            return search.leave(self._at, outcome)  # no other device of this request can help
        shortcuts = search.shortcuts
        if shortcuts is not None:
            entry, alternative, slot, _ = self._at
            if shortcuts.hopeless(Enter(entry, alternative, slot, self._cursor)):
                return search.give_up()
            self._in_vain(shortcuts, device)
        return self.advance()

    def _in_vain(self, shortcuts: Shortcuts, device: Device) -> None:
        if self._vain is None:
            self._vain = set()
        likeness = shortcuts.likeness(self._at, device)
        if likeness is not None:
            self._vain.add(likeness)
