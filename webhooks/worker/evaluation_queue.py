"""The queue of reviews that wait for a child: fair between namespaces, with a token bucket of evaluation time for each.

Pure: the clock is passed in, and nothing here waits or kills. The namespace is the one of the admission request.

* A namespace has one child at a time, so that a tenant's many reviews wait only for each other.
* Of the waiting namespaces the one with the largest remaining allowance is next (least attained service): one that
  hasn't used any comes first.
* An allowance is a token bucket of seconds of evaluation; a namespace that has used it up is refused until it has been
  refilled a little.
* A child that is not done soon leaves its fast slot and goes on in a slow one. If none is free while others wait, the
  slow child that began first is killed (evicted): it is the one most likely to use all the time that it gets.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

NAMESPACES: Final = 10_000
"""How many namespaces' allowances are remembered; the least recently used is forgotten first."""


@dataclass(frozen=True)
class QueueLimits:
    """Limits of the queue. ``fast``, ``slow``: children at a time; ``waiting``: reviews of a namespace that wait;
    ``all_waiting``: of all.

    ``burst``: seconds of evaluation that a namespace may use at once; ``rate``: seconds that it gets back every second.
    """

    fast: int = 4
    slow: int = 4
    waiting: int = 32
    all_waiting: int = 512
    burst: float = 2.0
    rate: float = 0.2


class TurnRefused(Exception):
    """The review may not wait for a turn; the text says why, for the user who wrote the selector."""


@dataclass(eq=False)
class Turn:
    """One review in the queue. ``state``: waiting, fast or slow (the slot that it runs in), evicted, or over."""

    namespace: str
    given: Callable[[], None]
    """Called when it may start."""
    child: int = 0
    """The number of the child that evaluates it, once there is one."""
    state: str = "waiting"


@dataclass
class _Allowance:
    left: float
    at: float


@dataclass
class EvaluationQueue:
    """The running and waiting reviews, and the allowances of namespaces."""

    shares: QueueLimits
    clock: Callable[[], float]
    _waiting: dict[str, deque[Turn]] = field(default_factory=dict)
    _running: dict[str, Turn] = field(default_factory=dict)
    _allowances: OrderedDict[str, _Allowance] = field(default_factory=OrderedDict)
    fast: int = 0
    slow: int = 0

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def ask(self, namespace: str, given: Callable[[], None]) -> Turn:
        """Queue a review, and start it if a slot is free. Raises :class:`TurnRefused`."""
        if self.left(namespace) <= 0:
            raise TurnRefused(
                "its namespace has used up its share of the time for evaluating selectors; try again in some seconds"
            )
        queue = self._waiting.get(namespace, ())
        if len(queue) >= self.shares.waiting or self.waiting >= self.shares.all_waiting:
            raise TurnRefused(
                "too many other reviews wait for their selectors to be evaluated; try again in some seconds"
            )
        turn = Turn(namespace, given)
        self._waiting.setdefault(namespace, deque()).append(turn)
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
            evicted = next(
                running for running in self._running.values() if running.state == "slow"
            )  # in the order in which they began
            evicted.state = "evicted"
            self.slow -= 1
        turn.state = "slow"
        self.fast -= 1
        self.slow += 1
        self._start_next()
        return evicted

    def end(self, turn: Turn, used: float = 0.0) -> None:
        """Remove a turn, started or not, and charge its namespace for so many seconds of evaluation."""
        if turn.state == "waiting":
            queue = self._waiting[turn.namespace]
            queue.remove(turn)
            if not queue:
                del self._waiting[turn.namespace]
        elif turn.state in ("fast", "slow", "evicted"):
            self.fast -= turn.state == "fast"
            self.slow -= turn.state == "slow"
            del self._running[turn.namespace]
            self._use(turn.namespace, used)
        turn.state = "over"
        self._start_next()

    def left(self, namespace: str) -> float:
        """Seconds of evaluation that a namespace has left; negative where it has overdrawn its allowance."""
        allowance = self._allowances.get(namespace)
        if allowance is None:
            return self.shares.burst
        return min(self.shares.burst, allowance.left + (self.clock() - allowance.at) * self.shares.rate)

    def _use(self, namespace: str, seconds: float) -> None:
        self._allowances[namespace] = _Allowance(self.left(namespace) - seconds, self.clock())
        self._allowances.move_to_end(namespace)
        while len(self._allowances) > NAMESPACES:
            self._allowances.popitem(last=False)

    def _start_next(self) -> None:
        while self.fast < self.shares.fast:
            ready = [namespace for namespace in self._waiting if namespace not in self._running]
            if not ready:
                return
            namespace = max(ready, key=self.left)
            queue = self._waiting[namespace]
            turn = queue.popleft()
            del self._waiting[namespace]
            if queue:
                self._waiting[namespace] = queue  # to the end, so that namespaces with equal allowances alternate
            turn.state = "fast"
            self._running[namespace] = turn
            self.fast += 1
            turn.given()
