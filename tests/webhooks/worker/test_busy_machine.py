"""Where other programs use the processors, a child gets little of them: what it may take is the processor's time, so
honest selectors are checked, later, and their namespace isn't charged for the waiting."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from devtools.webhooks import siege
from devtools.webhooks.serving import Served, serving
from virt_dra.api.reading.scheme import read_object
from webhooks.lint import LintInputs, LintSettings, Preflight
from webhooks.server.app import ServerLimits
from webhooks.server.callers import TELL, Callers
from webhooks.worker.parent import WorkerLimits

pytestmark = pytest.mark.slow

REMEMBERED_SECONDS = 30.0
"""For how long selectors that were too slow aren't evaluated again."""
BUSY_SECONDS = 0.8
"""Longer than what a child may use of the processor at once."""


def _send(served: Served, number: int) -> None:
    """A signal to all children of the worker, whichever of them is asked."""
    pid = served.server._worker.pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(child), number)


async def asked(served: Served, question: bytes, seconds: float | None) -> tuple[str, float]:
    """The answer, and the time that it took, where children get no processor for so many seconds; None: ever."""
    began = time.monotonic()
    answer = asyncio.create_task(served.ask(question))
    while not answer.done() and (seconds is None or time.monotonic() - began < seconds):
        _send(served, signal.SIGSTOP)
        await asyncio.sleep(0.001)
    while not answer.done():
        _send(served, signal.SIGCONT)
        await asyncio.sleep(0.01)
    code, said = await answer
    assert (code, said["response"]["allowed"]) == (200, True)
    return str(said), time.monotonic() - began


async def test_selectors_are_checked_although_a_child_gets_no_processor_for_long(tmp_path: Path) -> None:
    """Time by the clock is plenty, as this machine may be busy with other tests besides."""
    inputs = LintInputs.from_objects([read_object(raw) for raw in siege.objects(100)])
    preflight = Preflight(inputs, LintSettings.for_admission())
    limits, evaluation = ServerLimits(seconds=30), WorkerLimits(seconds=30)
    async with serving(tmp_path, preflight, limits, callers=Callers(TELL), evaluation=evaluation) as served:
        for number in range(4):
            question = siege.vmi_review("attacker-0", f"t{number}", siege.LISTS)[1]
            answer, took = await asked(served, question, BUSY_SECONDS)
            assert "not checked" not in answer
            assert took > BUSY_SECONDS


async def test_a_child_that_gets_no_processor_at_all_ends_with_the_clock(tmp_path: Path) -> None:
    inputs = LintInputs.from_objects([read_object(raw) for raw in siege.objects(100)])
    preflight = Preflight(inputs, LintSettings.for_admission())
    async with serving(tmp_path, preflight, callers=Callers(TELL)) as served:
        question = siege.vmi_review("attacker-0", "t0", siege.LISTS)[1]
        answer, took = await asked(served, question, None)
        assert "the machine was too busy to evaluate them in time" in answer
        assert 1.5 < took < 10
        async with asyncio.timeout(REMEMBERED_SECONDS / 2):  # its selectors aren't taken for slow ones
            while "not checked" in str(await served.ask(question)):
                await asyncio.sleep(0.1)
