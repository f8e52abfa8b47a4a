"""The server of ``virt-dra webhook``: its certificate, start and end, by the options. Needs the extra ``webhook``."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from virt_dra.cli.shared.cluster_options import ClusterChoice
from virt_dra.cli.shared.output import refusing
from virt_dra.cli.shared.stopping import cannot_listen, stop_signal
from virt_dra.cli.shared.tls_options import TlsOptions
from virt_dra.cli.webhook.live import live_server
from virt_dra.live.world import LiveSettings
from webhooks.knowledge import Knowledge
from webhooks.server.app import ServerLimits, WebhookServer
from webhooks.server.callers import LIMIT, Callers
from webhooks.server.log import LOGGER, json_logging
from webhooks.tls.reloading import CertificateError, ReloadingTls

_RELOAD_SECONDS: Final = 10.0


@dataclass(frozen=True)
class CallerChoice:
    """The callers that are answered, and the file with the authorities of their certificates, if these are verified."""

    client_ca: Path | None = None
    callers: Callers = field(default_factory=Callers)


@dataclass(frozen=True)
class Listening:
    """Address and ports; ``announce``: seconds between SIGTERM and the end of accepting connections."""

    host: str
    port: int
    plain_port: int
    announce: float


@dataclass(frozen=True)
class Serving:
    """The options of the server, and its run until a signal. Raises UsageError, ClickException; ends the process if it
    can't serve."""

    tls: TlsOptions
    choice: CallerChoice
    limits: ServerLimits
    listening: Listening
    log_level: int

    def by(self, knowledge: Knowledge) -> None:
        """Serve by knowledge that doesn't change."""
        with refusing("text", CertificateError):
            reloading = ReloadingTls(self.tls.files(), self.choice.client_ca)
            server = WebhookServer(lambda: knowledge, reloading, limits=self.limits, callers=self.choice.callers)
        json_logging(sys.stderr, self.log_level)
        # The knowledge lives as long as the process; traversing it in garbage collections would make single reviews
        # slow.
        gc.collect()
        gc.freeze()
        asyncio.run(_serve(server, self.listening))

    def by_cluster(self, cluster: ClusterChoice, settings: LiveSettings) -> None:
        """Serve by the current state of a cluster."""
        certificate = self.tls.files()
        json_logging(sys.stderr, self.log_level)

        async def serve() -> None:
            async with live_server(
                cluster, settings, certificate, self.limits, self.choice.client_ca, self.choice.callers
            ) as server:
                await _serve(server, self.listening)

        with refusing("text", CertificateError):
            asyncio.run(serve())


async def _serve(server: WebhookServer, listening: Listening) -> None:
    stop = stop_signal()
    host, port, plain_port = listening.host, listening.port, listening.plain_port
    try:
        ports = await server.start(host, port, plain_port)
    except OSError as error:
        cannot_listen(f"{host}, ports {port} and {plain_port}", error)
    logging.getLogger(LOGGER).info("serving", extra={"fields": {"host": host, "port": ports[0], "plainPort": ports[1]}})
    if server.callers.unverified == LIMIT:
        logging.getLogger(LOGGER).warning(
            "callers are not verified, so answers depend on the review's content only; see docs/guides/callers.md",
            extra={"fields": {}},
        )
    renewal = asyncio.create_task(server.keep_certificate(_RELOAD_SECONDS))
    await stop.wait()
    await server.stop(listening.announce)
    renewal.cancel()
    with suppress(asyncio.CancelledError):
        await renewal
