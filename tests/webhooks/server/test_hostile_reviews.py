"""No review is answered wrongly, however it is made: 3,000 by :mod:`devtools.webhooks.hostile_reviews`, some of them
over the network.

More of them, with times: ``python -m bench webhook``.
"""

from __future__ import annotations

import asyncio
import json
import logging
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from devtools.webhooks.hostile_reviews import Hostile, expected, hostile_reviews, is_settled
from devtools.webhooks.serving import KNOWLEDGE, Served, body, decide_body, serving, vmi
from tests.webhooks.server.test_server import ADMITTED
from webhooks.review import BadReview, Review
from webhooks.server.app import ServerLimits
from webhooks.server.log import json_logging
from webhooks.validation import WEBHOOKS
from webhooks.verdict import Verdict

pytestmark = pytest.mark.slow


def test_every_one_is_answered_as_it_should() -> None:
    denied = unanswered = allowed = changed = 0
    for hostile in islice(hostile_reviews(1), 3000):
        decided = _decided(hostile)
        if isinstance(decided, BadReview):
            # An object may hold what no API server would send either, such as half of a character.
            assert decided.code == 400
            assert str(decided).isprintable()
            assert len(str(decided)) < 400
            unanswered += 1
            continue
        reviewed, wire, verdict = decided
        response: dict[str, Any] = json.loads(wire)["response"]
        assert (response["uid"], response["allowed"]) == (reviewed.uid, verdict.allowed)
        assert set(response) <= {"uid", "allowed", "status", "warnings", "patchType", "patch"}
        assert wire.isascii()
        assert len(wire) < 300_000 or hostile.pod is not None
        if hostile.pod is not None:
            assert is_settled(hostile.pod, response)
            changed += bool(verdict.patch)
        if hostile.object is not None:
            assert (verdict.allowed, verdict.message) == expected(hostile)
        denied += not verdict.allowed
        allowed += verdict.allowed
    assert min(denied, unanswered, allowed, changed) > 200, "the mixture is one"


def _decided(hostile: Hostile) -> tuple[Review, bytes, Verdict] | BadReview:
    try:
        return decide_body(WEBHOOKS[hostile.path], hostile.body, KNOWLEDGE)
    except BadReview as bad:
        return bad


async def test_over_the_network_they_leave_the_server_as_it_was(tmp_path: Path) -> None:
    async def ask(served: Served, hostile: Hostile) -> None:
        code, answer = await served.ask(hostile.body, hostile.path)
        if code == 200:
            assert answer["kind"] == "AdmissionReview"
        else:
            assert (code, answer["kind"], answer["code"]) == (400, "Status", 400)

    async def all_of_it() -> None:
        async with serving(tmp_path, limits=ServerLimits(seconds=30)) as served:
            asked = iter(islice(hostile_reviews(2), 400))

            async def client() -> None:
                for hostile in asked:
                    await ask(served, hostile)

            await asyncio.gather(*(client() for _ in range(4)))
            assert await served.ask(body(vmi())) == ADMITTED
            assert served.server._in_flight == served.server._bodies.buffered == 0

    log = StringIO()
    handler = json_logging(log, logging.DEBUG)
    try:
        await all_of_it()
    finally:
        logging.getLogger().removeHandler(handler)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert sum(line["logger"] == "virt_dra.webhook" for line in lines) >= 150, "the same isn't told again and again"
    assert not [line for line in lines if "error" in line]
