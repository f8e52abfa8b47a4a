"""A child of the worker: evaluates the questions of one review, writes the answers, and ends.

What it evaluates is hostile. Every limit is set before any of it is read, and the kernel enforces them, whatever runs here.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from virt_dra.cel import Interrupted
from webhooks.selectors.evaluating import evaluate
from webhooks.selectors.parts import Part, Work
from webhooks.worker.wire import answer_lines, ended_line, read_questions, stopped_line

MEMORY_BYTES: Final = 48 * 1024 * 1024
"""That a child may use beside what it shares with the worker."""
NICE: Final = 2
"""Children wait for the event loop; those that take long wait for all others."""
_READ: Final = 1024 * 1024


def run(answers: socket.socket, replica: Mapping[int, Part], seconds: float) -> None:
    """Ends the process."""
    code = 1
    try:
        _limit(seconds)
        answers.setblocking(True)
        _evaluate(answers, replica)
        code = 0
    except OSError:
        code = 2  # the server has closed its end: nobody waits for the answers
    except MemoryError:
        code = 3
    finally:
        os._exit(code)


def _limit(seconds: float) -> None:
    # The default action of SIGALRM ends the process, whatever runs in it.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    os.nice(NICE)
    for what, limit in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CPU, 2), (resource.RLIMIT_NPROC, 0)):
        resource.setrlimit(what, (limit, limit))
    with suppress(OSError):  # there is no such file but on Linux
        # Where memory ends all the same, this is the process to lose.
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(OSError):
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, size + MEMORY_BYTES))


def _evaluate(answers: socket.socket, replica: Mapping[int, Part]) -> None:
    received: list[bytes] = []
    while part := answers.recv(_READ):
        received.append(part)
    questions, work = read_questions(b"".join(received), replica)
    left = Work(work)
    try:
        for number, question in enumerate(questions):
            for line in answer_lines(number, evaluate(question, left)):
                answers.sendall(line)
    except Interrupted:
        answers.sendall(stopped_line())
    answers.sendall(ended_line())
