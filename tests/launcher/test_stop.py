"""A launcher's wish to stop is set by a signal's handler, in the middle of whatever its thread does."""

from __future__ import annotations

import subprocess
import sys

from launcher.process.stop import Stop

INTERRUPTED = """
import signal
from launcher.process.stop import Stop

for moment in range(400):
    stop = Stop()
    signal.signal(signal.SIGALRM, lambda number, frame: stop.set())
    signal.setitimer(signal.ITIMER_REAL, 1e-5 * (1 + moment % 40))
    while not stop.wait(1e-4):
        pass
print("stopped each time")
"""
"""With ``threading.Event`` instead, it doesn't end."""


def test_a_wish_lasts() -> None:
    stop = Stop()
    assert (stop.is_set(), stop.wait(0.0)) == (False, False)
    stop.set()
    assert (stop.is_set(), stop.wait(60.0), stop.wait(60.0)) == (True, True, True)


def test_a_signal_at_any_moment_of_a_wait_ends_it() -> None:
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "stopped each time\n", "")
