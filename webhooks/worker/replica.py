"""A running worker process, as its server sees it: what its replica of the published devices has, and its commands."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from virt_dra.api.persistent_map import PersistentMap
from virt_dra.matching.published_slice import PublishedSlice
from virt_dra.sandbox.messages import RequestFailed
from virt_dra.sandbox.process import SandboxLost, SandboxObserver, SandboxProcess, running
from webhooks.worker.process import PROGRAM
from webhooks.worker.wire import COMMANDS, ChangeApplied, Command, DropSlices, ReplicaChange, put_slice

_AHEAD: Final = 8
"""Changes that may be sent but not yet applied, so that the worker gets to commands in between."""
_TURN_SECONDS: Final = 0.004
"""For encoding slices, before others have the event loop for as long."""
_ALIVE_SECONDS: Final = 10.0
"""How long a worker may take to apply the changes that were sent; one that takes longer is replaced."""


class Replica:
    """A running worker process. ``slices``: those of its replica; None until it was filled for the first time."""

    def __init__(self, process: SandboxProcess[ReplicaChange, ChangeApplied], control: socket.socket) -> None:
        self._process, self._control = process, control
        self.slices: PersistentMap[str, PublishedSlice] | None = None
        self._replicating = asyncio.Lock()
        self._sent = 0
        self._applied = 0
        self._progress = asyncio.Condition()
        self._lost = ""

    @classmethod
    @asynccontextmanager
    async def started(cls, observer: SandboxObserver | None) -> AsyncIterator[Replica]:
        """Start a worker process; it and all its children are killed when the context ends."""
        control, its_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.setblocking(False)
        with control, its_control:
            async with running(PROGRAM, its_control.fileno(), observer, (its_control,)) as process:
                its_control.close()
                replica = cls(process, control)
                reading = asyncio.create_task(replica._read())
                try:
                    yield replica
                finally:
                    reading.cancel()

    @property
    def pid(self) -> int:
        return self._process.pid

    def command(self, command: Command, file: socket.socket | None = None) -> None:
        """Send a command, with a socket that comes along. Raises OSError where the worker is gone, or doesn't read."""
        socket.send_fds(self._control, [COMMANDS.encoded(command)], [] if file is None else [file.fileno()])

    async def replicate(self, slices: PersistentMap[str, PublishedSlice]) -> None:
        """Make the replica equal to the slices: what has changed is sent. Raises SandboxLost."""
        async with self._replicating:
            if slices is self.slices:
                return
            put, gone = slices.differences(self.slices or PersistentMap())
            if gone:
                await self._send(DropSlices(tuple(slice_.position for slice_ in gone)))
            began = time.perf_counter()
            for slice_ in put:
                await self._send(put_slice(slice_))
                if time.perf_counter() - began > _TURN_SECONDS:
                    await asyncio.sleep(_TURN_SECONDS)
                    began = time.perf_counter()
            await self._until(self._sent)
            self.slices = slices

    async def alive(self) -> None:
        """Return once the worker has applied everything. Raises SandboxLost."""
        await self._send(DropSlices())
        await self._until(self._sent)

    async def _send(self, change: ReplicaChange) -> None:
        self._sent += 1
        number = self._sent
        await self._process.send(change, _ALIVE_SECONDS)
        await self._until(number - _AHEAD)

    async def _until(self, change: int) -> None:
        """Wait until the worker has applied the change of this number. Raises SandboxLost, also if that takes too
        long."""
        if self._applied < change:
            try:
                async with asyncio.timeout(_ALIVE_SECONDS), self._progress:
                    await self._progress.wait_for(lambda: self._lost or self._applied >= change)
            except TimeoutError:
                raise SandboxLost(f"the worker has not answered for {_ALIVE_SECONDS:g} s") from None
        if self._lost:
            raise SandboxLost(self._lost)

    async def _read(self) -> None:
        while not self._lost:
            try:
                await self._process.receive(None)
                self._applied += 1
            except (SandboxLost, RequestFailed) as error:
                self._lost = str(error)
            async with self._progress:
                self._progress.notify_all()
