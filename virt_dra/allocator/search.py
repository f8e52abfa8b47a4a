"""The only backtracking: depth first, devices in a fixed order, the first complete solution wins (A-7).

It knows slots, filters and checks, and nothing about what they mean. Where the reference recurses there is a stack of frames here:
each frame is one choice that can still be changed. Two answers travel down that stack: NO, and TOO_MANY (the claim would exceed its
32 devices, so other devices of the same size can't help and only a smaller alternative can).

Four things are left out that can't change the answer, nor which error is met:
* nothing is entered again in a state in which it failed before. `Check.state` says what still matters of the past, and devices that
  are alike to everything upcoming (`Check.kind`) are interchangeable in it: which of them is taken doesn't matter, only how many;
* a request that fails with nothing of the past to blame, or that has too few devices even if it came first, fails always: then the
  whole search is over, provided that no device is an error and no refusal remains that would have to be reported (AC-8); so it is
  after any failure where all requests together want more than there is (`Bound`);
* after a failure, a request that has fewer possible devices left than open slots is given up at once (its combinations all fail);
* the work is bounded by a step budget instead of a deadline, so that the outcome doesn't depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple, Protocol

from virt_dra.allocator.errors import FatalError, StepLimitExceeded
from virt_dra.allocator.model import (
    RESULT_LIMIT,
    Availability,
    Bound,
    Check,
    Choice,
    ClaimPlan,
    Device,
    Filter,
    Kind,
    Request,
    RequestPlan,
    Slots,
    Upcoming,
)
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
    at: Enter
    held: int
    checks: tuple[Hashable, ...]


class _Broken:
    """Stands for the kind of a device that is an error to a request (a failing selector)."""


_BROKEN = _Broken()


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
        candidates: Callable[[Request], Sequence[Device]],
        availability: Availability,
        filters: Sequence[Filter],
        checks: Sequence[Sequence[Check]],
        observer: Observer,
        step_limit: int = DEFAULT_STEP_LIMIT,
        bounds: Sequence[Bound] = (),
    ) -> None:
        """``candidates``: devices for a request in the order of A-5.6, at least all that pass the filters or are an error to them.

        ``filters`` answer the same whatever is chosen, and aren't asked about devices that are given (mode All). ``checks`` has one
        sequence per claim, each with ``availability`` in it."""
        self.candidates = candidates
        self.observer = observer
        self.chosen: list[list[Choice]] = [[] for _ in claims]
        self.selected: dict[tuple[int, int], int] = {}
        self.solved = False
        self.steps = 0
        self.refused_constraint: tuple[Request, Device] | None = None
        """The first device of an All request that a constraint refused (E18, AC-8)."""
        self._claims = claims
        self._availability = availability
        self._filters = filters
        self._checks = checks
        self._step_limit = step_limit
        self._bounds = bounds
        self._frames: list[Frame] = []
        self._failures: dict[_State, Outcome] = {}
        self._hopeless = False
        self._upcoming: dict[tuple[int, int], Upcoming] = {}
        self._positions_of: dict[Request, dict[Device, int]] = {}
        self._kinds: dict[Request, dict[Device, Kind]] = {}
        self._errors: dict[tuple[int, int] | None, bool] = {}
        self._reports = self._may_report()

    def run(self) -> bool:
        """Fill everything, or find out that it can't be done; the answer is kept in `solved`.

        Raises :class:`FatalError` for broken selectors that are reached, :class:`StepLimitExceeded`."""
        step: Step = Enter(0, 0)
        while True:
            if isinstance(step, Enter):
                self.spend(1)
                step = self._enter(step)
            elif step is Outcome.FOUND:
                self.solved = True
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
            known = self._known(at)
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
        if at.slot > 0:
            known = self._known(at)
            if known is not None:
                return known
            self._frames.append(_Remember(self, at))
        scan = _Scan(self, at, slots)
        self._frames.append(scan)
        return scan.advance()

    def _place_fixed(self, at: Enter, request: Request, device: Device) -> Step:
        """Mode All: exactly this device or none; a failure of a constraint is remembered, it explains the outcome (AC-8)."""
        refused = self.place(request, device)
        if refused is not None:
            if refused.constrains(request) and self.refused_constraint is None:
                self.refused_constraint = (request, device)
            return Outcome.NO
        return self.push(_Fixed(self, request, device), at._replace(slot=at.slot + 1, start=0))

    def _known(self, at: Enter) -> Outcome | None:
        """The outcome from here on, if an equal state is known to fail."""
        return self._failures.get(self._state(at)) if self._failures else None

    def _state(self, at: Enter) -> _State:
        """All that decides whether the search can succeed from here on."""
        upcoming = self._upcoming_at(at)
        return _State(at, len(self.chosen[at.claim]), tuple(check.state(upcoming) for check in self._checks[at.claim]))

    def _upcoming_at(self, at: Enter) -> Upcoming:
        if at.alternative < 0:
            return self._upcoming_from(at.claim, at.request)
        rest = self._upcoming_from(at.claim, at.request + 1)
        request = self._claims[at.claim].requests[at.request].alternatives[at.alternative].request
        positions = self._positions(request)

        def kind(device: Device) -> Kind:
            """To the open slots of the current request only devices from ``start`` on count."""
            now = self.kind(request, device) if positions.get(device, -1) >= at.start else None
            later = rest.kind(device)
            return None if now is None and later is None else (now, later)

        return Upcoming((request, *rest.requests), kind)

    def _upcoming_from(self, claim: int, request: int) -> Upcoming:
        known = self._upcoming.get((claim, request))
        if known is not None:
            return known
        plans = [plan for i, each in enumerate(self._claims[claim:]) for plan in each.requests[request if i == 0 else 0 :]]
        requests = tuple(slots.request for plan in plans for slots in plan.alternatives)
        kinds: dict[Device, Kind] = {}

        def kind(device: Device) -> Kind:
            if device not in kinds:
                each = tuple(self.kind(request, device) for request in requests)
                kinds[device] = None if all(one is None for one in each) else each
            return kinds[device]

        found = self._upcoming[claim, request] = Upcoming(requests, kind)
        return found

    def kind(self, request: Request, device: Device) -> Kind:
        """What tells devices apart for a request, whatever else is chosen; None if it can never have the device."""
        kinds = self._kinds.setdefault(request, {})
        if device not in kinds:
            kinds[device] = self._kind(request, device)
        return kinds[device]

    def _kind(self, request: Request, device: Device) -> Kind:
        self.spend(1)
        checks = self._checks[request.claim_index]
        try:
            if self._availability.kind(request, device) is None or not all(each.admits(request, device) for each in self._filters):
                return None
            kinds = tuple(check.kind(request, device) for check in checks)
        except FatalError:
            return _BROKEN, device
        if request in self._reports:  # while one of these is taken, the constraint isn't asked: that is another outcome
            before = self._reports[request]
            return device if before is None else (device in before, kinds)
        return None if any(kind is None for kind in kinds) else kinds

    def _positions(self, request: Request) -> dict[Device, int]:
        known = self._positions_of.get(request)
        if known is None:
            known = self._positions_of[request] = {device: i for i, device in enumerate(self.candidates(request))}
        return known

    def _may_report(self) -> dict[Request, frozenset[Device] | None]:
        """The All requests that a constraint may refuse, which is reported (AC-8), each with its devices up to the one refused: if one
        of them is taken there is nothing to report. None where that depends on other requests under the constraint."""
        found: dict[Request, frozenset[Device] | None] = {}
        for claim, checks in zip(self._claims, self._checks, strict=True):
            for plan in claim.requests:
                others = [slots.request for other in claim.requests if other is not plan for slots in other.alternatives]
                for slots in plan.alternatives:
                    covering = [check for check in checks if check.constrains(slots.request)]
                    if slots.fixed is None or not covering or slots.count > RESULT_LIMIT:
                        continue
                    if any(check.constrains(other) for check in covering for other in others):
                        found[slots.request] = None
                    elif (refused := self._refused_alone(slots.request, slots.fixed)) is not None:
                        found[slots.request] = frozenset(slots.fixed[: refused + 1])
        return found

    def _refused_alone(self, request: Request, devices: Sequence[Device]) -> int | None:
        """Which of the devices a constraint refuses if nothing else is chosen; None if all fit or something else refuses one first."""
        placed: list[Device] = []
        try:
            for device in devices:
                refused = self._add(request, device)
                if refused is not None:
                    return len(placed) if refused.constrains(request) else None
                placed.append(device)
        except FatalError:
            return None  # raised again, before anything is reported, when it is that device's turn
        finally:
            for device in reversed(placed):
                self._remove(request, device)
        return None

    def remember(self, at: Enter, outcome: Outcome) -> None:
        """From here on the search failed. Everything after it is undone, so the state is the one it was entered with."""
        if len(self._frames) == 1:
            return  # nothing left to try
        state = self._state(at)
        if len(self._failures) < _REMEMBERED_FAILURES:
            self._failures[state] = outcome
        if outcome is Outcome.NO and at.alternative < 0 and not self._hopeless:
            fails_always = all(each is None for each in state.checks) and self._has_room(at)
            self._hopeless = (fails_always and self._unblemished(None)) or (
                self._is_short(at) and self._unblemished((at.claim, at.request))
            )
        if outcome is Outcome.NO and not self._hopeless:
            self._hopeless = self._lacks()

    def _has_room(self, at: Enter) -> bool:
        """Whether the limit of a claim played no part, so that devices of earlier requests aren't to blame through it either."""
        rest = self._claims[at.claim].requests[at.request :]
        held = len(self.chosen[at.claim])
        return held == 0 or held + sum(max(slots.count for slots in plan.alternatives) for plan in rest) <= RESULT_LIMIT

    def _is_short(self, at: Enter) -> bool:
        """Whether the request has too few devices in every alternative, even if nothing else were chosen."""
        for slots in self._claims[at.claim].requests[at.request].alternatives:
            devices = self.candidates(slots.request) if slots.fixed is None else slots.fixed
            found = sum(self.kind(slots.request, device) is not None for device in devices)
            if found >= slots.count and (slots.fixed is None or slots.fixed):
                return False
        return True

    def _lacks(self) -> bool:
        """Whether all requests together want more than there is, and ending early hides nothing. Decided after a first failure."""
        return bool(self._concerned) and self._unblemished(None) and self._too_much

    @cached_property
    def _concerned(self) -> Sequence[Bound]:
        """The bounds that could say something."""
        slots = [each for claim in self._claims for plan in claim.requests for each in plan.alternatives]
        devices = {device for each in slots for device in self._possible(each)}
        return [bound for bound in self._bounds if any(map(bound.concerns, devices))]

    @cached_property
    def _too_much(self) -> bool:
        wanted = [
            [(slots, [d for d in self._possible(slots) if self.kind(slots.request, d) is not None]) for slots in plan.alternatives]
            for claim in self._claims
            for plan in claim.requests
        ]
        return any(bound.lacks(wanted) for bound in self._concerned)

    def _possible(self, slots: Slots) -> Sequence[Device]:
        return self.candidates(slots.request) if slots.fixed is None else slots.fixed

    def _unblemished(self, last: tuple[int, int] | None) -> bool:
        """Whether ending early can hide nothing: no device that is an error to some request, no report of a constraint still to come.
        Only requests up to the ``last`` count, since later ones are never entered; None: all."""
        slots = [
            each
            for i, claim in enumerate(self._claims)
            for k, plan in enumerate(claim.requests)
            for each in plan.alternatives
            if last is None or (i, k) <= last
        ]
        if self.refused_constraint is None and any(each.request in self._reports for each in slots):
            return False
        known = self._errors.get(last)
        if known is None:
            pairs = (
                (each.request, device) for each in slots for device in (self.candidates(each.request) if each.fixed is None else each.fixed)
            )
            known = self._errors[last] = any(self.kind(request, device) == (_BROKEN, device) for request, device in pairs)
        return not known

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

    def admits(self, request: Request, device: Device) -> bool:
        if not self._availability.admits(request, device):
            self.observer.rejected(request, device, self._availability)
            return False
        for each in self._filters:
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

    def suits(self, request: Request, device: Device) -> bool:
        """Whether the device could be placed now. Raises :class:`FatalError` like `admits` and `place`; unseen by the observer."""
        if not self._availability.admits(request, device) or not all(each.admits(request, device) for each in self._filters):
            return False
        if self._add(request, device) is not None:
            return False
        self._remove(request, device)
        return True

    def _add(self, request: Request, device: Device) -> Check | None:
        checks = self._checks[request.claim_index]
        for number, check in enumerate(checks):
            added = False
            try:
                added = check.add(request, device)
            finally:
                if not added:
                    for before in reversed(checks[:number]):
                        before.remove(request, device)
            if not added:
                return check
        return None

    def _remove(self, request: Request, device: Device) -> None:
        for check in reversed(self._checks[request.claim_index]):
            check.remove(request, device)


@dataclass(slots=True)
class _Remember:
    """Below everything that follows the beginning of a request or slot: notes its failure."""

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

    __slots__ = ("_at", "_cursor", "_devices", "_needed", "_placed", "_request", "_search")

    def __init__(self, search: Search, at: Enter, slots: Slots) -> None:
        self._search = search
        self._at = at
        self._request = slots.request
        self._devices = search.candidates(slots.request)
        self._needed = slots.count - at.slot
        self._cursor = at.start
        self._placed: Device | None = None

    def advance(self) -> Step:
        search, request = self._search, self._request
        devices = self._devices
        for index in range(self._cursor, len(devices)):
            device = devices[index]
            if search.admits(request, device) and search.place(request, device) is None:
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
        """Whether as many devices as there are open slots may still come: each must suit what is chosen now. Errors must surface."""
        search, needed = self._search, self._needed
        if needed == 1:
            return True
        for device in self._devices[self._cursor :]:
            search.spend(1)
            try:
                needed -= search.suits(self._request, device)
            except FatalError:
                return True
            if needed == 0:
                return True
        return False
