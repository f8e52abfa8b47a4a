"""Process 1 of a container, which has to free processes whose parents are gone: libvirt waits 40 seconds for a QEMU
that nobody frees after its end, before it says that the domain has ended."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Final

_PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT)


def leave_process_1() -> None:
    """Returns in a child if this is process 1. Process 1 passes signals on to it, and ends as it does: with its exit
    code, or 128 and the signal's number."""
    if os.getpid() != 1:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)  # what comes before there is a child waits
    child = os.fork()
    if child:

        def pass_on(number: int, frame: FrameType | None) -> None:
            os.kill(child, number)

        for number in _PASSED_ON:
            signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    while child:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
