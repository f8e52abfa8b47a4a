"""The only backtracking: depth first, devices in a fixed order, the first complete solution wins (A-7).

It knows slots, filters and checks, and nothing about what they mean. Where the reference recurses there is a stack of frames here:
each frame is one choice that can still be changed. Two answers travel down that stack: NO, and TOO_MANY (the claim would exceed its
32 devices, so other devices of the same size can't help and only a smaller alternative can).

Two things are left out that can't change the answer:
* after a failure, a request that has fewer possible devices left than open slots is given up at once (its combinations all fail);
* the work is bounded by a step budget instead of a deadline, so that the outcome doesn't depend on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from virt_dra.allocator.errors import FatalError, StepLimitExceeded
from virt_dra.allocator.model import RESULT_LIMIT, Check, Choice, ClaimPlan, Device, Filter, Request, RequestPlan, Slots
from virt_dra.allocator.observer import Observer

DEFAULT_STEP_LIMIT = 1_000_000
"""Steps (one device looked at, or one slot entered) before an attempt on one node is cut off: about a second or two."""


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


class Frame(Protocol):
    def resume(self, outcome: Outcome) -> Step:
        """Everything after this choice failed: change it, or leave the stack and pass the failure on."""


class Search:
    """One attempt. ``chosen`` and ``selected`` are the solution after `run` returned True, and empty after False."""

    def __init__(
        self,
        claims: Sequence[ClaimPlan],
        devices: Sequence[Device],
        filters: Sequence[Filter],
        fixed_filters: Sequence[Filter],
        checks: Sequence[Sequence[Check]],
        observer: Observer,
        step_limit: int = DEFAULT_STEP_LIMIT,
    ) -> None:
        """``checks`` has one sequence per claim; ``fixed_filters`` apply to requests whose devices are given (mode All)."""
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
class _ClaimEnd:
    """Between two claims. The limit is per claim, so TOO_MANY of a later claim is a plain NO for this one (A-7.2)."""

    search: Search

    def resume(self, outcome: Outcome) -> Step:
        return self.search.leave(Outcome.NO)


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


@dataclass(slots=True)
class _Fixed:
    """One device of an All request. There is no other choice (A-9.4)."""

    search: Search
    request: Request
    device: Device

    def resume(self, outcome: Outcome) -> Step:
        self.search.unplace(self.request, self.device)
        return self.search.leave(outcome)


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
        if self._placed is None:
            raise AssertionError("a scan is resumed only after it placed a device")
        self._search.unplace(self._request, self._placed)
        if outcome is Outcome.TOO_MANY:
            return self._search.leave(outcome)  # no other device of this request can help
        if not self._enough_left():
            return self._search.leave(Outcome.NO)
        return self.advance()

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
