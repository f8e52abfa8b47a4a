"""Garbage collection around a computation is left as it was found. In processes of their own: with the objects of all
tests, to freeze and unfreeze takes seconds."""

from __future__ import annotations

import subprocess
import sys

_DURING_AND_AFTER = """
import gc
from virt_dra.simulator.collector import rare_collections
thresholds = gc.get_threshold()
with rare_collections():
    print(gc.get_freeze_count() > 0, gc.get_threshold() != thresholds)
print(gc.get_freeze_count(), gc.get_threshold() == thresholds)
"""

_FROZEN_BEFORE = """
import gc
from virt_dra.simulator.collector import rare_collections
gc.freeze()
frozen = gc.get_freeze_count()
with rare_collections():
    pass
print(gc.get_freeze_count() >= frozen > 0)
"""


def _printed(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True).stdout


def test_objects_are_frozen_for_as_long_as_it_computes() -> None:
    assert _printed(_DURING_AND_AFTER) == "True True\n0 True\n"


def test_what_the_process_froze_before_stays_frozen() -> None:
    assert _printed(_FROZEN_BEFORE) == "True\n"
