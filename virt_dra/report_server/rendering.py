"""The server's handle on the rendering process: starts it, takes its pages, ends one that hangs, starts another where
it has ended."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from typing import Any, Final, Protocol

from virt_dra.cluster.watching.backoff import backoff
from virt_dra.report_server.following import ALIVE_SECONDS, FollowSettings, main
from virt_dra.report_server.messages import BadMessage, RenderingMessage, read_message

_READ_AHEAD: Final = 2**20

log = logging.getLogger("virt_dra.report")


@dataclass(frozen=True)
class RenderingLimits:
    """When a process is ended, in seconds: ``silence``: without any message, as it says that it lives also while it
    renders; ``longest``: in one rendering, where 50 waiting VMs are explained within two seconds each. ``first_pause``,
    ``longest_pause``: until the next one."""

    silence: float = 12 * ALIVE_SECONDS
    longest: float = 300.0
    first_pause: float = 1.0
    longest_pause: float = 60.0


@dataclass(frozen=True)
class Content:
    """What is served: a page and a document, each with its gzip form. ``at``: when it last changed; ``seconds``: what
    rendering took."""

    version: str
    at: datetime
    page: bytes
    document: bytes
    page_gzip: bytes
    document_gzip: bytes
    seconds: float = 0.0


@dataclass(frozen=True)
class Stale:
    """That the content isn't kept up to date, since when, and why."""

    since: datetime
    why: str


class RenderingObserver(Protocol):
    """The metrics of rendering. Must not raise."""

    def started(self) -> None:
        """A process was started."""

    def rendered(self, seconds: float) -> None:
        """The content was rendered, whether it has changed or not."""


class RenderingProcess:
    """Keeps :attr:`content` up to date while :meth:`running`."""

    def __init__(
        self, settings: FollowSettings, observer: RenderingObserver | None = None, *,
        limits: RenderingLimits | None = None, entry: Callable[[FollowSettings, socket.socket], None] = main,
    ) -> None:  # fmt: skip
        self._settings, self._observer, self._entry = settings, observer, entry
        self._limits = limits or RenderingLimits()
        self.on_change: Callable[[], None] = lambda: None
        """Called when content or staleness has changed."""
        self.content: Content | None = None
        self.stale: Stale | None = None
        self._process: BaseProcess | None = None
        self._current = datetime.now(UTC)
        """When the content was last known to be right."""
        self._rendering_since: float | None = None
        self._failures = 0

    @property
    def pid(self) -> int:
        """Of the process that there is now; 0 for none."""
        return self._process.pid or 0 if self._process is not None else 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A process runs while the body does, which begins at once."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._keep())
            try:
                yield
            finally:
                task.cancel()

    async def _keep(self) -> None:
        while True:
            why = await self._one()
            self._failures += 1
            pause = backoff(
                self._failures, random.random(), first=self._limits.first_pause, longest=self._limits.longest_pause
            )
            self._set_stale(Stale(self._current, why))
            log.error(why, extra={"fields": {"again": round(pause, 1)}})
            await asyncio.sleep(pause)

    async def _one(self) -> str:
        """One process until its end. Returns why it ended."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = get_context("spawn").Process(
                target=self._entry, args=(self._settings, theirs), name="virt-dra-report-rendering", daemon=True
            )
            self._process, self._rendering_since = process, None
            await asyncio.to_thread(process.start)
            theirs.close()
            if self._observer is not None:
                self._observer.started()
            reader, writer = await asyncio.open_connection(sock=ours, limit=_READ_AHEAD)
            try:
                return await self._read(reader)
            finally:
                self._process = None
                writer.transport.abort()
                process.kill()
                await asyncio.shield(asyncio.to_thread(process.join))

    async def _read(self, reader: asyncio.StreamReader) -> str:
        while True:
            try:
                async with asyncio.timeout(self._limits.silence):
                    message = await read_message(reader.readexactly)
                self._take(message)
            except TimeoutError:
                return "the process that renders the page hangs, and was ended"
            except (asyncio.IncompleteReadError, OSError):
                return "the process that renders the page has ended"
            except BadMessage as error:
                return f"the process that renders the page sends what is no page ({error}), and was ended"
            began = self._rendering_since
            if began is not None and time.monotonic() - began > self._limits.longest:
                return "the process that renders the page took too long, and was ended"

    def _take(self, message: RenderingMessage) -> None:
        """Takes a message over. Raises :class:`BadMessage`."""
        now = datetime.now(UTC)
        match message.kind:
            case "alive":
                since = _number(message.fields, "staleSince")
                if since is not None:
                    at = _time(since)
                    self._set_stale(
                        self.stale if self.stale is not None else Stale(at, "the cluster's API server doesn't answer")
                    )
                elif self.content is not None and self._failures == 0:
                    self._current = now
                    self._set_stale(None)
            case "rendering":
                self._rendering_since = time.monotonic()
            case "same" | "page":
                self._finished(message)
            case _:
                raise BadMessage(f"a message of kind {message.kind[:40]!r}")

    def _finished(self, message: RenderingMessage) -> None:
        seconds, at, version = (
            _number(message.fields, "seconds"),
            _number(message.fields, "at"),
            message.fields.get("version"),
        )
        if seconds is None or at is None or not isinstance(version, str) or not version.isalnum() or len(version) > 64:
            raise BadMessage("a page without its time and version")
        self._rendering_since, self._failures = None, 0
        self._current = _time(at)
        if self._observer is not None:
            self._observer.rendered(seconds)
        if message.kind == "page":
            if len(message.parts) != 4:
                raise BadMessage("a page without its parts")
            page, document, page_gzip, document_gzip = message.parts
            before, self.stale = self.content, None
            self.content = Content(version, _time(at), page, document, page_gzip, document_gzip, seconds)
            if before is None or before.version != version:
                log.info("rendered", extra={"fields": {"version": version, "bytes": len(page), "seconds": seconds}})
            self.on_change()
        else:
            self._set_stale(None)

    def _set_stale(self, stale: Stale | None) -> None:
        if stale != self.stale:
            self.stale = stale
            self.on_change()


def _number(fields: dict[str, Any], name: str) -> float | None:
    value = fields.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _time(seconds: float) -> datetime:
    """Raises :class:`BadMessage`."""
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(seconds, UTC)
    raise BadMessage("a time that is none")
