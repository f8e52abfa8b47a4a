"""A child that gets no processor at all ends with the clock, and its selectors aren't taken for slow ones."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from devtools.webhooks import siege
from devtools.webhooks.serving import Served, serving
from virt_dra.api.reading.scheme import read_object
from webhooks.lint import LintInputs, LintSettings, Preflight
from webhooks.server.callers import TELL, Callers

pytestmark = pytest.mark.slow


async def asked(served: Served, question: bytes) -> tuple[str, float]:
    """The answer, and the time that it took, where the child gets no processor any more."""
    pid = served.server._worker.pid
    children = Path(f"/proc/{pid}/task/{pid}/children")
    began = time.monotonic()
    answer = asyncio.create_task(served.ask(question))
    while not (child := children.read_text().split()):
        await asyncio.sleep(0)
        assert not answer.done(), "the child can't be stopped any more"
    os.kill(int(child[0]), signal.SIGSTOP)
    code, said = await answer
    assert (code, said["response"]["allowed"]) == (200, True)
    return str(said), time.monotonic() - began


async def test_a_child_that_gets_no_processor_at_all_ends_with_the_clock(tmp_path: Path) -> None:
    inputs = LintInputs.of([read_object(raw) for raw in siege.objects(100)])
    known = Preflight(inputs, LintSettings.for_admission())
    async with serving(tmp_path, known, callers=Callers(TELL)) as served:
        question = siege.vmi_review("attacker-0", "t0", siege.LISTS)[1]
        answer, took = await asked(served, question)
        assert "the machine was too busy to evaluate them in time" in answer
        assert 1.5 < took < 10
        code, again = await served.ask(question)
        assert (code, "not checked" in str(again)) == (200, False), "its selectors aren't taken for slow ones"
