"""``virt-dra webhook --live``: the server whose knowledge is the current state of a cluster."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from virt_dra.cli.shared.cluster_options import ClusterChoice
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.live.world import LiveSettings, LiveWorld
from webhooks.server.app import ServerLimits, WebhookServer
from webhooks.server.callers import Callers
from webhooks.server.log import LOGGER
from webhooks.server.metrics import Metrics
from webhooks.tls.reloading import CertificateSource, ReloadingTls

_LOGGED_EVERY: Final = 10.0
"""Seconds between two log lines while the server isn't ready."""


@asynccontextmanager
async def live_server(
    cluster: ClusterChoice,
    settings: LiveSettings,
    certificate: CertificateSource,
    limits: ServerLimits,
    client_ca: Path | None,
    callers: Callers,
) -> AsyncIterator[WebhookServer]:
    """A server, not started yet, which is ready once every kind has been read and selectors can be evaluated.

    Raises ClickException without a cluster, CertificateError without a certificate.
    """
    async with AsyncExitStack() as stack:
        connected = await stack.enter_async_context(cluster.connected(ClientLimits()))
        tls = ReloadingTls(certificate, client_ca)
        metrics = Metrics()
        live = LiveWorld(connected, settings, clock=connected.transport.clock)
        await stack.enter_async_context(live.following())
        group = await stack.enter_async_context(asyncio.TaskGroup())
        server = WebhookServer(live.knowledge, tls, metrics, limits, callers)
        watching = group.create_task(_watched(live, server))
        try:
            yield server
        finally:
            watching.cancel()


async def _watched(live: LiveWorld, server: WebhookServer) -> None:
    """Log what the server waits for until it is ready; then update the metrics of its caches, for ever."""
    log = logging.getLogger(LOGGER)
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
