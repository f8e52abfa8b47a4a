"""The worker process: holds a replica of the published devices, and forks a child for every question. It evaluates nothing itself.

Run: ``python -m webhooks.worker.process CONTROL DATA``, the numbers of two sockets that it inherits. It has one thread, so that forking is
safe, and ends when the server does.
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

from webhooks.selectors.parts import Part
from webhooks.worker import child
from webhooks.worker.wire import APPLIED, BEGIN, COMMAND_BYTES, KILL, LENGTH, SLOW, Command, apply_frame

SLOW_NICE: Final = 19
_READ: Final = 256 * 1024


class Process:
    """The worker's state: the replica, and the children that run."""

    def __init__(self, control: socket.socket, data: socket.socket) -> None:
        self._control, self._data = control, data
        self._replica: dict[int, Part] = {}
        self._children: dict[int, int] = {}
        """Process ids by the number that the server knows a child by. One that has ended stays until it is waited for, so that its process
        id is nobody else's."""
        self._buffer = bytearray()

    def run(self) -> None:
        """Until the server closes its end."""
        woken, wake = socket.socketpair()
        for each in (woken, wake):
            each.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._inherited = (woken, wake)
        with selectors.DefaultSelector() as ready:
            self._ready = ready
            for each in (self._control, self._data, woken):
                ready.register(each, selectors.EVENT_READ)
            while True:
                found = {key.fileobj for key, _ in ready.select()}
                if woken in found:
                    with suppress(BlockingIOError):
                        woken.recv(4096)
                    self._reap()
                # Commands first: a child that was asked for before a slice went still has it.
                if self._control in found:
                    if not self._command():
                        return
                elif self._data in found and not self._slices():
                    return

    def _reap(self) -> None:
        for number, pid in tuple(self._children.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._children[number]

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
            answers.close()  # too many processes: the server sees an end without answers
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


def main() -> None:
    control, data = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the server decides when to end
    gc.disable()  # nothing here makes cycles that matter, and what is kept stays

    def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        data.sendall(f"{kind.__name__}: {error}".encode(errors="replace")[:500])

    sys.excepthook = report
    Process(control, data).run()


if __name__ == "__main__":
    main()
