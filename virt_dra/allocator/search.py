"""The only backtracking: depth first, devices in a fixed order, the first complete solution wins (A-7).

It knows slots, filters and checks, and nothing about what they mean. Where the reference recurses there is a stack of frames here:
each frame is one choice that can still be changed. Two answers travel down that stack: NO, and TOO_MANY (the claim would exceed its
32 devices, so other devices of the same size can't help and only a smaller alternative can).

Four things are left out that can't change the answer, nor which error is met:
* a request is not entered again in a state in which it failed before (`Check.state` says what still matters of the past);
* a request that fails with nothing of the past to blame fails always: then the whole search is over, provided that no selector fails
  and nothing remains whose refusal would have to be reported (AC-8);
* after a failure, a request that has fewer possible devices left than open slots is given up at once (its combinations all fail);
* the work is bounded by a step budget instead of a deadline, so that the outcome doesn't depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import product
from typing import NamedTuple, Protocol

from virt_dra.allocator.errors import FatalError, StepLimitExceeded
from virt_dra.allocator.model import RESULT_LIMIT, Check, Choice, ClaimPlan, Device, Filter, Request, RequestPlan, Slots, Upcoming
from virt_dra.allocator.observer import Observer

DEFAULT_STEP_LIMIT = 1_000_000
"""Steps (one device looked at, or one slot entered) before an attempt on one node is cut off: a few seconds."""


_REMEMBERED_FAILURES = 100_000
"""Bounds the memory of one attempt; beyond it failures are found again."""


class Outcome(Enum):
    FOUND = "found"
    NO = "no"
    TOO_MANY = "too many devices"


class Enter(NamedTuple):
    """The next thing to fill: slot ``slot`` of an alternative of a request of a claim, looking at devices from ``start``."""

    claim: int
    request: int
    alternative: int = -1  # not chosen yet
    slot: int = 0
    start: int = 0


Step = Enter | Outcome


class _State(NamedTuple):
    claim: int
    request: int
    held: int
    checks: tuple[Hashable, ...]


class Frame(Protocol):
    def resume(self, outcome: Outcome) -> Step:
        """Everything after this choice failed: change it, or leave the stack and pass the failure on."""

    def abandon(self) -> None:
        """Take back the choice; the search is over."""


class Search:
    """One attempt. ``chosen`` and ``selected`` are the solution after `run` returned True, and empty after False."""

    def __init__(
        self,
        claims: Sequence[ClaimPlan],
        devices: Sequence[Device],
        filters: Sequence[Filter],
        fixed_filters: Sequence[Filter],
        checks: Sequence[Sequence[Check]],
        possible: Callable[[Request, Device], bool],
        observer: Observer,
        step_limit: int = DEFAULT_STEP_LIMIT,
    ) -> None:
        """``checks`` has one sequence per claim; ``fixed_filters`` apply to requests whose devices are given (mode All).

        ``possible``: False only for devices that a request can never take, whatever else is chosen.
        """
        self.devices = devices
        self.filters = filters
        self.observer = observer
        self.chosen: list[list[Choice]] = [[] for _ in claims]
        self.selected: dict[tuple[int, int], int] = {}
        self.steps = 0
        self.refused_constraint: tuple[Request, Device] | None = None
        """The first device of an All request that a constraint refused (E18, AC-8)."""
        self._claims = claims
        self._fixed_filters = fixed_filters
        self._checks = checks
        self._step_limit = step_limit
        self._frames: list[Frame] = []
        self._possible = possible
        self._failures: dict[_State, Outcome] = {}
        self._hopeless = False
        self._upcoming: dict[tuple[int, int], Upcoming] = {}

    def run(self) -> bool:
        """Raises :class:`FatalError` for broken selectors that are reached, :class:`StepLimitExceeded`."""
        step: Step = Enter(0, 0)
        while True:
            if isinstance(step, Enter):
                self.spend(1)
                step = self._enter(step)
            elif step is Outcome.FOUND:
                return True
            elif not self._frames:
                return False
            elif self._hopeless:
                while self._frames:
                    self._frames.pop().abandon()
                self.selected.clear()
                return False
            else:
                step = self._frames[-1].resume(step)

    def _enter(self, at: Enter) -> Step:
        if at.claim == len(self._claims):
            return Outcome.FOUND
        requests = self._claims[at.claim].requests
        if at.request == len(requests):
            return self.push(_ClaimEnd(self), Enter(at.claim + 1, 0))
        plan = requests[at.request]
        if at.alternative < 0:
            if self._failures:
                known = self._failures.get(self._state(at))
                if known is not None:
                    return known
            self._frames.append(_Remember(self, at))
            if plan.prioritized:
                frame = _Alternatives(self, at, plan)
                self._frames.append(frame)
                return frame.advance()
            at = at._replace(alternative=0)
        slots = plan.alternatives[at.alternative]
        if at.slot == 0:
            self.observer.entered(slots)
        if slots.fixed is not None and not slots.fixed:
            return Outcome.NO
        if at.slot >= slots.count:
            return Enter(at.claim, at.request + 1)
        if slots.count - at.slot > RESULT_LIMIT - len(self.chosen[at.claim]):
            self.observer.over_limit(slots.request)
            return Outcome.TOO_MANY
        if slots.fixed is not None:
            return self._place_fixed(at, slots.request, slots.fixed[at.slot])
        scan = _Scan(self, at, slots)
        self._frames.append(scan)
        return scan.advance()

    def _place_fixed(self, at: Enter, request: Request, device: Device) -> Step:
        """Mode All: exactly this device or none; a failure of a constraint is remembered, it explains the outcome (AC-8)."""
        if not self.admits(self._fixed_filters, request, device):
            return Outcome.NO
        refused = self.place(request, device)
        if refused is not None:
            if refused.constraint and self.refused_constraint is None:
                self.refused_constraint = (request, device)
            return Outcome.NO
        return self.push(_Fixed(self, request, device), at._replace(slot=at.slot + 1, start=0))

    def _state(self, at: Enter) -> _State:
        """All that decides whether the search can succeed from the beginning of this request on."""
        upcoming = self._upcoming.get((at.claim, at.request))
        if upcoming is None:
            upcoming = self._upcoming[at.claim, at.request] = self._upcoming_at(at)
        states = tuple(check.state(upcoming) for check in self._checks[at.claim])
        return _State(at.claim, at.request, len(self.chosen[at.claim]), states)

    def _upcoming_at(self, at: Enter) -> Upcoming:
        rest = [plan for i, claim in enumerate(self._claims[at.claim :]) for plan in claim.requests[at.request if i == 0 else 0 :]]
        requests = tuple(slots.request for plan in rest for slots in plan.alternatives)
        wanted: dict[Device, bool] = {}

        def wants(device: Device) -> bool:
            known = wanted.get(device)
            if known is None:
                known = wanted[device] = any(self._possible(request, device) for request in requests)
            return known

        return Upcoming(requests, wants)

    def remember(self, at: Enter, outcome: Outcome) -> None:
        """From here on the search failed. Everything after it is undone, so the state is the one it was entered with."""
        state = self._state(at)
        if len(self._failures) < _REMEMBERED_FAILURES:
            self._failures[state] = outcome
        if outcome is Outcome.NO and all(each is None for each in state.checks) and self._has_room(at) and self._unblemished:
            self._hopeless = True

    def _has_room(self, at: Enter) -> bool:
        """Whether the limit of a claim played no part, so that devices of earlier requests aren't to blame through it either."""
        rest = self._claims[at.claim].requests[at.request :]
        held = len(self.chosen[at.claim])
        return held == 0 or held + sum(max(slots.count for slots in plan.alternatives) for plan in rest) <= RESULT_LIMIT

    @cached_property
    def _unblemished(self) -> bool:
        """Whether ending early can hide nothing: no All request, whose refusals count, and no device that is an error to some request."""
        slots = [slots for claim in self._claims for plan in claim.requests for slots in plan.alternatives]
        if any(each.fixed is not None for each in slots):
            return False
        try:
            for each, device in product(slots, self.devices):
                self.spend(1)
                for test in self.filters:
                    test.admits(each.request, device)
        except FatalError:
            return False
        return True

    def push(self, frame: Frame, step: Step) -> Step:
        self._frames.append(frame)
        return step

    def leave(self, outcome: Outcome) -> Outcome:
        """The top frame is done; the one below learns the outcome."""
        self._frames.pop()
        return outcome

    def spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self._step_limit:
            raise StepLimitExceeded(self._step_limit)

    def admits(self, filters: Sequence[Filter], request: Request, device: Device) -> bool:
        for each in filters:
            if not each.admits(request, device):
                self.observer.rejected(request, device, each)
                return False
        return True

    def place(self, request: Request, device: Device) -> Check | None:
        """Add the device to every check of its claim. A refusal undoes what was added and returns the refusing check (A-10.5)."""
        checks = self._checks[request.claim_index]
        for number, check in enumerate(checks):
            if not check.add(request, device):
                self.observer.rejected(request, device, check)
                for added in reversed(checks[:number]):
                    added.remove(request, device)
                return check
        self.chosen[request.claim_index].append(Choice(request, device))
        self.observer.picked(request, device)
        return None

    def unplace(self, request: Request, device: Device) -> None:
        """The exact reverse of a successful `place`."""
        self.observer.backtracked(request, device)
        self.chosen[request.claim_index].pop()
        for check in reversed(self._checks[request.claim_index]):
            check.remove(request, device)


