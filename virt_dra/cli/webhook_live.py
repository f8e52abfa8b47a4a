"""``virt-dra webhook --live``: the server with knowledge that follows a cluster, and with a certificate that replicas share."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from virt_dra.cli.cluster_options import ClusterChoice
from virt_dra.cli.live_world import LiveSettings, LiveWorld
from virt_dra.cli.webhook_tls import NotSettled, SharedAuthority
from virt_dra.cluster.cluster_clock import ClusterClock
from virt_dra.cluster.port import ApiError, Cluster
from webhooks.callers import Callers
from webhooks.metrics import Metrics
from webhooks.server import Limits, WebhookServer
from webhooks.server_log import LOGGER
from webhooks.tls import CertificateError, CertificateSource, ReloadingTls
from webhooks.tls_supplied import SuppliedCertificate

DEFAULT_NAMESPACE: Final = "virt-dra"
DEFAULT_SECRET: Final = "virt-dra-webhook-tls"
DEFAULT_SERVICE: Final = "virt-dra-webhook"
DEFAULT_CONFIGURATION: Final = "virt-dra"
"""Names of the manifests."""

SETTLE_SECONDS: Final = 10.0
_FIRST_SECONDS: Final = 30.0
"""For the first certificate: rights may come a little later than the pod."""
_WAIT_TOLD_SECONDS: Final = 10.0


def own_namespace() -> str:
    """Where we run, as the Deployment says."""
    return os.environ.get("POD_NAMESPACE") or DEFAULT_NAMESPACE


@dataclass(frozen=True)
class SecretChoice:
    """The Secret with the authority, the names of its certificate, and the webhook configurations; "" for none."""

    name: str
    namespace: str
    dns_names: tuple[str, ...]
    configuration: str


@asynccontextmanager
async def live_server(
    cluster: ClusterChoice,
    settings: LiveSettings,
    certificate: CertificateSource | SecretChoice,
    limits: Limits,
    client_ca: Path | None,
    callers: Callers,
) -> AsyncIterator[WebhookServer]:
    """A server that isn't started yet, and isn't ready until every kind has been read.

    Raises ClickException where there is no cluster, :class:`NotSettled` and CertificateError where there is no certificate.
    """
    async with AsyncExitStack() as stack:
        connected = await stack.enter_async_context(cluster.connected())
        if isinstance(certificate, SecretChoice):
            served = stack.enter_context(SuppliedCertificate())
            authority = _authority(connected, certificate, served, connected.transport.clock)
            await _first(authority)
            tls = ReloadingTls(served, client_ca)
        else:
            authority, tls = None, ReloadingTls(certificate, client_ca)
        metrics = Metrics()
        live = LiveWorld(connected, settings, clock=connected.transport.clock)
        await stack.enter_async_context(live.following())
        group = await stack.enter_async_context(asyncio.TaskGroup())
        tasks = [group.create_task(_watched(live, metrics))]
        if authority is not None:
            tasks.append(group.create_task(authority.keep(SETTLE_SECONDS)))
        try:
            yield WebhookServer(live.knowledge, tls, metrics, limits, callers)
        finally:
            for task in tasks:
                task.cancel()


def _authority(cluster: Cluster, choice: SecretChoice, served: SuppliedCertificate, clock: ClusterClock) -> SharedAuthority:
    return SharedAuthority(
        cluster,
        choice.name,
        choice.namespace,
        choice.dns_names,
        choice.configuration,
        served,
        clock,
        log=logging.getLogger(LOGGER),
    )


async def _first(authority: SharedAuthority) -> None:
    """Raises :class:`NotSettled` and CertificateError where there is no certificate in time."""
    until = time.monotonic() + _FIRST_SECONDS
    while True:
        try:
            await authority.settle()
        except ApiError as error:
            if time.monotonic() > until:
                raise NotSettled(f"Secret {authority.namespace}/{authority.name}: {error}") from None
            await asyncio.sleep(1.0)
        except CertificateError:
            raise
        else:
            return


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
