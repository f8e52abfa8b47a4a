"""Deciding reviews: on the event loop, or in a thread for larger ones, with the worker for selectors that have no
cached answer."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from virt_dra.api.wire import Json
from webhooks.knowledge import Knowledge
from webhooks.review import BadReview, Review, answer, namespace_hint, read_review
from webhooks.server.fair_thread import MAX_WAITING, Asker, FairThread, TooManyWaiting
from webhooks.server.reviewing import NOT_IN_TIME, ROUNDS, Collecting, TooMuchAtOnce
from webhooks.validation import Webhook, verdict_on
from webhooks.verdict import Verdict
from webhooks.worker.parent import Worker

AT_ONCE_BYTES: Final = 8 * 1024
MEDIUM_BYTES: Final = 64 * 1024
"""Reviews up to the first size are decided on the event loop, up to the second in a thread, larger ones in another, so
that none delays all others. The worst of each size takes 20 ms, 60 ms, and 0.1 s
(docs/decisions/0011-webhook-server.md)."""
AT_ONCE_LISTS: Final = 24
"""Lists of selectors that a review may look up on the event loop: half a millisecond each with 2,000 devices."""

T = TypeVar("T")


class Deciding:
    """Decides reviews. ``seconds``: for evaluating the selectors of one."""

    def __init__(self, worker: Worker, seconds: float) -> None:
        self._worker, self._seconds = worker, seconds
        self._medium = FairThread("review")
        self._large = FairThread("large-review")

    def close(self) -> None:
        """Begin no further review."""
        for thread in (self._medium, self._large):
            thread.close()

    async def decide(
        self, webhook: Webhook, body: bytes, address: str, knowledge: Knowledge
    ) -> tuple[Review, bytes, Verdict]:
        """The review in a body, the encoded response, and the verdict. Raises :class:`BadReview`."""
        lane = self._lane(len(body))
        # An unverified caller may name any namespace, so the limit is also by address.
        asker = (address, namespace_hint(body))
        until = time.monotonic() + self._seconds
        why, rounds = "", 0
        if lane is self._large:
            read, decided = await self._run(lane, asker, _read_large, webhook, body, knowledge)
            if decided is not None:
                return read, *decided
            review = read
        else:
            review = await self._run(lane, asker, read_review, body)
        while True:
            collecting = Collecting(
                why or (NOT_IN_TIME if rounds == ROUNDS else ""), AT_ONCE_LISTS if lane is None else None
            )
            try:
                verdict = await self._run(
                    lane, asker, verdict_on, webhook, review, knowledge.with_evaluator(collecting)
                )
            except TooMuchAtOnce:
                lane = self._medium
                continue
            if not collecting.asked:
                return review, encoded(answer(review.uid, verdict)), verdict
            # An unverified caller must not use up the share of the namespace that it names.
            share = review.namespace if knowledge.verified else f"?{review.namespace}"
            unanswered = await self._worker.answer(share, collecting.asked, max(until - time.monotonic(), 0.0))
            why = "" if unanswered is None else unanswered.reason
            rounds += 1

    def _lane(self, size: int) -> FairThread | None:
        """The thread for a review; None for the event loop."""
        if size <= AT_ONCE_BYTES:
            return None
        return self._medium if size <= MEDIUM_BYTES else self._large

    async def _run(self, lane: FairThread | None, asker: Asker, function: Callable[..., T], *arguments: Any) -> T:
        if lane is None:
            return function(*arguments)
        try:
            return await lane.run(asker, function, *arguments)
        except TooManyWaiting:
            message = f"{MAX_WAITING} large reviews of this namespace are waiting; try again"
            raise BadReview(503, "ServiceUnavailable", message) from None


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
        if collecting.asked:
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
