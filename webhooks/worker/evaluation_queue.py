"""The queue of reviews that wait for a child: fair between tenants, with an allowance of evaluation time for each.

Pure: the clock is passed in, and nothing here waits or kills.

* A tenant has one child at a time, so that its many reviews wait only for each other.
* Waiting tenants are in the order of start-time fair queueing (:mod:`virt_dra.fairness.order`).
* A tenant that has used up its allowance is refused until a part of what it has used is forgotten.
* A child that is not done soon leaves its fast slot and goes on in a slow one. If none is free while others wait, the
  slow child that began first is killed (evicted): it is the one most likely to use all the time that it gets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from virt_dra.fairness.order import EarliestStartFirst, StartTimes
from virt_dra.fairness.use import Tenant, TenantUse


@dataclass(frozen=True)
class QueueLimits:
    """Limits of the queue. ``fast``, ``slow``: children at a time; ``waiting``: reviews of a tenant that wait;
    ``all_waiting``: of all.

    ``burst``: seconds of evaluation that a tenant may use at once, half of which are forgotten after ``half_life``
    seconds: in the long run it gets a fifth of a second every second.
    """

    fast: int = 4
    slow: int = 4
    waiting: int = 32
    all_waiting: int = 512
    burst: float = 2.0
    half_life: float = 7.0


class TurnRefused(Exception):
    """The review may not wait for a turn; the text says why, for the user who wrote the selector."""


@dataclass(eq=False)
class Turn:
    """A review in the queue. ``state``: waiting, fast or slow (the slot that it runs in), evicted, or over."""

    tenant: Tenant
    given: Callable[[], None]
    """Called when it may start."""
    child: int = 0
    """The number of the child that evaluates it, once there is one."""
    heard: float = 0.0
    """When the child answered the latest."""
    used: float = 0.0
    """Seconds of the processor that the child says it has used, or at most may use."""
    state: str = "waiting"


@dataclass
class EvaluationQueue:
    """The running and waiting reviews, and the use of tenants."""

    shares: QueueLimits
    clock: Callable[[], float]
    _waiting: dict[Tenant, deque[Turn]] = field(default_factory=dict)
    _running: dict[Tenant, Turn] = field(default_factory=dict)
    _all_waiting: int = 0
    fast: int = 0
    slow: int = 0

    def __post_init__(self) -> None:
        self.use = TenantUse(self.clock, self.shares.half_life)
        self._times = StartTimes(self.use)
        self._ready = EarliestStartFirst(self._times.start)
        """The tenants that wait and have no child."""

    @property
    def waiting(self) -> int:
        return self._all_waiting

    def ask(self, tenant: Tenant, given: Callable[[], None]) -> Turn:
        """Queue a review, and start it if a slot is free. Raises :class:`TurnRefused`."""
        if self.left(tenant) <= 0:
            used_up = "its namespace has used up its share of the time for evaluating selectors"
            raise TurnRefused(f"{used_up}; try again in some seconds")
        queue = self._waiting.get(tenant, ())
        if len(queue) >= self.shares.waiting or self.waiting >= self.shares.all_waiting:
            too_many = "too many other reviews wait for their selectors to be evaluated"
            raise TurnRefused(f"{too_many}; try again in some seconds")
        turn = Turn(tenant, given)
        self._waiting.setdefault(tenant, deque()).append(turn)
        self._all_waiting += 1
        if tenant not in self._running:
            self._ready.add(tenant)
        self._start_next()
        return turn

    def slower(self, turn: Turn) -> Turn | None:
        """Move a turn from its fast slot to a slow one. If all slow slots are taken and others wait for a fast one, the
        oldest slow turn is evicted: it is returned, and its child must be killed."""
        if turn.state != "fast":
            return None
        evicted = None
        if self.slow >= self.shares.slow:
            if not self._waiting:
                return None
            evicted = next(turn for turn in self._running.values() if turn.state == "slow")  # in order of their begin
            evicted.state = "evicted"
            self.slow -= 1
        turn.state = "slow"
        self.fast -= 1
        self.slow += 1
        self._start_next()
        return evicted

    def end(self, turn: Turn, used: float = 0.0) -> None:
        """Remove a turn, started or not, and charge its tenant for so many seconds of evaluation."""
        if turn.state == "waiting":
            queue = self._waiting[turn.tenant]
            queue.remove(turn)
            self._all_waiting -= 1
            if not queue:
                del self._waiting[turn.tenant]
                self._ready.discard(turn.tenant)
        elif turn.state in ("fast", "slow", "evicted"):
            self.fast -= turn.state == "fast"
            self.slow -= turn.state == "slow"
            del self._running[turn.tenant]
            self.use.add(turn.tenant, used)
            self._times.charge(turn.tenant, used)
            self._ready.charged(turn.tenant)
            if turn.tenant in self._waiting:
                self._ready.add(turn.tenant)
        turn.state = "over"
        if not self._waiting and not self._running:
            self._times.restart()
        self._start_next()

    def left(self, tenant: Tenant) -> float:
        """Seconds of evaluation that a tenant has left; negative where it has overdrawn its allowance."""
        return self.shares.burst - self.use.of(tenant)

    def _start_next(self) -> None:
        while self.fast < self.shares.fast:
            tenant = self._ready.first()
            if tenant is None:
                return
            self._ready.discard(tenant)
            queue = self._waiting[tenant]
            turn = queue.popleft()
            self._all_waiting -= 1
            if not queue:
                del self._waiting[tenant]
            turn.state = "fast"
            self._running[tenant] = turn
            self.fast += 1
            turn.given()
