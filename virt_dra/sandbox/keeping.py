"""Starts another sandbox where one has ended, after a pause that grows while they end soon."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, TypeVar

from virt_dra.sandbox.messages import RequestFailed
from virt_dra.sandbox.process import SandboxLost

P = TypeVar("P")

_FIRST_SECONDS: Final = 0.1
_LASTED_SECONDS: Final = 60.0
"""From which on the end of a process isn't a failure to start."""

log = logging.getLogger("virt_dra.sandbox")


@dataclass
class Pauses:
    """Between two processes: a tenth of a second, four times as long after each that ends soon, half of it by
    chance."""

    longest: float = 60.0
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random
    _failures: int = 0
    _began: float = 0.0
    _next: float = 0.0

    @property
    def left(self) -> float:
        """Seconds until a process may be started."""
        return max(self._next - self.clock(), 0.0)

    def begin(self) -> None:
        """A process is started."""
        self._began = self.clock()

    def end(self) -> None:
        """Records that the process has ended, or couldn't be started."""
        now = self.clock()
        self._failures = 1 if now - self._began >= _LASTED_SECONDS else self._failures + 1
        pause = min(_FIRST_SECONDS * 4.0 ** min(self._failures - 1, 30), self.longest)
        self._next = now + pause * (0.5 + self.chance() / 2)


async def keep(
    started: Callable[[], AbstractAsyncContextManager[P]], use: Callable[[P], Awaitable[object]], pauses: Pauses
) -> None:
    """Starts a process and uses it until it is lost, for ever. ``use``: raises SandboxLost or RequestFailed."""
    while True:
        pauses.begin()
        try:
            async with started() as process:
                await use(process)
        except (SandboxLost, RequestFailed) as error:
            pauses.end()
            fields = {"reason": str(error), "seconds": round(pauses.left, 1)}
            log.error("a sandbox is started again", extra={"fields": fields})
            await asyncio.sleep(pauses.left)
