"""A disk and locks in memory."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from devtools.node.faults import Crash, Fault, Faults, no_faults


@dataclass(slots=True)
class Disk:
    """:class:`node_driver.state.files.DriverFiles`."""

    contents: dict[str, str] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    faults: Faults = no_faults

    async def read(self, path: str) -> str | None:
        return self.contents.get(path)

    async def replace(self, path: str, content: str, *, mode: int = 0o600) -> None:
        with _Step(self.faults, f"replace {path}"):
            self.contents[path] = content
            self.modes[path] = mode
        await asyncio.sleep(0)

    async def rename(self, path: str, new_path: str) -> None:
        with _Step(self.faults, f"rename {path}"):
            self.contents[new_path] = self.contents.pop(path)

    async def remove(self, path: str, *, up_to: str = "") -> None:
        with _Step(self.faults, f"remove {path}"):
            self.contents.pop(path, None)
        await asyncio.sleep(0)


class _Step:
    """One write, with what goes wrong before or after it."""

    def __init__(self, faults: Faults, step: str) -> None:
        self._step = step
        self._fault = faults(step)

    def __enter__(self) -> None:
        if self._fault is Fault.CRASH_BEFORE:
            raise Crash
        if self._fault in (Fault.REFUSED, Fault.STUCK):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._step.partition(" ")[2])

    def __exit__(self, *exception: object) -> None:
        if self._fault is Fault.CRASH_AFTER:
            raise Crash


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
