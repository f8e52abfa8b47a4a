"""A lane gives turns to tenants, one at a time; whoever waits, waits for about one turn of each other tenant.

    >>> async def decide(lane: FairLane, tenant: Tenant) -> str:
    ...     async with lane.turn(tenant):
    ...         return "on the event loop, in a thread or in a process: as long as the turn lasts, the lane is taken"

* A turn ends in the loop's next round, so that connections are served between two turns on the event loop.
* A tenant that has used more than its share is *heavy*. Heavy tenants together get half of the lane: after a turn of
  one, the next of any waits for as long as that took.
* A tenant with many waiting turns gets no more in.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from heapq import heappop, heappush

from virt_dra.fairness.order import EarliestStartFirst, StartTimes
from virt_dra.fairness.use import Tenant, TenantUse


@dataclass(frozen=True)
class LaneLimits:
    """The limits of a lane. ``waiting``: turns of one tenant that wait. ``share``: seconds of use from which a tenant
    is heavy, half of them forgotten after ``half_life`` seconds. ``longest_rest``: seconds that heavy tenants wait at
    most."""

    waiting: int = 256
    share: float = 0.5
    half_life: float = 10.0
    longest_rest: float = 0.25


class TooManyWaiting(Exception):
    """The tenant has as many turns waiting as it may."""


class LaneTurn:
    """A turn. ``used``: the seconds to charge for it, if those that it lasted aren't right."""

    used: float | None = None


class FairLane:
    """The turns of one lane, on one event loop."""

    def __init__(self, limits: LaneLimits | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits, self._clock = limits or LaneLimits(), clock
        self.use = TenantUse(clock, self.limits.half_life)
        self._waiting: dict[Tenant, deque[asyncio.Future[None]]] = {}
        self._times = StartTimes(self.use)
        self._light, self._heavy = EarliestStartFirst(self._times.start), EarliestStartFirst(self._times.start)
        """Those that wait."""
        self._light_at: list[tuple[float, Tenant]] = []
        """A heap of the times from which heavy tenants may be light, one for each; among them some that have left."""
        self._timed = set[Tenant]()
        """The tenants in it."""
        self._taken = False
        self._heavy_from = 0.0
        """When heavy tenants may have the next turn."""
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def turn(self, tenant: Tenant) -> AsyncIterator[LaneTurn]:
        """The body runs when it is the tenant's turn. Raises :class:`TooManyWaiting`."""
        await self._come(tenant)
        turn, began = LaneTurn(), self._clock()
        try:
            yield turn
        finally:
            used = self._clock() - began if turn.used is None else turn.used
            if self._is_heavy(tenant):
                self._heavy_from = self._clock() + min(used, self.limits.longest_rest)
            self._charge(tenant, used)
            asyncio.get_running_loop().call_soon(self._free)

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    async def _come(self, tenant: Tenant) -> None:
        queue = self._waiting.setdefault(tenant, deque())
        if len(queue) >= self.limits.waiting:
            raise TooManyWaiting
        come = asyncio.get_running_loop().create_future()
        queue.append(come)
        if len(queue) == 1:
            self._order(tenant)
        self._next()
        try:
            await come
        except asyncio.CancelledError:
            if come.cancelled():
                self._leave(tenant, come)
            else:
                self._free()  # cancelled in the moment in which its turn came
            raise

    def _leave(self, tenant: Tenant, come: asyncio.Future[None]) -> None:
        queue = self._waiting.get(tenant, deque())
        if come in queue:
            queue.remove(come)
            if not queue:
                self._disorder(tenant)

    def _free(self) -> None:
        self._taken = False
        if not self._waiting:
            self._times.restart()
        self._next()

    def _next(self) -> None:
        """Begin the next turn if the lane is free, or set a timer for when heavy tenants may have it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._taken or not self._waiting:
            return
        rest = self._heavy_from - self._clock()
        tenant = self._first(heavy=rest <= 0)
        if tenant is None:
            self._timer = asyncio.get_running_loop().call_later(rest, self._next)
            return
        queue = self._waiting[tenant]
        come = queue.popleft()
        self._disorder(tenant)
        if queue:
            self._waiting[tenant] = queue
            self._order(tenant)  # behind tenants with equal use
        if come.cancelled():  # its task doesn't know yet
            self._next()
            return
        self._taken = True
        come.set_result(None)

    # --- the order of those that wait ---

    def _first(self, *, heavy: bool) -> Tenant | None:
        """Who is next, of the light tenants, or of all."""
        while self._light_at and self._light_at[0][0] <= self._clock():
            _, tenant = heappop(self._light_at)
            self._timed.remove(tenant)
            if tenant in self._waiting:
                self._order(tenant)
        orders = (self._light, self._heavy) if heavy else (self._light,)
        firsts = [(order.starts(first), first) for order in orders if (first := order.first()) is not None]
        return min(firsts)[1] if firsts else None

    def _order(self, tenant: Tenant) -> None:
        """Puts a tenant that waits among the light or the heavy ones."""
        is_heavy = self._is_heavy(tenant)
        (self._light if is_heavy else self._heavy).discard(tenant)
        (self._heavy if is_heavy else self._light).add(tenant)
        if is_heavy and tenant not in self._timed:
            self._timed.add(tenant)
            heappush(self._light_at, (self.use.light_at(tenant, self.limits.share), tenant))

    def _disorder(self, tenant: Tenant) -> None:
        """Takes out a tenant of which nothing waits."""
        del self._waiting[tenant]
        self._light.discard(tenant)
        self._heavy.discard(tenant)

    def _charge(self, tenant: Tenant, used: float) -> None:
        self.use.add(tenant, used)
        self._times.charge(tenant, used)
        for order in (self._light, self._heavy):
            order.charged(tenant)
        if tenant in self._waiting:
            self._order(tenant)

    def _is_heavy(self, tenant: Tenant) -> bool:
        return self.use.of(tenant) > self.limits.share
