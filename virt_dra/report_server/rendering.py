"""The server's handle on the rendering process: takes its pages, ends one that takes too long."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final, NoReturn, Protocol

from virt_dra.report_server import messages
from virt_dra.report_server.following import ALIVE_SECONDS, MEMORY_BYTES, FollowSettings, main
from virt_dra.report_server.messages import Alive, Begun, Content, RenderingMessage, Unchanged
from virt_dra.sandbox.confinement import Confinement
from virt_dra.sandbox.keeping import Pauses, keep
from virt_dra.sandbox.messages import RequestFailed
from virt_dra.sandbox.process import SandboxLost, SandboxObserver, SandboxProcess, SandboxProgram, running

PROGRAM: Final = SandboxProgram(
    "the process that renders the page", main, messages.NO_REQUESTS, messages.RENDERING_MESSAGES,
    Confinement(memory=MEMORY_BYTES, forks=True, writes=True),
    # What is needed to reach the cluster; an exec plugin that needs more is given it by the kubeconfig.
    ("HOME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTPS_PROXY", "https_proxy",
     "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    logs=True,
)  # fmt: skip

log = logging.getLogger("virt_dra.report")


@dataclass(frozen=True)
class RenderingLimits:
    """The limits of a rendering process. When a process is ended, in seconds: ``silence``: without any message, as it
    says that it lives also while it renders; ``longest``: in one rendering, where 50 waiting VMs are explained within
    two seconds each."""

    silence: float = 12 * ALIVE_SECONDS
    longest: float = 300.0


@dataclass(frozen=True)
class Stale:
    """The time since when the content isn't kept up to date, and why."""

    since: datetime
    why: str


class RenderingObserver(SandboxObserver, Protocol):
    """The metrics of rendering. Must not raise."""

    def rendered(self, seconds: float) -> None:
        """The content was rendered, whether it has changed or not."""


class RenderingProcess:
    """Keeps :attr:`content` up to date while :meth:`running`."""

    def __init__(
        self, settings: FollowSettings, observer: RenderingObserver | None = None, *,
        limits: RenderingLimits | None = None, pauses: Pauses | None = None,
        program: SandboxProgram[FollowSettings, None, RenderingMessage] = PROGRAM,
    ) -> None:  # fmt: skip
        self._settings, self._observer, self._program = settings, observer, program
        self._limits, self._pauses = limits or RenderingLimits(), pauses or Pauses()
        self.on_change: Callable[[], None] = lambda: None
        """Called when content or staleness has changed."""
        self.content: Content | None = None
        self.stale: Stale | None = None
        self.pid = 0
        """Of the process that there is now; 0 for none."""
        self._current = datetime.now(UTC)
        """When the content was last known to be right."""
        self._rendering_since: float | None = None
        self._rendered = False
        """Whether the process that there is now has rendered."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A process runs while the body does, which begins at once."""
        async with asyncio.TaskGroup() as group:
            started = partial(running, self._program, self._settings, self._observer)
            task = group.create_task(keep(started, self._follow, self._pauses))
            try:
                yield
            finally:
                task.cancel()

    async def _follow(self, process: SandboxProcess[None, RenderingMessage]) -> NoReturn:
        self.pid, self._rendering_since, self._rendered = process.pid, None, False
        try:
            while True:
                self._take(await process.receive(self._limits.silence))
                if time.monotonic() - (self._rendering_since or time.monotonic()) > self._limits.longest:
                    raise SandboxLost(f"{self._program.name} was killed: one page took too long")
        except (SandboxLost, RequestFailed) as error:
            self._set_stale(Stale(self._current, str(error)))
            raise
        finally:
            self.pid = 0

    def _take(self, message: RenderingMessage) -> None:
        match message:
            case Begun():
                self._rendering_since = time.monotonic()
            case Alive(since):
                if since is not None:
                    self._set_stale(self.stale or Stale(since, "the cluster's API server doesn't answer"))
                elif self._rendered:
                    self._current = datetime.now(UTC)
                    self._set_stale(None)
            case Unchanged() | Content():
                self._current, self._rendering_since, self._rendered = message.at, None, True
                if self._observer is not None:
                    self._observer.rendered(message.seconds)
                if isinstance(message, Content):
                    self._show(message)
                else:
                    self._set_stale(None)

    def _show(self, content: Content) -> None:
        if self.content is None or self.content.version != content.version:
            fields = {"version": content.version, "bytes": len(content.page), "seconds": content.seconds}
            log.info("rendered", extra={"fields": fields})
        self.content, self.stale = content, None
        self.on_change()

    def _set_stale(self, stale: Stale | None) -> None:
        if stale != self.stale:
            self.stale = stale
            self.on_change()
