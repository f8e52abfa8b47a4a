"""Plays histories, and counts those that fail."""

from __future__ import annotations

import traceback
from collections import Counter

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from devtools.keeping.faults import FAULTS
from devtools.keeping.machine import Histories

STEPS = 30
SEED = 3
"""Of the histories that faults are put into, so that each is put into the same ones."""


def _settings(count: int, *, shrinks: bool) -> settings:
    return settings(
        max_examples=count, stateful_step_count=STEPS, deadline=None, database=None, derandomize=False,
        suppress_health_check=list(HealthCheck), report_multiple_bugs=False, print_blob=False,
        phases=(Phase.generate, Phase.shrink) if shrinks else (Phase.generate,),
    )  # fmt: skip


def played(count: int, start: int) -> tuple[str, Counter[str]]:
    """The first history that breaks a promise, as small as it can be, or ""; and what was seen. ``start``: the seed."""

    class Fresh(Histories):
        seen = Counter()

    try:
        run_state_machine_as_test(seed(start)(Fresh), settings=_settings(count, shrinks=True))
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - goes to the reader with the steps that led there
        notes = "\n".join(getattr(error, "__notes__", ()))
        return f"{''.join(traceback.format_exception(error, limit=-3))}\n{notes}", Fresh.seen
    return "", Fresh.seen


def found_out(fault: str, count: int) -> int:
    """The number of histories, of so many, that detect a fault."""

    class Counted(Histories):
        failed = []

    with FAULTS[fault]():
        run_state_machine_as_test(seed(SEED)(Counted), settings=_settings(count, shrinks=False))
    return len(Counted.failed or ())
