"""Deciding reviews: on the event loop, or in a thread for larger ones, with the worker for selectors that have no
cached answer. Each of these is shared fairly between tenants (:mod:`virt_dra.fairness`)."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from virt_dra.api.profiles.asking import DEVICES_ANNOTATION
from virt_dra.api.wire import Json
from virt_dra.fairness.lanes import FairLane, LaneLimits, LaneTurn, TooManyWaiting
from virt_dra.fairness.use import Tenant
from webhooks.knowledge import Knowledge
from webhooks.review import BadReview, Review, answer, read_review, tenant_hint
from webhooks.server.reviewing import NOT_IN_TIME, ROUNDS, Collecting, TooMuchAtOnce
from webhooks.validation import Webhook, verdict_on
from webhooks.verdict import Verdict
from webhooks.worker.parent import Worker

_LINE: Final = DEVICES_ANNOTATION.encode()
"""What a review of a VM with a line has, which costs what the profiles are that the line names."""
AT_ONCE_BYTES: Final = 8 * 1024
MEDIUM_BYTES: Final = 64 * 1024
"""Reviews up to the first size are decided on the event loop, up to the second in a thread, larger ones in another, so
that none delays all others. The worst of each size takes 20 ms, 60 ms, and 0.1 s
(docs/decisions/0011-webhook-server.md)."""
AT_ONCE_DEVICES: Final = 10_000
"""Devices and slices that a review may look at on the event loop: each list of selectors looks at 2,000 devices at
most, which takes half a millisecond, whatever the cluster has."""

IN_A_THREAD: Final = LaneLimits(waiting=16)
"""With more waiting reviews of a tenant the last would wait longer than a second."""

T = TypeVar("T")


class _Lane:
    """A place where reviews are decided, one at a time: the event loop, or a thread of its own."""

    def __init__(self, thread: str = "") -> None:
        self._turns = FairLane(IN_A_THREAD if thread else None)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=thread) if thread else None
        self._given_up = set[asyncio.Task[None]]()

    def close(self) -> None:
        """Begin no further review in the thread."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def run(self, tenant: Tenant, function: Callable[..., T], *arguments: Any) -> T:
        """The function's result. Raises :class:`BadReview` where too many reviews wait, and what the function raises.

        A review that is given up returns at once, but its turn lasts until the thread is free.
        """
        try:
            async with AsyncExitStack() as turns:
                turn = await turns.enter_async_context(self._turns.turn(tenant))
                if self._thread is None:
                    return function(*arguments)
                running = asyncio.get_running_loop().run_in_executor(self._thread, _timed, turn, function, *arguments)
                try:
                    return await asyncio.shield(running)
                except asyncio.CancelledError:
                    if not running.done():
                        self._outlast(running, turns.pop_all())
                    raise
        except TooManyWaiting:
            message = f"{self._turns.limits.waiting} reviews of this namespace are waiting; try again"
            raise BadReview(503, "ServiceUnavailable", message) from None

    def _outlast(self, running: asyncio.Future[T], turn: AsyncExitStack) -> None:
        """Ends a turn after the function that still runs in the thread."""

        async def end() -> None:
            await asyncio.wait([running])
            await turn.aclose()

        ending = asyncio.create_task(end())
        self._given_up.add(ending)
        ending.add_done_callback(self._given_up.discard)


def _timed(turn: LaneTurn, function: Callable[..., T], *arguments: Any) -> T:
    """The function's result; the turn is charged for the processor's time."""
    began = time.thread_time()
    try:
        return function(*arguments)
    finally:
        turn.used = time.thread_time() - began


class DecisionObserver(Protocol):
    """Notified of each verdict."""

    def left_unknown(self, lists: int, slices: int) -> None:
        """How many lists of selectors, and ResourceSlices for them, it doesn't take into account."""


class Deciding:
    """Decides reviews. ``seconds``: for evaluating the selectors of one."""

    def __init__(self, worker: Worker, seconds: float, observer: DecisionObserver) -> None:
        self._worker, self._seconds, self._observer = worker, seconds, observer
        self._small, self._medium, self._large = _Lane(), _Lane("review"), _Lane("large-review")

    def close(self) -> None:
        """Begin no further review."""
        for lane in (self._medium, self._large):
            lane.close()

    async def decide(
        self, webhook: Webhook, body: bytes, address: str, knowledge: Knowledge
    ) -> tuple[Review, bytes, Verdict]:
        """The review in a body, the encoded response, and the verdict. Raises :class:`BadReview`."""
        lane = self._lane(len(body), at_once=webhook.at_once and _LINE not in body)
        tenant = tenant_hint(body, address)
        until = time.monotonic() + self._seconds
        why, rounds = "", 0
        read: Review | None = None
        if lane is self._large:
            large, decided = await lane.run(tenant, _read_large, webhook, body, knowledge)
            if decided is not None:
                return large, *decided
            read = large
        while True:
            at_once = AT_ONCE_DEVICES if lane is self._small else None
            collecting = Collecting(why or (NOT_IN_TIME if rounds == ROUNDS else ""), at_once)
            collected = knowledge.with_evaluator(collecting)
            try:
                review, verdict = await lane.run(tenant, _read_and_decide, webhook, read or body, collected)
            except TooMuchAtOnce:
                lane = self._medium
                continue
            if not collecting.asked:
                self._observer.left_unknown(collecting.unknown_lists, collecting.unknown_slices)
                return review, encoded(answer(review.uid, verdict)), verdict
            read = review
            unanswered = await self._worker.answer(tenant, collecting.asked, max(until - time.monotonic(), 0.0))
            why = "" if unanswered is None else unanswered.reason
            rounds += 1

    def _lane(self, size: int, *, at_once: bool) -> _Lane:
        """The lane for a review of so many bytes."""
        if size <= AT_ONCE_BYTES and at_once:
            return self._small
        return self._medium if size <= MEDIUM_BYTES else self._large


def _read_and_decide(webhook: Webhook, review: Review | bytes, knowledge: Knowledge) -> tuple[Review, Verdict]:
    """The review, read if it wasn't yet, and the verdict. Raises :class:`BadReview`."""
    read = read_review(review) if isinstance(review, bytes) else review
    return read, verdict_on(webhook, read, knowledge)


def _read_large(webhook: Webhook, body: bytes, knowledge: Knowledge) -> tuple[Review, tuple[bytes, Verdict] | None]:
    """The review in a large body; with the answer, and without its objects, if no selectors must be evaluated. Raises
    :class:`BadReview`.

    A body may hold a million objects. Garbage collections while they are read would block the event loop for longer
    than reading does; so collection is off until they are freed.
    """
    gc.disable()
    try:
        review = read_review(body)
        collecting = Collecting()
        verdict = verdict_on(webhook, review, knowledge.with_evaluator(collecting))
        if collecting.asked or collecting.unknown_lists:
            return review, None
        wire = encoded(answer(review.uid, verdict))
        return replace(review, object=None, old=None), (wire, verdict)
    except BadReview as bad:
        refused = BadReview(bad.code, bad.reason, str(bad))  # without the traceback, which would keep the objects alive
    finally:
        gc.enable()
    raise refused


def encoded(value: Json) -> bytes:
    """JSON in UTF-8."""
    return json.dumps(value).encode()
