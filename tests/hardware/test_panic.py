"""A machine whose kernel panics, whatever is waited for. That its test is repeated is in
tests/devtools/test_lab_panics.py."""

from __future__ import annotations

import time

import pytest

from devtools.hardware_lab.machine import Board, LabMachine, NumaNode, require
from devtools.hardware_lab.panics import MachinePanicked

pytestmark = pytest.mark.hardware


def test_a_panic_ends_what_waits_for_the_machine() -> None:
    """Here for a command that has an hour. The machine answers nothing more."""
    require()
    with LabMachine(Board(nodes=(NumaNode(512),)), state_mib=16) as machine:
        began = time.monotonic()
        with pytest.raises(MachinePanicked) as raised:
            machine.run("sh", "-c", "sleep 1; echo c > /proc/sysrq-trigger", timeout=3600.0)
        assert time.monotonic() - began < 600
        said = str(raised.value)
        assert "sysrq: Trigger a crash" in said
        assert "Kernel panic - not syncing: sysrq triggered crash" in said
        with pytest.raises(MachinePanicked):
            machine.check("true", timeout=3600.0)
