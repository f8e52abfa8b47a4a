"""The gate: who may see the page. It asks the API server, remembers its answers for a minute, and lets no one in
without one."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from virt_dra.cluster.kinds import ApiResource
from virt_dra.cluster.port import ApiError
from virt_dra.report_server.attempts import Attempts
from virt_dra.report_server.viewers import Reviews, Viewer, is_token

GateOutcome = Literal["allowed", "forbidden", "unknown"]
"""``unknown``: the token isn't valid."""


@dataclass(frozen=True)
class GateLimits:
    """The limits of questions about viewers. ``seconds``: how long an answer is remembered, ``refused_seconds`` a
    refusal. ``at_once``: reviews for strangers, ``waiting``: and of those who wait for one. ``remembered``: tokens."""

    seconds: float = 60.0
    refused_seconds: float = 10.0
    at_once: int = 4
    waiting: int = 32
    known_at_once: int = 16
    remembered: int = 2048


@dataclass(frozen=True)
class Judgement:
    """What is known of a token until a time. ``missing``: what its user may not list."""

    outcome: GateOutcome
    until: float
    viewer: Viewer | None = None
    missing: tuple[ApiResource, ...] = ()


class TooManyAttempts(Exception):
    """Too many failed attempts, or too many at once. ``seconds``: when to try again."""

    def __init__(self, seconds: float) -> None:
        super().__init__("too many attempts to sign in; try again later")
        self.seconds = seconds


class NotReviewed(Exception):
    """The API server doesn't say whether the viewer may see the page. The text is its own, for the log."""


class GateObserver(Protocol):
    """The metrics of the gate. Must not raise."""

    def judged(self, outcome: str) -> None:
        """A token was reviewed, or couldn't be: ``allowed``, ``forbidden``, ``unknown``, ``limited``,
        ``unanswered``."""


class Gate:
    """Bound to one event loop."""

    def __init__(
        self, reviews: Reviews, resources: Sequence[ApiResource], clock: Callable[[], float], *,
        attempts: Attempts | None = None, limits: GateLimits | None = None, observer: GateObserver | None = None,
    ) -> None:  # fmt: skip
        self._reviews, self._resources, self._clock = reviews, tuple(resources), clock
        self._attempts, self._limits, self._observer = attempts or Attempts(), limits or GateLimits(), observer
        self._remembered: OrderedDict[bytes, Judgement] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[Judgement]] = {}
        self._strangers = asyncio.Semaphore(self._limits.at_once)
        self._known = asyncio.Semaphore(self._limits.known_at_once)
        self._waiting = 0

    async def judged(self, token: str, address: str) -> Judgement:
        """What the API server says of the token, now or within the last minute. ``address``: whose attempt it is.

        Raises :class:`TooManyAttempts`, :class:`NotReviewed`. A token that was good a while ago counts as no attempt.
        """
        now = self._clock()
        if not is_token(token):
            self._take(address, now)
            self._observe("unknown")
            return Judgement("unknown", now)
        key = hashlib.sha256(token.encode()).digest()
        before = self._remembered.get(key)
        if before is not None and before.until > now:
            self._remembered.move_to_end(key)
            return before
        task = self._asking.get(key)
        if task is None:
            reviewed_before = before is not None and before.outcome == "allowed"
            if not reviewed_before:
                if self._waiting >= self._limits.at_once + self._limits.waiting:
                    self._observe("limited")
                    raise TooManyAttempts(1.0)
                self._take(address, now)
                self._waiting += 1
            task = asyncio.create_task(
                self._judge(key, token, "" if reviewed_before else address, reviewed_before=reviewed_before)
            )
            self._asking[key] = task
            task.add_done_callback(lambda ended: self._asked(key, ended, reviewed_before=reviewed_before))
        # Requests with one token share a review, which outlives each of them.
        return await asyncio.shield(task)

    def _asked(self, key: bytes, task: asyncio.Task[Judgement], *, reviewed_before: bool) -> None:
        self._asking.pop(key, None)
        self._waiting -= not reviewed_before
        if not task.cancelled():
            task.exception()  # retrieved, though the request may have ended

    def _take(self, address: str, now: float) -> None:
        seconds = self._attempts.take(address, now)
        if seconds > 0:
            self._observe("limited")
            raise TooManyAttempts(seconds)

    async def _judge(self, key: bytes, token: str, address: str, *, reviewed_before: bool) -> Judgement:
        try:
            async with self._known if reviewed_before else self._strangers:
                viewer = await self._reviews.authenticated(token)
                missing = () if viewer is None else await self._missing(viewer)
        except ApiError as error:
            if not reviewed_before:
                self._attempts.give_back(address)  # it may have been a good one
            self._observe("unanswered")
            raise NotReviewed(str(error)) from error
        outcome: GateOutcome = "unknown" if viewer is None else "forbidden" if missing else "allowed"
        if outcome == "allowed" and not reviewed_before:
            self._attempts.give_back(address)
        seconds = self._limits.seconds if outcome == "allowed" else self._limits.refused_seconds
        judgement = Judgement(outcome, self._clock() + seconds, viewer, missing)
        self._remembered[key] = judgement
        self._remembered.move_to_end(key)
        if len(self._remembered) > self._limits.remembered:
            self._remembered.popitem(last=False)
        self._observe(outcome)
        return judgement

    async def _missing(self, viewer: Viewer) -> tuple[ApiResource, ...]:
        allowed = await asyncio.gather(*(self._reviews.may_list(viewer, resource) for resource in self._resources))
        return tuple(resource for resource, may in zip(self._resources, allowed, strict=True) if not may)

    def _observe(self, outcome: str) -> None:
        if self._observer is not None:
            self._observer.judged(outcome)
