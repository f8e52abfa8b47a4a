"""A child of the worker process: evaluates the questions of one review, writes the answers to its socket, and exits.

The selectors are untrusted. Every limit is set before any of their text is read, and enforced by the kernel, whatever
code runs here.
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

from virt_dra.cel import Interrupted, Work
from virt_dra.matching.evaluating import evaluate
from virt_dra.matching.published_slice import PublishedSlice
from webhooks.worker.wire import ENDED_LINE, STOPPED_LINE, answer_lines, read_questions

MEMORY_BYTES: Final = 48 * 1024 * 1024
"""Limit of the address space of a child beyond the worker's."""
NICE: Final = 2
"""Niceness of a child, so that the server's event loop goes first; slow children get a higher one
(:data:`.process.SLOW_NICE`)."""
_READ: Final = 1024 * 1024


def run(answers: socket.socket, replica: Mapping[int, PublishedSlice], seconds: float) -> None:
    """Answer the server's questions on the socket, within so many seconds, and exit: never returns."""
    code = 1
    try:
        _limit(seconds)
        answers.setblocking(True)
        _evaluate(answers, replica)
        code = 0
    except OSError:
        code = 2  # the server has closed its end
    except MemoryError:
        code = 3
    finally:
        os._exit(code)


def _limit(seconds: float) -> None:
    # SIGALRM's default action kills the process even in the middle of C code, which a Python signal handler can't.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    os.nice(NICE)
    for what, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CPU, 2),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(what, (limit, limit))
    with suppress(OSError):  # Linux only
        # If the container runs out of memory all the same, the OOM killer takes this process first.
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(OSError):
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, size + MEMORY_BYTES))


def _evaluate(answers: socket.socket, replica: Mapping[int, PublishedSlice]) -> None:
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
        answers.sendall(STOPPED_LINE)
    answers.sendall(ENDED_LINE)
