"""The rendering process: it follows a cluster by informers, renders what they hold when it changes, and sends that to
the server.

What tenants wrote (names, selectors) is read and evaluated here and nowhere else. It has the rights of its
ServiceAccount, which reads, and none of the viewers' tokens.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.cluster.port import ApiError
from virt_dra.cluster.watching.informer import Informer, ListerWatcher, running
from virt_dra.cluster.watching.transforms import differ_in_version_only, leaving_out
from virt_dra.model.kinds import LABELS, OFTEN_NOT_SERVED, READ
from virt_dra.report_server.messages import RENDERING_MESSAGES, Alive, Begun, Content, RenderingMessage, Unchanged
from virt_dra.report_server.pace import Pace
from virt_dra.sandbox.inside import Connection
from virt_dra.sandbox.messages import BadMessage, RequestFailed
from webhooks.server.log import json_logging

if TYPE_CHECKING:
    from virt_dra.cluster.kube.cluster import KubeCluster

ALIVE_SECONDS: Final = 5.0
"""From one message that the cluster is followed to the next."""
_PROBE_SECONDS: Final = 10.0
_OLDEST: Final = 240.0
"""Seconds since a kind was last heard of, from which on what is held of it may be old: a bookmark comes every
minute."""
_LONGEST_PAUSE: Final = 10.0
_COMPRESSION: Final = 6
MEMORY_BYTES: Final = 6 * 2**30
"""Bytes of address space: 5,000 nodes with 40,000 devices need 1.5 GiB of it, and 320 MiB of memory."""

_META: Final = ("metadata.managed_fields", "metadata.finalizers")
_TRIMS: Final[dict[type[TypedObject], Callable[[Any], Any]]] = {
    Node: leaving_out(*_META, "metadata.annotations"),
    Pod: leaving_out(
        *_META, "spec.security_context",
        *(f"spec.containers.{name}" for name in ("command", "args", "env", "volume_mounts", "readiness_probe",
            "security_context")),
    ),
}  # fmt: skip
"""What no report reads, and may be large. Of other kinds everything is kept: findings are about any field of what VMs
name."""

log = logging.getLogger("virt_dra.report")


@dataclass(frozen=True)
class Rendered:
    """A page and the document of the same content. ``version``: another one for another content."""

    version: str
    page: bytes
    document: bytes


class Render(Protocol):
    """Renders all objects at a time. It is pickled for the process, and keeps there what it remembers."""

    def __call__(self, objects: Sequence[TypedObject], at: datetime, *, explain: bool) -> Rendered:
        """``explain``: whether what waits is explained anew, which takes a second for each on large clusters; else as
        it was before."""


@dataclass(frozen=True)
class FollowSettings:
    """What the process is started with. ``kubeconfig``, ``context``: as for every command; None for the usual
    places."""

    render: Render
    kubeconfig: str | None = None
    context: str | None = None
    log_level: int = logging.INFO
    pace: Pace = field(default_factory=Pace)


class Following:
    """Follows a cluster, and renders it. ``send``: sends a message; it may block, and is called in threads."""

    def __init__(
        self, cluster: ListerWatcher, settings: FollowSettings, send: Callable[[RenderingMessage], None]
    ) -> None:
        self._settings, self._send = settings, send
        self._pace, self._explaining = replace(settings.pace), replace(settings.pace)
        self._wake = asyncio.Event()
        self._informers = tuple(self._informer(cluster, kind) for kind in READ["report-server"].all)
        self._version = ""

    @property
    def age(self) -> float:
        """Seconds since the kind was heard of that was heard of longest ago, of those that are served; 0 where all are
        quiet as usual."""
        oldest = max(
            (informer.age for informer in self._informers if informer.has_synced and not informer.not_served),
            default=0.0,
        )
        return oldest if oldest > _OLDEST else 0.0

    async def run(self) -> None:
        """Follow the cluster and render until cancelled."""
        async with running(*self._informers):
            log.info(
                "following", extra={"fields": {informer.kind.KIND: len(informer.store) for informer in self._informers}}
            )
            await asyncio.to_thread(gc.collect)
            gc.freeze()  # what is held at the beginning is mostly held for ever
            await self._render(explain=False)  # so that there is a page soon
            while True:
                self._wake.clear()
                due = self._explaining.due()
                wait = min(due, self._pace.due()) - time.monotonic()
                if wait <= 0:
                    await self._render(explain=due <= time.monotonic())
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._wake.wait()

    async def _render(self, *, explain: bool) -> None:
        """Render and send the page. Explanations have a pace of their own, since they take longer."""
        for pace in (self._pace, self._explaining) if explain else (self._pace,):
            pace.begin(time.monotonic())
        objects: list[TypedObject] = []
        for informer in self._informers:
            objects += sorted(informer.store.values(), key=lambda obj: obj.key)
        at = datetime.now(UTC)
        await asyncio.to_thread(self._send, Begun())
        try:
            message = await asyncio.to_thread(self._rendered, objects, at, explain=explain)
            await asyncio.to_thread(self._send, message)
            if isinstance(message, Content):
                self._version = message.version
        except BadMessage as error:
            log.error("the page can't be sent", extra={"fields": {"reason": str(error)}})
        self._pace.end(time.monotonic(), counts=not explain)
        if explain:
            self._explaining.end(time.monotonic())

    def _rendered(self, objects: Sequence[TypedObject], at: datetime, *, explain: bool) -> Unchanged | Content:
        """In a thread: the informers go on meanwhile."""
        began = time.monotonic()
        rendered = self._settings.render(objects, at, explain=explain)
        seconds = round(time.monotonic() - began, 3)
        if rendered.version == self._version:
            return Unchanged(at, seconds)
        compressed = [gzip.compress(part, _COMPRESSION, mtime=0) for part in (rendered.page, rendered.document)]
        return Content(rendered.version, at, seconds, rendered.page, rendered.document, *compressed)

    def _informer(self, cluster: ListerWatcher, kind: type[ObjectT]) -> Informer[ObjectT]:
        made = Informer(
            cluster,
            kind,
            labels=LABELS.get(kind, ""),
            optional=kind in OFTEN_NOT_SERVED,
            transform=_TRIMS.get(kind),
            longest_pause=_LONGEST_PAUSE,
        )
        made.on_change(self._changed)
        return made

    def _changed(self, old: TypedObject | None, new: TypedObject | None) -> None:
        if old is not None and new is not None and differ_in_version_only(old, new):
            return
        self._pace.change(time.monotonic())
        self._explaining.change(time.monotonic())
        self._wake.set()


# --- the process --------------------------------------------------------------------------------------------------


def main(connection: Connection, settings: FollowSettings) -> None:
    """Entry point of the process."""
    json_logging(sys.stderr, settings.log_level)
    asyncio.run(_follow(settings, connection))


async def _follow(settings: FollowSettings, connection: Connection) -> None:
    from virt_dra.cluster.kube.cluster import ConnectionProblem, connect

    sending = threading.Lock()

    def send(message: RenderingMessage) -> None:
        frame = RENDERING_MESSAGES.encoded(message)
        with sending:
            connection.send(frame)

    # the server sends no data, so a readable input is its end
    asyncio.get_running_loop().add_reader(connection, lambda: os._exit(0))
    try:
        async with connect(settings.kubeconfig, settings.context) as cluster, asyncio.TaskGroup() as group:
            following = Following(cluster, settings, send)
            group.create_task(_report_alive(cluster, following, send))
            await following.run()
    except ConnectionProblem as error:
        raise RequestFailed(str(error)) from None
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _report_alive(
    cluster: KubeCluster, following: Following, send: Callable[[RenderingMessage], None]
) -> NoReturn:
    """Sends every few seconds that the process lives, and since when the cluster isn't heard, while it isn't."""
    heard, failing = time.time(), False
    recovered: float | None = None
    while True:
        now = time.time()
        since = heard if failing else now - following.age if following.age else None
        await asyncio.to_thread(send, Alive(None if since is None else datetime.fromtimestamp(since, UTC)))
        await asyncio.sleep(ALIVE_SECONDS)
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await cluster.server_version()
        except (ApiError, TimeoutError):
            failing, recovered = True, None
            continue
        now = time.time()
        recovered = recovered or now
        # Informers may pause so long before they see that it is back.
        if not failing or now - recovered > _LONGEST_PAUSE:
            heard, failing = now, False
