"""A disk and locks in memory."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from devtools.node.faults import Fault, Process


@dataclass(slots=True)
class Disk:
    """What is on the disk, by absolute path."""

    contents: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProcessDisk:
    """:class:`node_driver.state.files.DriverFiles`: the disk as one process sees it."""

    disk: Disk
    process: Process

    async def read(self, path: str, *, keep: bool = False) -> str | None:
        self.process.alive()
        return self.disk.contents.get(path)

    async def replace(self, path: str, content: str, *, mode: int = 0o600) -> None:
        fault = self._before(f"replace {path}")
        self.disk.contents[path] = content
        self.process.after(fault)
        await asyncio.sleep(0)

    async def rename(self, path: str, new_path: str) -> None:
        fault = self._before(f"rename {path}")
        self.disk.contents[new_path] = self.disk.contents.pop(path)
        self.process.after(fault)

    async def remove(self, path: str, *, up_to: str = "") -> None:
        fault = self._before(f"remove {path}")
        self.disk.contents.pop(path, None)
        self.process.after(fault)
        await asyncio.sleep(0)

    def _before(self, step: str) -> Fault:
        fault = self.process.before(step)
        if fault in (Fault.REFUSED, Fault.STUCK):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), step.partition(" ")[2])
        return fault


class MemoryLocks:
    """:class:`node_driver.host.locks.Locks`; a holder that crashes releases its locks."""

    def __init__(self) -> None:
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @asynccontextmanager
    async def hold(self, names: Iterable[str], *, limit: float) -> AsyncIterator[None]:
        async with AsyncExitStack() as held:
            for name in sorted(set(names)):
                await held.enter_async_context(self._locks[name])
            yield
