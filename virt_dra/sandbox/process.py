"""The side of the parent: starts a confined child process, asks it, kills and reaps it."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from virt_dra.sandbox.confinement import Confinement, forbid_tracing
from virt_dra.sandbox.inside import Connection
from virt_dra.sandbox.messages import LENGTH, BadMessage, Messages, RequestFailed

Q = TypeVar("Q")
A = TypeVar("A")
S = TypeVar("S")
K = TypeVar("K")

_ENVIRONMENT: Final = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "PYTHONHOME")
"""Environment variables that every sandbox inherits; all others are withheld."""
_READ_AHEAD: Final = 2**20
_START_SECONDS: Final = 60.0
"""For reading the settings; a machine may be busy."""

log = logging.getLogger("virt_dra.sandbox")


class SandboxLost(Exception):
    """The process has ended, or was killed; the text says what it did."""


class SandboxObserver(Protocol):
    """Callbacks for metrics."""

    def process_started(self) -> None:
        """A process was started: the first one, or one that replaces another."""


@dataclass(frozen=True)
class SandboxProgram(Generic[S, Q, A]):
    """What runs in a sandbox. ``name``: for the log; ``main``: called there with the connection and :func:`start`'s
    settings, both pickled for it; ``environment``: variables that it inherits; ``logs``: whether it writes to our
    standard error."""

    name: str
    main: Callable[[Connection, S], None]
    requests: Messages[Q]
    answers: Messages[A]
    limits: Confinement
    environment: tuple[str, ...] = ()
    logs: bool = False


class Channel(Generic[Q, A]):
    """A connection to a process that isn't trusted."""

    def __init__(
        self, requests: Messages[Q], answers: Messages[A], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._requests, self._answers, self._reader, self._writer = requests, answers, reader, writer

    @classmethod
    async def opened(cls, connected: socket.socket, requests: Messages[Q], answers: Messages[A]) -> Channel[Q, A]:
        reader, writer = await asyncio.open_connection(sock=connected, limit=_READ_AHEAD)
        return cls(requests, answers, reader, writer)

    def encoded(self, message: Q) -> bytes:
        """The frame of a message. Raises BadMessage for one that is too large."""
        return self._requests.encoded(message)

    async def send(self, frame: bytes) -> None:
        """Sends a frame. Raises OSError where the process has ended."""
        self._writer.write(frame)
        await self._writer.drain()

    async def receive(self) -> A:
        """The next message. Raises BadMessage and RequestFailed; EOFError or OSError where the process has ended."""
        length = self._answers.length(await self._reader.readexactly(LENGTH.size))
        return self._answers.decoded(await self._reader.readexactly(length))

    def close(self) -> None:
        self._writer.transport.abort()


class SandboxProcess(Generic[Q, A]):
    """A running sandbox. One that was lost is killed, and stays lost."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], channel: Channel[Q, A]) -> None:
        self._name, self._popen, self._channel = name, popen, channel
        self._asking = asyncio.Lock()

    @property
    def pid(self) -> int:
        return self._popen.pid

    async def ask(self, request: Q, kind: type[K], seconds: float) -> K:
        """The answer, of this class, to a request within so many seconds, of which it may wait for others. Raises
        SandboxLost; RequestFailed; BadMessage for too large a request."""
        frame = self._channel.encoded(request)
        async with self._within(seconds), self._asking:
            await self._channel.send(frame)
            answer = await self._channel.receive()
            if not isinstance(answer, kind):
                raise BadMessage(f"a {type(answer).__name__} where a {kind.__name__} was asked for")
            return answer

    async def send(self, message: Q, seconds: float) -> None:
        """Sends a message that has no answer. Raises SandboxLost, and BadMessage for too large a message."""
        frame = self._channel.encoded(message)
        async with self._within(seconds):
            await self._channel.send(frame)

    async def receive(self, seconds: float | None) -> A:
        """The next message. Raises SandboxLost and RequestFailed."""
        async with self._within(seconds):
            return await self._channel.receive()

    @asynccontextmanager
    async def _within(self, seconds: float | None) -> AsyncIterator[None]:
        """Kills the process if the body takes longer, is cancelled, or reads what is no message. Raises SandboxLost."""
        try:
            async with asyncio.timeout(seconds):
                yield
            return
        except TimeoutError:
            reason = f"was killed: it did not answer within {seconds:g} s"
        except (EOFError, OSError):
            reason = "has ended"
        except BadMessage as error:
            reason = f"was killed: it sent {error}"
        except RequestFailed:
            raise
        except BaseException:
            self.kill()  # its answer would be taken for that to the next request
            raise
        self.kill()
        raise SandboxLost(f"{self._name} {reason}") from None

    def kill(self) -> None:
        """Kills it and what it has forked."""
        if self._popen.returncode is None:  # not reaped, so the id is still its own
            with suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Kills and reaps it."""
        self._channel.close()
        self.kill()
        await asyncio.shield(asyncio.to_thread(self._popen.wait))


@asynccontextmanager
async def running(
    program: SandboxProgram[S, Q, A],
    settings: S,
    observer: SandboxObserver | None = None,
    inherited: Sequence[socket.socket] = (),
) -> AsyncIterator[SandboxProcess[Q, A]]:
    """A process as long as the body runs; see :func:`start`."""
    process = await start(program, settings, observer, inherited)
    try:
        yield process
    finally:
        await process.close()


async def start(
    program: SandboxProgram[S, Q, A],
    settings: S,
    observer: SandboxObserver | None = None,
    inherited: Sequence[socket.socket] = (),
) -> SandboxProcess[Q, A]:
    """Start a program; we become unreadable to it. ``inherited``: sockets that it gets, too. Raises SandboxLost."""
    if not forbid_tracing():
        log.warning("other processes of this user may read the memory of this one", extra={"fields": {}})
    begin = pickle.dumps((program.limits, pickle.dumps((program.main, settings))))
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            popen = subprocess.Popen(
                [sys.executable, "-P", "-m", "virt_dra.sandbox.inside", str(theirs.fileno()), str(os.getpid())],
                pass_fds=[connected.fileno() for connected in (theirs, *inherited)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if program.logs else subprocess.DEVNULL,
                env={name: os.environ[name] for name in (*_ENVIRONMENT, *program.environment) if name in os.environ}
                | {"PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder)},  # not the working directory
                process_group=0,  # which can be killed as one. Niceness counts within a session alone (autogroup)
            )
        except OSError as error:
            ours.close()
            raise SandboxLost(f"{program.name} can't be started: {error}") from None
    process = SandboxProcess(program.name, popen, await Channel.opened(ours, program.requests, program.answers))
    if observer is not None:
        observer.process_started()
    try:
        async with process._within(_START_SECONDS):
            await process._channel.send(LENGTH.pack(len(begin)) + begin)
    except BaseException:
        await process.close()
        raise
    return process
