"""The server of ``virt-dra webhook``: its certificate, start and end, by the options. Needs the extra ``webhook``."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from virt_dra.cli.shared.cluster_options import ClusterChoice
from virt_dra.cli.shared.output import refusing
from virt_dra.cli.shared.stopping import cannot_listen, stop_signal
from virt_dra.cli.shared.tls_options import TlsOptions
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.live.world import LiveSettings, LiveWorld
from webhooks.knowledge import Knowledge
from webhooks.server.app import ServerLimits, WebhookServer
from webhooks.server.callers import LIMIT, Callers
from webhooks.server.log import LOGGER, json_logging
from webhooks.server.metrics import Metrics
from webhooks.tls.reloading import CertificateError, ReloadingTls

log = logging.getLogger(LOGGER)

_RELOAD_SECONDS: Final = 10.0
_LOGGED_EVERY: Final = 10.0
"""Seconds between two log lines while the server isn't ready."""


@dataclass(frozen=True)
class Serving:
    """The options of the server, and its run until a signal. Raises UsageError, ClickException; ends the process if it
    can't serve. ``announce``: seconds between SIGTERM and the end of accepting connections."""

    tls: TlsOptions
    client_ca: Path | None
    callers: Callers
    limits: ServerLimits
    host: str
    port: int
    plain_port: int
    announce: float
    log_level: int

    def by(self, knowledge: Knowledge) -> None:
        """Serve by knowledge that doesn't change."""
        with refusing("text", CertificateError):
            reloading = ReloadingTls(self.tls.files(), self.client_ca)
            server = WebhookServer(lambda: knowledge, reloading, limits=self.limits, callers=self.callers)
        json_logging(sys.stderr, self.log_level)
        # The knowledge lives as long as the process; traversing it in garbage collections would make single reviews
        # slow.
        gc.collect()
        gc.freeze()
        asyncio.run(self._serve(server))

    def by_cluster(self, cluster: ClusterChoice, settings: LiveSettings) -> None:
        """Serve by the current state of a cluster: ready once every kind has been read and selectors can be
        evaluated."""
        certificate = self.tls.files()
        json_logging(sys.stderr, self.log_level)

        async def serve() -> None:
            async with AsyncExitStack() as stack:
                connected = await stack.enter_async_context(cluster.connected(ClientLimits()))
                tls = ReloadingTls(certificate, self.client_ca)
                live = LiveWorld(connected, settings, clock=connected.transport.clock)
                await stack.enter_async_context(live.following())
                group = await stack.enter_async_context(asyncio.TaskGroup())
                server = WebhookServer(live.knowledge, tls, Metrics(), self.limits, self.callers)
                watching = group.create_task(_watched(live, server))
                stack.callback(watching.cancel)
                await self._serve(server)

        with refusing("text", CertificateError):
            asyncio.run(serve())

    async def _serve(self, server: WebhookServer) -> None:
        stop = stop_signal()
        try:
            ports = await server.start(self.host, self.port, self.plain_port)
        except OSError as error:
            cannot_listen(f"{self.host}, ports {self.port} and {self.plain_port}", error)
        fields = {"host": self.host, "port": ports[0], "plainPort": ports[1]}
        log.info("serving", extra={"fields": fields})
        if server.callers.unverified == LIMIT:
            log.warning(
                "callers are not verified, so answers depend on the review's content only; see docs/guides/callers.md",
                extra={"fields": {}},
            )
        renewal = asyncio.create_task(server.keep_certificate(_RELOAD_SECONDS))
        await stop.wait()
        await server.stop(self.announce)
        renewal.cancel()
        with suppress(asyncio.CancelledError):
            await renewal


async def _watched(live: LiveWorld, server: WebhookServer) -> None:
    """Log what the server waits for until it is ready; then update the metrics of its caches, for ever."""
    logged = time.monotonic()
    while not server.ready:
        await asyncio.sleep(0.05)
        if time.monotonic() - logged > _LOGGED_EVERY:
            logged = time.monotonic()
            if live.waiting_for:
                log.warning("waiting for the cluster's objects", extra={"fields": {"kinds": list(live.waiting_for)}})
            else:
                log.warning("not ready", extra={"fields": {"reason": server.unready}})
    # Most of these objects stay; traversing them in every garbage collection would make single reviews slow.
    gc.collect()
    gc.freeze()
    log.info("ready", extra={"fields": {informer.kind.KIND: len(informer.store) for informer in live.informers}})
    while True:
        for informer in live.informers:
            server.metrics.cached.labels(informer.kind.KIND).set(len(informer.store))
            server.metrics.cache_age.labels(informer.kind.KIND).set(informer.age)
        await asyncio.sleep(5.0)