@dataclass(slots=True)
class _Remember:
    """Below everything that follows the beginning of a request: notes its failure."""

    search: Search
    at: Enter

    def resume(self, outcome: Outcome) -> Step:
        self.search.remember(self.at, outcome)
        return self.search.leave(outcome)

    def abandon(self) -> None:
        """Holds nothing."""


@dataclass(slots=True)
class _ClaimEnd:
    """Between two claims. The limit is per claim, so TOO_MANY of a later claim is a plain NO for this one (A-7.2)."""

    search: Search

    def resume(self, outcome: Outcome) -> Step:
        return self.search.leave(Outcome.NO)

    def abandon(self) -> None:
        """Holds nothing."""


@dataclass(slots=True)
class _Alternatives:
    """firstAvailable: one alternative after the other. TOO_MANY only if every alternative was too many (A-7.2)."""

    search: Search
    at: Enter
    plan: RequestPlan
    next: int = 0
    only_too_many: bool = True

    def advance(self) -> Step:
        key = (self.at.claim, self.at.request)
        if self.next == len(self.plan.alternatives):
            self.search.selected.pop(key, None)
            return self.search.leave(Outcome.TOO_MANY if self.only_too_many else Outcome.NO)
        self.search.selected[key] = self.next
        self.next += 1
        return Enter(*key, alternative=self.next - 1)

    def resume(self, outcome: Outcome) -> Step:
        self.only_too_many = self.only_too_many and outcome is Outcome.TOO_MANY
        return self.advance()

    def abandon(self) -> None:
        """Holds nothing."""


