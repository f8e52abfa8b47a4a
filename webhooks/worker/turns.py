"""Whose question is evaluated next: fair between the namespaces of requests. Its clock is given; nothing here waits or kills.

* A namespace has one child at a time, so that a tenant's many reviews wait for each other and for nobody else's.
* Of the namespaces that wait, the one with most left of its allowance is next (least attained service): who has not used any comes before
  all who have.
* An allowance is time of evaluation, refilled steadily; who has used it up is refused until there is some again.
* A child that is not done soon makes room in the fast slots and goes on in a slow one. If there is none, the slow child that has run
  longest ends: it is the one most likely to take all the time that it gets.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

NAMESPACES: Final = 10_000
"""Of which an allowance is remembered; the one that was used longest ago is forgotten first."""


@dataclass(frozen=True)
class Shares:
    """``fast``, ``slow``: children at a time. ``waiting``: questions of one namespace that wait; ``all_waiting``: of all.

    ``burst``: seconds of evaluation that a namespace may use at once; ``rate``: seconds that it gets back every second.
    """

    fast: int = 4
    slow: int = 4
    waiting: int = 32
    all_waiting: int = 512
    burst: float = 2.0
    rate: float = 0.2


class Refused(Exception):
    """There is no turn; the text says why, for whoever wrote the selector."""


@dataclass(eq=False)
class Turn:
    """A question that waits, runs fast or slowly, is evicted, or is over."""

    namespace: str
    given: Callable[[], None]
    """Called when its turn has come."""
    child: int = 0
    """Its number, once it has one."""
    state: str = "waiting"


@dataclass
class _Allowance:
    left: float
    at: float


@dataclass
class Turns:
    """Its state: who runs, who waits, and who has used how much."""

    shares: Shares
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
        """A turn, which may come at once. Raises :class:`Refused`."""
        if self.left(namespace) <= 0:
            raise Refused("its namespace has used up its share of the time for evaluating selectors; try again in some seconds")
        queue = self._waiting.get(namespace, ())
        if len(queue) >= self.shares.waiting or self.waiting >= self.shares.all_waiting:
            raise Refused("too many other reviews wait for their selectors to be evaluated; try again in some seconds")
        turn = Turn(namespace, given)
        self._waiting.setdefault(namespace, deque()).append(turn)
        self._give()
        return turn

    def slower(self, turn: Turn) -> Turn | None:
        """Move a turn that isn't done soon to the slow slots. Where all are taken and others wait for a fast one, the slow turn that has
        run longest makes room; it is returned, and must end."""
        if turn.state != "fast":
            return None
        evicted = None
        if self.slow >= self.shares.slow:
            if not self._waiting:
                return None
            evicted = next(each for each in self._running.values() if each.state == "slow")  # in the order in which they began
            evicted.state = "evicted"
            self.slow -= 1
        turn.state = "slow"
        self.fast -= 1
        self.slow += 1
        self._give()
        return evicted

    def end(self, turn: Turn, used: float = 0.0) -> None:
        """It is over, whether it had its turn or not, after so many seconds of evaluation."""
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
        self._give()

    def left(self, namespace: str) -> float:
        """Seconds of a namespace's allowance."""
        found = self._allowances.get(namespace)
        if found is None:
            return self.shares.burst
        return min(self.shares.burst, found.left + (self.clock() - found.at) * self.shares.rate)

    def _use(self, namespace: str, seconds: float) -> None:
        self._allowances[namespace] = _Allowance(self.left(namespace) - seconds, self.clock())
        self._allowances.move_to_end(namespace)
        while len(self._allowances) > NAMESPACES:
            self._allowances.popitem(last=False)

    def _give(self) -> None:
        while self.fast < self.shares.fast:
            ready = [namespace for namespace in self._waiting if namespace not in self._running]
            if not ready:
                return
            namespace = max(ready, key=self.left)
            queue = self._waiting[namespace]
            turn = queue.popleft()
            del self._waiting[namespace]
            if queue:
                self._waiting[namespace] = queue  # behind those that wait as long
            turn.state = "fast"
            self._running[namespace] = turn
            self.fast += 1
            turn.given()
