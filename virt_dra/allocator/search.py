"""Chronological backtracking: depth first, devices in a fixed order; the first complete assignment is the answer (A-7).

The variables are the slots of all requests, the domains their candidate devices. Filters and checks are the
constraints, and the search knows nothing about what they mean. Where Kubernetes' allocator recurses, this keeps a stack
of frames, each a choice that can still be changed: when everything after the choice has failed, its frame is resumed
with that outcome.

An optional pruner (pruning_port.py) skips subtrees without a solution. A step budget bounds the work, so that the
outcome doesn't depend on the machine; an interrupt ends it early. Rules such as A-7 are in docs/spec/allocation.md.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from virt_dra.allocator.errors import DeadlineExceeded, Interrupt, StepLimitExceeded
from virt_dra.allocator.model import RESULT_LIMIT, Check, Choice, PoolDevice, Request, Slots
from virt_dra.allocator.observer import SILENT, Observer
from virt_dra.allocator.pruning_port import NO_PRUNING, Move, Position, Problem, Pruner, SearchOutcome

DEFAULT_STEP_LIMIT = 1_000_000
"""Steps (one candidate tested, or one unit of a pruner's work) before an attempt on one node is cut off: a few
seconds."""

_POLL_INTERVAL = 500
"""Steps between two calls of the interrupt: a few milliseconds."""


class Frame(Protocol):
    def resume(self, outcome: SearchOutcome) -> Move:
        """Everything below the present choice failed: make the next choice or, if none is left, pop this frame and
        return the failure."""


class Search:
    """The search for one node. After `run` returned True, ``chosen`` and ``selected`` are the solution; after False
    they are empty."""

    def __init__(
        self,
        problem: Problem,
        observer: Observer = SILENT,
        pruner: Pruner = NO_PRUNING,
        *,
        step_limit: int = DEFAULT_STEP_LIMIT,
        interrupt: Interrupt | None = None,
    ) -> None:
        """``interrupt``: polled; True ends the search with DeadlineExceeded."""
        self.problem = problem
        self.pruner = pruner
        self.observer = observer
        self.chosen: list[list[Choice]] = [[] for _ in problem.claims]
        self.selected: dict[tuple[int, int], int] = {}
        """(claim, request) -> the alternative chosen, for firstAvailable requests."""
        self.solved = False
        self.steps = 0
        self.deepest = -1
        self.constraint_refusal: tuple[Request, PoolDevice] | None = None
        self._entries = problem.entries
        self._add = problem.add
        self._availability = problem.availability
        self._filters = problem.filters
        self._step_limit = step_limit
        self._interrupt = interrupt
        self._next_poll = min(step_limit, _POLL_INTERVAL) if interrupt is not None else step_limit
        self._frames: list[Frame] = []
        pruner.start(self)

    def run(self) -> bool:
        """Search; True if there is a solution. Raises :class:`FatalError` for broken selectors that are reached,
        :class:`StepLimitExceeded`, :class:`DeadlineExceeded`."""
        move: Move = Position(0)
        while True:
            if isinstance(move, Position):
                move = self._enter(move)
            elif move is SearchOutcome.FOUND:
                self.solved = True
                return True
            elif not self._frames:
                return False
            else:
                move = self._frames[-1].resume(move)

    def _enter(self, at: Position) -> Move:
        entries = self._entries
        if at.entry == len(entries):
            return SearchOutcome.FOUND
        claim, plan, number = entries[at.entry]
        if at.alternative < 0:
            self.deepest = max(self.deepest, at.entry)
            if at.entry and entries[at.entry - 1].claim != claim:
                self._frames.append(_ClaimEnd(self))
            if self.pruner.active and (failure := self.pruner.known_failure(at)) is not None:
                return failure
            if plan.prioritized:
                frame = _Alternatives(self, at, (claim, number), len(plan.alternatives))
                self._frames.append(frame)
                return frame.advance()
            at = Position(at.entry, 0)
        slots = plan.alternatives[at.alternative]
        if at.slot == 0:
            self.observer.entered(slots)
            if slots.fixed is not None and not slots.fixed:
                return self._fail(at, SearchOutcome.FAILED)
        if at.slot >= slots.count:
            return Position(at.entry + 1)
        if slots.count - at.slot > RESULT_LIMIT - len(self.chosen[claim]):
            self.observer.over_limit(slots.request)
            return SearchOutcome.TOO_MANY
        if slots.fixed is not None:
            return self._place_fixed(at, slots.request, slots.fixed[at.slot])
        if at.slot and self.pruner.active and (failure := self.pruner.known_failure(at)) is not None:
            return failure
        scan = _Scan(self, at, slots)
        self._frames.append(scan)
        return scan.advance()

    def _place_fixed(self, at: Position, request: Request, device: PoolDevice) -> Move:
        """Place a device of mode All, which nothing can replace. The first refusal by a constraint is kept: it becomes
        the error (AC-8)."""
        refused = self.place(request, device)
        if refused is None:
            self._frames.append(_Fixed(self, at, request, device))
            return Position(at.entry, at.alternative, at.slot + 1)
        if self.constraint_refusal is None and refused.constrains(request):
            self.constraint_refusal = (request, device)
        return self._fail(at, SearchOutcome.FAILED)

    def exhausted(self, at: Position, outcome: SearchOutcome) -> SearchOutcome:
        """Pop the top frame, which was pushed at ``at`` and has no choice left."""
        self._frames.pop()
        return self._fail(at, outcome)

    def _fail(self, at: Position, outcome: SearchOutcome) -> SearchOutcome:
        """There is no solution below ``at``. The pruner learns of it unless the whole search ends."""
        if self._frames:
            self.pruner.failed(at, outcome)
        return outcome

    def backjump(self) -> SearchOutcome:
        """Pop the top frame: its other choices are known to fail too, or it has none."""
        self._frames.pop()
        return SearchOutcome.FAILED

    def spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self._next_poll:
            if self.steps > self._step_limit:
                raise StepLimitExceeded(self._step_limit)
            if self._interrupt is not None and self._interrupt():
                raise DeadlineExceeded
            self._next_poll = min(self._step_limit, self.steps + _POLL_INTERVAL)

    def admits(self, request: Request, device: PoolDevice) -> bool:
        if not self._availability.admits(request, device):
            self.observer.rejected(request, device, self._availability)
            return False
        for filter_ in self._filters:
            if not filter_.admits(request, device):
                self.observer.rejected(request, device, filter_)
                return False
        return True

    def place(self, request: Request, device: PoolDevice) -> Check | None:
        """Choose the device. If a check refuses it, returns that check and changes nothing."""
        refused = self._add(request, device)
        if refused is not None:
            self.observer.rejected(request, device, refused)
            return refused
        self.chosen[request.claim_index].append(Choice(request, device))
        self.observer.picked(request, device)
        return None

    def unplace(self, request: Request, device: PoolDevice) -> None:
        """The exact reverse of a successful `place`."""
        self.observer.backtracked(request, device)
        self.chosen[request.claim_index].pop()
        self.problem.remove(request, device)


class _ClaimEnd:
    """The boundary between two claims. It turns TOO_MANY of the later one into FAILED for the earlier: the limit is per
    claim (A-7.2)."""

    __slots__ = ("_search",)

    def __init__(self, search: Search) -> None:
        self._search = search

    def resume(self, outcome: SearchOutcome) -> Move:
        return self._search.backjump()


class _Alternatives:
    """A firstAvailable request: tries one alternative after the other. Its outcome is TOO_MANY only if that of each one
    was (A-7.2)."""

    __slots__ = ("_alternatives", "_at", "_key", "_next", "_only_too_many", "_search")

    def __init__(self, search: Search, at: Position, key: tuple[int, int], alternatives: int) -> None:
        self._search = search
        self._at = at
        self._key = key
        self._alternatives = alternatives
        self._next = 0
        self._only_too_many = True

    def advance(self) -> Move:
        search, pruner = self._search, self._search.pruner
        while self._next < self._alternatives:
            alternative = Position(self._at.entry, self._next)
            self._next += 1
            if pruner.active and pruner.prunes_alternative(alternative):
                self._only_too_many = False
                continue
            search.selected[self._key] = alternative.alternative
            return alternative
        search.selected.pop(self._key, None)
        return search.exhausted(self._at, SearchOutcome.TOO_MANY if self._only_too_many else SearchOutcome.FAILED)

    def resume(self, outcome: SearchOutcome) -> Move:
        search = self._search
        if outcome is SearchOutcome.FAILED:
            self._only_too_many = False
            if search.pruner.active and search.pruner.prunes_siblings(self._at):
                del search.selected[self._key]
                return search.backjump()
        return self.advance()


class _Fixed:
    """One device of an All request, for which there is no other choice (A-9.4)."""

    __slots__ = ("_at", "_device", "_request", "_search")

    def __init__(self, search: Search, at: Position, request: Request, device: PoolDevice) -> None:
        self._search = search
        self._at = at
        self._request = request
        self._device = device

    def resume(self, outcome: SearchOutcome) -> Move:
        self._search.unplace(self._request, self._device)
        return self._search.exhausted(self._at, outcome)


class _Scan:
    """One slot of an ExactCount request: scans its candidates in order, from behind the one of the slot before
    (combinations, A-7.1)."""

    __slots__ = ("_at", "_count", "_cursor", "_devices", "_failed", "_placed", "_request", "_search")

    def __init__(self, search: Search, at: Position, slots: Slots) -> None:
        self._search = search
        self._at = at
        self._request = slots.request
        self._count = slots.count
        self._devices = search.problem.candidates(slots.request)
        self._cursor = at.start
        self._placed: PoolDevice | None = None
        self._failed: set[Hashable] | None = None
        """The symmetry classes of devices that failed in this slot since the pruner became active; None: no device has
        failed."""

    def advance(self) -> Move:
        search, request, devices, pruner = self._search, self._request, self._devices, self._search.pruner
        for index in range(self._cursor, len(devices)):
            device = devices[index]
            if not search.admits(request, device):
                continue
            if self._failed and pruner.symmetry(self._at, device) in self._failed:
                continue
            if search.place(request, device) is None:
                entry, alternative, slot, _ = self._at
                after = (
                    Position(entry, alternative, slot + 1, index + 1) if slot + 1 < self._count else Position(entry + 1)
                )
                if pruner.active and pruner.prunes_choice(after, retry=self._failed is not None):
                    search.unplace(request, device)
                    self._add_failed(device)
                    continue
                search.spend(index + 1 - self._cursor)
                self._cursor = index + 1
                self._placed = device
                return after
        search.spend(len(devices) - self._cursor)
        return search.exhausted(self._at, SearchOutcome.FAILED)

    def resume(self, outcome: SearchOutcome) -> Move:
        search, device = self._search, self._placed
        if device is None:
            raise AssertionError("only a scan that placed a device stays on the stack")
        search.unplace(self._request, device)
        self._placed = None
        if outcome is SearchOutcome.TOO_MANY:
            return search.exhausted(self._at, outcome)  # no other device of this request can help
        if search.pruner.active:
            entry, alternative, slot, _ = self._at
            if search.pruner.prunes_siblings(Position(entry, alternative, slot, self._cursor)):
                return search.backjump()
            self._add_failed(device)
        return self.advance()

    def _add_failed(self, device: PoolDevice) -> None:
        if self._failed is None:
            self._failed = set()
        symmetry = self._search.pruner.symmetry(self._at, device)
        if symmetry is not None:
            self._failed.add(symmetry)
