"""Child processes that may wait in the kernel for ever: started without a copy of the daemon, waited for with a limit,
and otherwise left alone (D-45).

A lock that such a process inherits stays locked until it has ended, even after this daemon: a later call, or another
instance, waits for it instead of starting the same again.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from node_driver.host import attribute_helper

OUTPUT_MAX: Final = 1 << 20
"""Bytes of output that are kept."""
LOWEST_FREE: Final = 10
"""Descriptors that a child inherits are moved here first, so that none is overwritten by another."""
HELPER: Final = (sys.executable, "-I", "-S", str(Path(attribute_helper.__file__)))


class StillRunning(Exception):
    """The limit has passed, and the process goes on."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """``output``: standard output and errors."""

    exit_code: int
    output: bytes


class _Output:
    """Collects what comes out of a pipe until its other end is closed, also after nobody waits for it any more.
    ``pid``: the process to reap then."""

    def __init__(self, pipe: int, pid: int | None = None) -> None:
        self._pipe = pipe
        self._pid = pid
        self._collected = bytearray()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[ProgramResult] = self._loop.create_future()
        os.set_blocking(pipe, False)
        self._loop.add_reader(pipe, self._read)

    async def wait(self, limit: float) -> ProgramResult:
        try:
            async with asyncio.timeout(limit):
                return await asyncio.shield(self._ended)
        except TimeoutError:
            raise StillRunning from None

    def _read(self) -> None:
        try:
            chunk = os.read(self._pipe, OUTPUT_MAX)
        except BlockingIOError:
            return
        if chunk:
            self._collected += chunk[: OUTPUT_MAX - len(self._collected)]
            return
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
        exit_code = 0
        if self._pid is not None:
            exit_code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        if not self._ended.done():
            self._ended.set_result(ProgramResult(exit_code, bytes(self._collected)))


async def run(
    arguments: Sequence[str], *, limit: float, lock: int, environment: Mapping[str, str] | None = None
) -> ProgramResult:
    """Runs a program, named by its absolute path. ``lock``: the descriptor of a locked file that the process inherits.
    Raises :class:`StillRunning` after ``limit`` seconds, :class:`OSError` if it can't be started."""
    reading, writing = os.pipe()
    try:
        pid = _spawn(arguments, {0: None, 1: writing, 2: writing, LOWEST_FREE - 1: lock}, environment or {})
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return await _Output(reading, pid).wait(limit)


class AttributeHelper:
    """The process of :mod:`node_driver.host.attribute_helper`, started at the first request, and again if it died."""

    def __init__(self) -> None:
        self._requests: socket.socket | None = None
        self.pid = 0

    async def operate(self, words: Sequence[str], *, limit: float, lock: int) -> list[str]:
        """What the helper answers. Raises :class:`StillRunning`, and :class:`OSError` if it dies."""
        reading, writing = os.pipe()
        request = "".join(f"{word}\0" for word in words).encode()
        try:
            try:
                socket.send_fds(self._socket(), [request], [writing, lock])
            except BrokenPipeError:
                self.close()
                socket.send_fds(self._socket(), [request], [writing, lock])
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        answer = (await _Output(reading).wait(limit)).output.decode(errors="replace").split("\0")[:-1]
        if not answer:
            raise OSError("the driver's helper process ended without an answer")
        return answer

    def close(self) -> None:
        """Ends the helper; what it is doing goes on."""
        if self._requests is not None:
            self._requests.close()
            self._requests = None
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)

    def _socket(self) -> socket.socket:
        if self._requests is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self.pid = _spawn(HELPER, {0: theirs.fileno(), 1: None, 2: None}, {})
            self._requests = ours
        return self._requests


def _spawn(arguments: Sequence[str], descriptors: Mapping[int, int | None], environment: Mapping[str, str]) -> int:
    """The process id. ``descriptors``: of the child -> ours, None for /dev/null; it gets no others."""
    moved: list[int] = []
    actions = []
    try:
        for number, descriptor in descriptors.items():
            source = os.open(os.devnull, os.O_RDWR) if descriptor is None else descriptor
            moved.append(fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, LOWEST_FREE))
            if descriptor is None:
                os.close(source)
            actions.append((os.POSIX_SPAWN_DUP2, moved[-1], number))
        return os.posix_spawn(arguments[0], list(arguments), environment, file_actions=actions, setsid=True)
    finally:
        for descriptor in moved:
            os.close(descriptor)
