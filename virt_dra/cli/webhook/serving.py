"""How ``virt-dra webhook`` serves: from options to a certificate, a server and its end. Needs the extra ``webhook``."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from virt_dra.cli.shared.cluster_options import ClusterChoice
from virt_dra.cli.shared.output import refuse
from virt_dra.cli.webhook.live import live_server
from virt_dra.live.world import LiveSettings
from webhooks.knowledge import Knowledge
from webhooks.server.app import ServerLimits, WebhookServer
from webhooks.server.callers import LIMIT, Callers
from webhooks.server.log import LOGGER, json_logging
from webhooks.tls.authority import service_names
from webhooks.tls.folder import AuthorityFolder
from webhooks.tls.reloading import CertificateError, CertificateFolder, CertificateSource, ReloadingTls

_RELOAD_SECONDS: Final = 10.0


@dataclass(frozen=True)
class TlsOptions:
    """What the command line says of the certificate; None where it says nothing."""

    tls_dir: Path | None
    self_signed: Path | None
    dns_names: tuple[str, ...]
    service: tuple[str, str] | None

    def files(self) -> CertificateSource:
        """A folder with the certificate. Raises UsageError."""
        names = (*self.dns_names, *(service_names(*self.service) if self.service else ()))
        if self.tls_dir is not None and self.self_signed is None:
            if names:
                raise click.UsageError("--dns-name and --service go with an authority of our own, not with --tls-dir")
            return CertificateFolder(self.tls_dir)
        if self.self_signed is None or self.tls_dir is not None:
            raise click.UsageError("give either --tls-dir or --self-signed")
        if not names:
            raise click.UsageError("--self-signed needs --service or --dns-name")
        return AuthorityFolder(self.self_signed, names, lambda: datetime.now(UTC))


@dataclass(frozen=True)
class CallerChoice:
    """Who is answered, and the file with the authorities of clients' certificates, if they are asked for."""

    client_ca: Path | None = None
    callers: Callers = field(default_factory=Callers)


@dataclass(frozen=True)
class Listening:
    """Where, and how long the end is announced, in seconds."""

    host: str
    port: int
    plain_port: int
    announce: float


def serve_known(
    knowledge: Knowledge, tls: TlsOptions, limits: ServerLimits, listening: Listening, level: int, choice: CallerChoice
) -> None:  # fmt: skip
    """Serve by what was read at the start, until a signal. Raises UsageError; ends the process where it can't serve."""
    try:
        reloading = ReloadingTls(tls.files(), choice.client_ca)
        server = WebhookServer(lambda: knowledge, reloading, limits=limits, callers=choice.callers)
    except CertificateError as error:
        refuse([str(error)], "text")
    json_logging(sys.stderr, level)
    # What is known now stays as long as the process; going through it again and again would make single reviews slow.
    gc.collect()
    gc.freeze()
    asyncio.run(_serve(server, listening))


def serve_live(
    cluster: ClusterChoice,
    settings: LiveSettings,
    tls: TlsOptions,
    limits: ServerLimits,
    listening: Listening,
    level: int,
    choice: CallerChoice,
) -> None:
    """Serve by what a cluster has, until a signal. Raises UsageError, ClickException; ends the process where it can't serve."""
    certificate = tls.files()
    json_logging(sys.stderr, level)

    async def serve() -> None:
        async with live_server(cluster, settings, certificate, limits, choice.client_ca, choice.callers) as server:
            await _serve(server, listening)

    try:
        asyncio.run(serve())
    except CertificateError as error:
        refuse([str(error)], "text")


async def _serve(server: WebhookServer, listening: Listening) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    host, port, plain_port = listening.host, listening.port, listening.plain_port
    try:
        ports = await server.start(host, port, plain_port)
    except OSError as error:
        refuse([f"cannot listen on {host}, ports {port} and {plain_port}: {os.strerror(error.errno) if error.errno else error}"], "text")
    logging.getLogger(LOGGER).info("serving", extra={"fields": {"host": host, "port": ports[0], "plainPort": ports[1]}})
    if server.callers.unverified == LIMIT:
        logging.getLogger(LOGGER).warning(
            "callers are not verified, so reviews are answered by what they carry only; see docs/guides/callers.md", extra={"fields": {}}
        )
    renewal = asyncio.create_task(server.keep_certificate(_RELOAD_SECONDS))
    await stop.wait()
    await server.stop(listening.announce)
    renewal.cancel()
    with suppress(asyncio.CancelledError):
        await renewal
