"""``virt-dra webhook --live``: the server with knowledge that follows a cluster."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from virt_dra.cli.cluster_options import ClusterChoice
from virt_dra.cli.live_world import LiveSettings, LiveWorld
from webhooks.callers import Callers
from webhooks.metrics import Metrics
from webhooks.server import Limits, WebhookServer
from webhooks.server_log import LOGGER
from webhooks.tls import CertificateSource, ReloadingTls

_WAIT_TOLD_SECONDS: Final = 10.0


@asynccontextmanager
async def live_server(
    cluster: ClusterChoice,
    settings: LiveSettings,
    certificate: CertificateSource,
    limits: Limits,
    client_ca: Path | None,
    callers: Callers,
) -> AsyncIterator[WebhookServer]:
    """A server that isn't started yet, and isn't ready until every kind has been read.

    Raises ClickException where there is no cluster, CertificateError where there is no certificate.
    """
    async with AsyncExitStack() as stack:
        connected = await stack.enter_async_context(cluster.connected())
        tls = ReloadingTls(certificate, client_ca)
        metrics = Metrics()
        live = LiveWorld(connected, settings, clock=connected.transport.clock)
        await stack.enter_async_context(live.following())
        group = await stack.enter_async_context(asyncio.TaskGroup())
        watching = group.create_task(_watched(live, metrics))
        try:
            yield WebhookServer(live.knowledge, tls, metrics, limits, callers)
        finally:
            watching.cancel()


async def _watched(live: LiveWorld, metrics: Metrics) -> None:
    """Says what is waited for, and how old what is known is."""
    log = logging.getLogger(LOGGER)
    told = time.monotonic()
    while live.knowledge() is None:
        await asyncio.sleep(0.05)
        if time.monotonic() - told > _WAIT_TOLD_SECONDS:
            told = time.monotonic()
            log.warning("waiting for the cluster's objects", extra={"fields": {"kinds": list(live.waiting_for)}})
    # What is known now mostly stays; going through all of it again and again would make single reviews slow.
    gc.collect()
    gc.freeze()
    log.info("ready", extra={"fields": {informer.kind.KIND: len(informer.store) for informer in live.informers}})
    while True:
        for informer in live.informers:
            metrics.cached.labels(informer.kind.KIND).set(len(informer.store))
            metrics.cache_age.labels(informer.kind.KIND).set(informer.age)
        await asyncio.sleep(5.0)
