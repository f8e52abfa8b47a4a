"""The worker process: holds a replica of the published devices, and forks a child for the questions of each review.

Only the children evaluate what tenants write. Every limit of theirs is set before any of its text is read, and enforced
by the kernel, whatever code runs there. The worker has one thread, so that forking is safe, and ends when the server
does.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import time
from collections import deque
from contextlib import suppress
from typing import Final, NoReturn

from virt_dra.api.resource_v1 import Device
from virt_dra.cel import Interrupted
from virt_dra.matching.positions import mask_bytes
from virt_dra.matching.slice_table import SliceTable
from virt_dra.sandbox.confinement import Confinement, address_space, confine
from virt_dra.sandbox.inside import Connection
from virt_dra.sandbox.messages import LENGTH
from virt_dra.sandbox.process import SandboxProgram
from webhooks.worker.wire import (
    ACKNOWLEDGEMENTS,
    CHILD_MESSAGES,
    COMMAND_BYTES,
    COMMANDS,
    QUESTIONS,
    REPLICA_CHANGES,
    ChangeApplied,
    ChildDone,
    Command,
    PutSlice,
    Questions,
    WrittenQuestion,
    answers,
    apply_change,
)

CHILD_MEMORY_BYTES: Final = 48 * 1024 * 1024
"""Limit of the address space of a child beyond the worker's."""
WORKER_NICE: Final = 5
"""Niceness of the worker beyond the server's. Its own work comes when reviews have much to evaluate, which is when the
server's event loop should go first."""
NICE: Final = 5
SLOW_NICE: Final = 10
"""Niceness of a child beyond the worker's, and of one that takes long. All that may run at a time, the worker, four
children and four slow ones, together get less of a processor that they share with the event loop than the loop does."""
_FIRST: Final = (
    'device.driver == "a.example.com" && device.attributes["a.example.com"].?b.orValue("") in ["c"]',
    'has(device.attributes["a.example.com"].b) && device.attributes["a.example.com"].v.isGreaterThan(semver("1.2.3"))',
    'device.capacity["a.example.com"].memory.isGreaterThan(quantity("1Gi")) '
    '|| device.attributes["a.example.com"].n >= 1',
    '"text".matches("^t.*") && [1].exists(n, n > 0) && cel.bind(x, "y", x.startsWith("z"))',
)
"""Expressions for :func:`warm_up`, so that the engine's caches are filled once, not in every child."""
_APPLIED: Final = ACKNOWLEDGEMENTS.encoded(ChangeApplied())
_COMMANDS: Final = 16
"""Commands after which a frame of slices is read, even if there are more commands."""


class WorkerProcess:
    """The worker's event loop and state: the replica, and the children that run."""

    def __init__(self, server: Connection, control: socket.socket) -> None:
        self._server, self._control = server, control
        self._replica = SliceTable()
        self._children: dict[int, int] = {}
        """Process id of each child, by the number that the server knows it by. One that has ended stays here until it
        is reaped: until then no other process can get its id, so a signal can't hit the wrong one."""

    def run(self) -> None:
        """Handle commands and changes of the replica until the server closes its end."""
        woken, wake = socket.socketpair()
        for end in (woken, wake):
            end.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._inherited = (woken, wake)
        with selectors.DefaultSelector() as ready:
            self._ready = ready
            commands = 0
            for source in (self._control, self._server, woken):
                ready.register(source, selectors.EVENT_READ)
            while True:
                readable = {key.fileobj for key, _ in ready.select()}
                if woken in readable:
                    with suppress(BlockingIOError):
                        woken.recv(4096)
                    for number, pid in tuple(self._children.items()):
                        if os.waitpid(pid, os.WNOHANG)[0]:
                            del self._children[number]
                # Commands first, so that a child is forked before a slice that it needs is removed; but they must not
                # starve slices.
                if self._control in readable:
                    commands += 1
                    if not self._command():
                        return
                is_its_turn = self._control not in readable or commands % _COMMANDS == 0
                if self._server in readable and is_its_turn and not self._change():
                    return

    def _command(self) -> bool:
        packet, files, _, _ = socket.recv_fds(self._control, COMMAND_BYTES + LENGTH.size, 1)
        if not packet:
            return False
        command = COMMANDS.decoded(packet[LENGTH.size :])
        pid = self._children.get(command.child)
        if command.kind == "begin":
            self._begin(command, Connection(socket.socket(fileno=files[0])))
        elif pid is not None and command.kind == "kill":
            os.kill(pid, signal.SIGKILL)
        elif pid is not None:
            self._lower(pid, SLOW_NICE)
        return True

    @staticmethod
    def _lower(pid: int, nice: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0) + nice)

    def _begin(self, command: Command, answers: Connection) -> None:
        gc.freeze()  # so that a child's collections don't touch, and so copy, the pages that all share
        try:
            pid = os.fork()
        except OSError:
            answers.close()  # no more processes (pid limit): the server sees end of file without answers
            return
        if pid == 0:
            self._become_child(answers, command)
        answers.close()
        self._lower(pid, NICE)  # not by itself: it may come to that after it is found to take long
        self._children[command.child] = pid

    def _become_child(self, server: Connection, command: Command) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._ready.close()
            for inherited in (self._control, self._server, *self._inherited):
                inherited.close()
            gc.enable()
            memory = address_space() + CHILD_MEMORY_BYTES
            confine(Confinement(memory, nice=0, processor_seconds=command.processor_seconds, seconds=command.seconds))
            self._answer(server)
            code = 0
        finally:
            os._exit(code)

    def _answer(self, server: Connection) -> None:
        frame = server.receive()
        if frame is None:
            return
        stopped = False
        try:
            for message in answers(QUESTIONS.decoded(frame), self._replica):
                server.send(CHILD_MESSAGES.encoded(message))
        except Interrupted:
            stopped = True
        server.send(CHILD_MESSAGES.encoded(ChildDone(stopped, time.process_time())))

    def _change(self) -> bool:
        frame = self._server.receive()
        if frame is None:
            return False
        apply_change(REPLICA_CHANGES.decoded(frame), self._replica)
        self._server.send(_APPLIED)
        return True


def warm_up() -> None:
    """Evaluate some fixed expressions, so that children inherit filled caches and imported modules."""
    raw = {
        "name": "d",
        "attributes": {"b": {"string": "c"}, "n": {"int": 1}, "v": {"version": "1.2.3"}},
        "capacity": {"memory": {"value": "1Gi"}},
    }
    replica = SliceTable()
    apply_change(PutSlice(0, "a.example.com", (Device.from_wire(raw),)), replica)
    questions = tuple(WrittenQuestion((text,), (0,), mask_bytes(1)) for text in _FIRST)
    deque(answers(Questions(questions, 1_000_000), replica), maxlen=0)


def main(server: Connection, control: int) -> None:
    """Entry point of the process. ``control``: the descriptor of the inherited socket."""
    # a collection would touch, and so copy, pages shared with children; no garbage cycles that matter arise here
    gc.disable()
    warm_up()
    WorkerProcess(server, socket.socket(fileno=control)).run()


PROGRAM: Final = SandboxProgram(
    "the process that evaluates selectors", main, REPLICA_CHANGES, ACKNOWLEDGEMENTS,
    Confinement(memory=4 * 2**30, nice=WORKER_NICE, forks=True),
)  # fmt: skip
