"""What the kernel withholds from a process, whatever code runs in it."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import termios
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4


@dataclass(frozen=True)
class Confinement:
    """Limits of a process. ``memory``: its address space in bytes; ``nice``: how much lower its priority is than its
    parent's; ``forks``, ``writes``: whether it may start processes and threads, and write files; ``processor_seconds``,
    ``seconds``: after which the kernel kills it; None: no limit."""

    memory: int
    nice: int = 10
    forks: bool = False
    writes: bool = False
    processor_seconds: float | None = None
    seconds: float | None = None


def confine(limits: Confinement) -> None:
    """Confines this process for good. Ctrl-C, which reaches a terminal's whole process group, is left to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if limits.seconds is not None:
        # The default action kills the process even in the middle of C code, which a Python signal handler can't.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limits.seconds)
    if limits.processor_seconds is not None:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, limits.processor_seconds)
    os.nice(limits.nice)
    _prctl(_PR_SET_DUMPABLE, 1)  # only then its files in /proc are its own
    with suppress(OSError):  # Linux only
        # If the container runs out of memory all the same, the OOM killer takes this process first.
        Path("/proc/self/oom_score_adj").write_text("1000")
    forbid_tracing()
    for limit, most in (
        (resource.RLIMIT_AS, limits.memory),
        (resource.RLIMIT_CORE, 0),
        # In whole seconds, for a process that has got at its timers.
        (resource.RLIMIT_CPU, None if limits.processor_seconds is None else ceil(limits.processor_seconds) + 1),
        (resource.RLIMIT_NPROC, None if limits.forks else 0),
        (resource.RLIMIT_FSIZE, None if limits.writes else 0),
    ):
        if most is not None:
            resource.setrlimit(limit, (most, most))


def die_with_parent(parent: int) -> None:
    """Has the kernel kill this process when its parent, of this process id, ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it had ended before


def leave_terminal() -> None:
    """Takes this process's terminal from it, into which it could write what its user seems to type (TIOCSTI)."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return  # there is none
    try:
        fcntl.ioctl(terminal, termios.TIOCNOTTY)
    finally:
        os.close(terminal)


def forbid_tracing() -> bool:
    """Have only root trace this process or read its memory, and no core dumped: a sandbox that was taken over runs for
    the same user, and could read our credentials. Returns whether that succeeded: only Linux can. Processes that are
    started later aren't affected."""
    return _prctl(_PR_SET_DUMPABLE, 0)


def address_space() -> int:
    """Bytes that this process has now; 0 where the kernel doesn't say."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return 0


def _prctl(option: int, value: int) -> bool:
    try:
        return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0)) == 0
    except (OSError, AttributeError):
        return False
