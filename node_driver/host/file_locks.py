"""Locks as files: flock, which the kernel releases when the last process that has the file open ends."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from node_driver.host.changes import HostError
from node_driver.host.locks import LockBusy

FIRST_PAUSE: Final = 0.001
LONGEST_PAUSE: Final = 0.1


class FileLocks:
    """:class:`node_driver.host.locks.Locks` in one folder. Within a process whoever came first is served first; between
    processes, who asks at the right moment."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._queues: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}

    @asynccontextmanager
    async def hold(self, names: Iterable[str], *, limit: float) -> AsyncIterator[None]:
        deadline = asyncio.get_running_loop().time() + limit
        async with AsyncExitStack() as held:
            for name in sorted(set(names)):
                await held.enter_async_context(self._hold(name, deadline, removed=True))
            yield

    @asynccontextmanager
    async def descriptor(self, name: str, *, limit: float) -> AsyncIterator[int]:
        """Holds one lock; the descriptor keeps it in a process that inherits it."""
        async with self._hold(name, asyncio.get_running_loop().time() + limit) as descriptor:
            yield descriptor

    @asynccontextmanager
    async def _hold(self, name: str, deadline: float, *, removed: bool = False) -> AsyncIterator[int]:
        """``removed``: the file goes with the lock, since names of claims come and go. A file that a child may have
        inherited stays: another one of that name would be another lock."""
        queue = self._queues.setdefault(name, asyncio.Lock())
        self._waiting[name] = self._waiting.get(name, 0) + 1
        try:
            try:
                async with asyncio.timeout_at(deadline):
                    await queue.acquire()
            except TimeoutError:
                raise _busy(name) from None
            try:
                descriptor = await self._file(name, deadline)
                try:
                    yield descriptor
                finally:
                    if removed:
                        self._path(name).unlink(missing_ok=True)
                    os.close(descriptor)
            finally:
                queue.release()
        finally:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name], self._queues[name]

    async def _file(self, name: str, deadline: float) -> int:
        """The descriptor that holds the lock."""
        path = self._path(name)
        pause = FIRST_PAUSE
        while (descriptor := _locked(path, name)) is None:
            if asyncio.get_running_loop().time() >= deadline:
                raise _busy(name)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return descriptor

    def _path(self, name: str) -> Path:
        return self._folder / lock_file(name)


def _locked(path: Path, name: str) -> int | None:
    """The descriptor that holds the lock; None if another process has it, or is removing the file. Raises
    :class:`HostError` if the file can't be made."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        cure = "free space on the node, then it is tried again"
        raise HostError(f"the driver can't lock {name}: {error}; {cure}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def lock_file(name: str) -> str:
    """A file name for any text: names come from claims and devices.

    >>> lock_file("serialize")
    'serialize.lock'
    >>> lock_file("../0000:01:00.0")
    '5a020b548d89dde5176a9fd4.lock'
    """
    is_plain = name.isalnum() and name.isascii() and len(name) <= 64
    return f"{name if is_plain else hashlib.sha256(name.encode()).hexdigest()[:24]}.lock"


def _busy(name: str) -> LockBusy:
    return LockBusy(f"{name} is busy with another call; it is tried again")
