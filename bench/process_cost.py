"""What a command costs: its time, and its memory at the peak."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence


def measured(command: Sequence[str], endings: Sequence[int] = (0,)) -> tuple[float, float]:
    """Seconds, and MiB of the process at its peak, without its children. Ends the bench if the command ends with
    another exit code."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in endings:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {said.decode()}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024
