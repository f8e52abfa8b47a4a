"""No review is answered wrongly, however it is made: 3,000 by :mod:`tests.webhooks.server.hostile`, some of them over the network.

More of them, with times: ``python -m bench webhook``.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

from tests.webhooks.server.hostile import Hostile, hostile_reviews
from tests.webhooks.server.serving import KNOWLEDGE, Served, body, decide, review, serving, vmi
from tests.webhooks.server.test_server import ADMITTED
from virt_dra.api.kubevirt_versions import NEWEST, Gates
from virt_dra.api.wire import WireError
from virt_dra.cli.jsonl.lines import read_vmi
from virt_dra.cluster.memory.patches import patched
from webhooks import vmi as vmi_rules
from webhooks.review import BadReview, Review, read_review
from webhooks.server.app import Limits
from webhooks.server.log import json_logging
from webhooks.validation import WEBHOOKS, judge
from webhooks.verdict import Verdict


def expected(hostile: Hostile) -> tuple[bool, str]:
    """Whether an object of a well-formed review is allowed, and the message: as KubeVirt's rules say that read it by themselves."""
    try:
        verdict = vmi_rules.review(read_vmi(json.loads(json.dumps(hostile.object))), Gates.of(NEWEST))
    except WireError as error:
        return False, ", ".join(message for _, message in error.problems)
    return verdict.allowed, verdict.message


def is_settled(pod: dict[str, Any], response: dict[str, Any]) -> bool:
    """Whether what a launcher pod was answered can be done, is no more than ours, and leaves nothing to be done a second time."""
    if not response["allowed"]:
        return bool(response["status"]["details"]["causes"])
    operations = json.loads(base64.b64decode(response.get("patch", "W10=")))
    changed = patched(pod, operations)
    assert isinstance(changed, dict)
    again = judge(WEBHOOKS["/mutate-launcher-pod"], read_review(json.dumps(review(changed)).encode()), KNOWLEDGE)
    return again.allowed and not again.patch and all("virt-dra" in json.dumps(operation) for operation in operations)


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
        return decide(WEBHOOKS[hostile.path], hostile.body, KNOWLEDGE)
    except BadReview as bad:
        return bad


def test_over_the_network_they_leave_the_server_as_it_was(tmp_path: Path) -> None:
    async def ask(served: Served, hostile: Hostile) -> None:
        code, answer = await served.ask(hostile.body, hostile.path)
        if code == 200:
            assert answer["kind"] == "AdmissionReview"
        else:
            assert (code, answer["kind"], answer["code"]) == (400, "Status", 400)

    async def all_of_it() -> None:
        async with serving(tmp_path, limits=Limits(seconds=30)) as served:
            asked = iter(islice(hostile_reviews(2), 400))

            async def client() -> None:
                for hostile in asked:
                    await ask(served, hostile)

            await asyncio.gather(*(client() for _ in range(4)))
            assert await served.ask(body(vmi())) == ADMITTED
            assert served.server._in_flight == served.server._buffered == 0

    log = StringIO()
    handler = json_logging(log, logging.DEBUG)
    try:
        asyncio.run(all_of_it())
    finally:
        logging.getLogger().removeHandler(handler)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert sum(line["logger"] == "virt_dra.webhook" for line in lines) >= 150, "the same isn't told again and again"
    assert not [line for line in lines if "error" in line]