@dataclass(slots=True)
class _Fixed:
    """One device of an All request. There is no other choice (A-9.4)."""

    search: Search
    request: Request
    device: Device

    def resume(self, outcome: Outcome) -> Step:
        self.abandon()
        return self.search.leave(outcome)

    def abandon(self) -> None:
        self.search.unplace(self.request, self.device)


class _Scan:
    """One slot of an ExactCount request: devices in order, each slot starting behind the one before it (combinations, A-7.1)."""

    __slots__ = ("_at", "_cursor", "_needed", "_placed", "_request", "_search")

    def __init__(self, search: Search, at: Enter, slots: Slots) -> None:
        self._search = search
        self._at = at
        self._request = slots.request
        self._needed = slots.count - at.slot
        self._cursor = at.start
        self._placed: Device | None = None

    def advance(self) -> Step:
        search, request = self._search, self._request
        devices, filters = search.devices, search.filters
        for index in range(self._cursor, len(devices)):
            device = devices[index]
            if search.admits(filters, request, device) and search.place(request, device) is None:
                search.spend(index + 1 - self._cursor)
                self._cursor = index + 1
                self._placed = device
                return self._at._replace(slot=self._at.slot + 1, start=index + 1)
        search.spend(len(devices) - self._cursor)
        return search.leave(Outcome.NO)

    def resume(self, outcome: Outcome) -> Step:
        self.abandon()
        if outcome is Outcome.TOO_MANY:
            return self._search.leave(outcome)  # no other device of this request can help
        if not self._enough_left():
            return self._search.leave(Outcome.NO)
        return self.advance()

    def abandon(self) -> None:
        if self._placed is None:
            raise AssertionError("only a scan that placed a device stays on the stack")
        self._search.unplace(self._request, self._placed)
        self._placed = None

    def _enough_left(self) -> bool:
        """Whether as many devices as there are open slots may still come. A selector that fails counts: its error must surface."""
        search, needed = self._search, self._needed
        if needed == 1:
            return True
        filters, request = search.filters, self._request
        for index in range(self._cursor, len(search.devices)):
            search.spend(1)
            try:
                if all(each.admits(request, search.devices[index]) for each in filters):
                    needed -= 1
            except FatalError:
                return True
            if needed == 0:
                return True
        return False
