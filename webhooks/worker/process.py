"""The worker process: holds a replica of the published devices, and forks a child for the questions of each review.

Must not evaluate a tenant's selector itself. Run: ``python -m webhooks.worker.process CONTROL DATA``, the file
descriptors of two inherited sockets. It has one thread, so that forking is safe, and ends when the server does.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import sys
from contextlib import suppress
from types import TracebackType
from typing import Final

from virt_dra.cel import Work
from virt_dra.matching.evaluating import evaluate
from virt_dra.matching.published_slice import PublishedSlice
from virt_dra.matching.slice_answers import QUESTION_KINDS, SelectorQuestion
from webhooks.worker import child
from webhooks.worker.wire import APPLIED, BEGIN, COMMAND_BYTES, KILL, LENGTH, SLOW, Command, apply_frame

SLOW_NICE: Final = 10
_FIRST: Final = (
    'device.driver == "a.example.com" && device.attributes["a.example.com"].?b.orValue("") in ["c"]',
    'has(device.attributes["a.example.com"].b) && device.attributes["a.example.com"].v.isGreaterThan(semver("1.2.3"))',
    'device.capacity["a.example.com"].memory.isGreaterThan(quantity("1Gi")) '
    '|| device.attributes["a.example.com"].n >= 1',
    '"text".matches("^t.*") && [1].exists(n, n > 0) && cel.bind(x, "y", x.startsWith("z"))',
)
"""Expressions for :func:`warm_up`, so that the engine's caches are filled once, not in every child."""
_READ: Final = 256 * 1024
_COMMANDS: Final = 16
"""Commands after which a frame of slices is read, even if there are more commands."""


class WorkerProcess:
    """The worker's event loop and state: the replica, and the children that run."""

    def __init__(self, control: socket.socket, data: socket.socket) -> None:
        self._control, self._data = control, data
        self._replica: dict[int, PublishedSlice] = {}
        self._children: dict[int, int] = {}
        """Process id of each child, by the number that the server knows it by. One that has ended stays here until it
        is reaped: until then no other process can get its id, so a signal can't hit the wrong one."""
        self._buffer = bytearray()

    def run(self) -> None:
        """Handle commands and slices until the server closes its end."""
        woken, wake = socket.socketpair()
        for each in (woken, wake):
            each.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._inherited = (woken, wake)
        with selectors.DefaultSelector() as ready:
            self._ready = ready
            commands = 0
            for each in (self._control, self._data, woken):
                ready.register(each, selectors.EVENT_READ)
            while True:
                found = {key.fileobj for key, _ in ready.select()}
                if woken in found:
                    with suppress(BlockingIOError):
                        woken.recv(4096)
                    for number, pid in tuple(self._children.items()):
                        if os.waitpid(pid, os.WNOHANG)[0]:
                            del self._children[number]
                # Commands first, so that a child is forked before a slice that it needs is removed; but they must not
                # starve slices.
                if self._control in found:
                    commands += 1
                    if not self._command():
                        return
                if (
                    self._data in found
                    and (self._control not in found or commands % _COMMANDS == 0)
                    and not self._slices()
                ):
                    return

    def _command(self) -> bool:
        data, files, _, _ = socket.recv_fds(self._control, COMMAND_BYTES, 1)
        if len(data) < COMMAND_BYTES:
            return False
        command = Command.decoded(data)
        pid = self._children.get(command.child)
        if command.kind == BEGIN:
            self._begin(command, socket.socket(fileno=files[0]))
        elif pid is not None and command.kind == KILL:
            os.kill(pid, signal.SIGKILL)
        elif pid is not None and command.kind == SLOW:
            with suppress(ProcessLookupError, PermissionError):
                os.setpriority(os.PRIO_PROCESS, pid, SLOW_NICE)
        return True

    def _begin(self, command: Command, answers: socket.socket) -> None:
        gc.freeze()  # so that a child's collections don't touch, and so copy, the pages that all share
        try:
            pid = os.fork()
        except OSError:
            answers.close()  # no more processes (pid limit): the server sees end of file without answers
            return
        if pid == 0:
            self._become_child()
            child.run(answers, self._replica, command.seconds)
        answers.close()
        self._children[command.child] = pid

    def _become_child(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._ready.close()
        for each in (self._control, self._data, *self._inherited):
            each.close()
        gc.enable()

    def _slices(self) -> bool:
        received = self._data.recv(_READ)
        if not received:
            return False
        self._buffer += received
        while len(self._buffer) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._buffer)
            end = LENGTH.size + length
            if len(self._buffer) < end:
                break
            message = json.loads(bytes(self._buffer[LENGTH.size : end]))
            del self._buffer[:end]
            if message:
                apply_frame(message, self._replica)
            self._data.sendall(APPLIED)
        return True


def warm_up() -> None:
    """Evaluate some fixed expressions, so that children inherit filled caches and imported modules."""
    device = {
        "attributes": {"b": {"string": "c"}, "n": {"int": 1}, "v": {"version": "1.2.3"}},
        "capacity": {"memory": {"value": "1Gi"}},
    }
    replica: dict[int, PublishedSlice] = {}
    apply_frame({"put": 0, "driver": "a.example.com", "devices": [device]}, replica)
    for text in _FIRST:
        for kind in QUESTION_KINDS:
            tuple(evaluate(SelectorQuestion(kind, (text,), [replica[0]]), Work(1_000_000)))


def main() -> None:
    control, data = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C in a terminal reaches the whole group; the server decides when the worker ends
    # a collection would touch, and so copy, pages shared with children; no garbage cycles that matter arise here
    gc.disable()

    def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        data.sendall(f"{kind.__name__}: {error}".encode(errors="replace")[:500])

    sys.excepthook = report
    warm_up()
    WorkerProcess(control, data).run()


if __name__ == "__main__":
    main()
