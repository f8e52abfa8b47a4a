"""``virt-dra webhook``: the admission webhooks as an HTTPS server."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import TypedObject
from virt_dra.cli.options import kubevirt_gates_option, kubevirt_option
from virt_dra.cli.output import refuse
from virt_dra.cluster.files import read_inputs
from webhooks.knowledge import Knowledge, KubeVirtOnly
from webhooks.lint import BY_ID, Preflight, Settings, World

if TYPE_CHECKING:
    from webhooks.server import WebhookServer
    from webhooks.tls import ReloadingTls

EPILOG = """\b
Examples:
  virt-dra webhook --tls-dir /etc/webhook/tls                     # a mounted Secret, renewed by cert-manager
  virt-dra webhook --self-signed /var/lib/webhook --service virt-dra-webhook.virt-dra
  virt-dra webhook --self-signed tls --dns-name localhost --host 127.0.0.1 -f cluster.yaml --kubevirt 1.8.3
  curl --cacert tls/current/ca.crt -H 'Content-Type: application/json' -d @review.json https://localhost:8443/validate-vmi
\b
Paths with TLS: POST /validate-vmi and /validate-vm (AdmissionReview v1), GET /healthz and /readyz. Without TLS, on the plain port:
GET /healthz, /readyz and /metrics (Prometheus). The log is JSON on standard error, one object a line.
\b
SIGTERM: /readyz fails at once; after --announce seconds no new connections are taken; requests that have begun are answered.
Exit codes: 0 stopped by SIGTERM or SIGINT, 2 bad usage, unreadable input, or a port or certificate that can't be used.
"""

EVERY = "all"
_FINDING = click.Choice([*BY_ID, EVERY])
_NEEDS = "this command needs aiohttp, cryptography and prometheus-client; install them with: pip install 'virt-dra[webhook]'"


def _parse_service(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, str] | None:
    if value is None:
        return None
    service, dot, namespace = value.partition(".")
    if not (service and dot and namespace) or "." in namespace:
        raise click.BadParameter(f"{value!r}: write SERVICE.NAMESPACE, e.g. virt-dra-webhook.virt-dra")
    return service, namespace


@click.command(name="webhook", epilog=EPILOG)
@click.option(
    "-f",
    "--file",
    "paths",
    metavar="FILE|DIR",
    multiple=True,
    help="Objects of the cluster: templates, claims, DeviceClasses, ResourceSlices, KubeVirt; read once, when it starts.",
)
@click.option(
    "--tls-dir", type=click.Path(file_okay=False, path_type=Path), help="Folder with tls.crt and tls.key that something else renews."
)
@click.option(
    "--self-signed",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for an authority of our own and its certificate, made and renewed here; current/ca.crt in it is the caBundle.",
)
@click.option("--dns-name", "dns_names", multiple=True, help="With --self-signed: a name (or IP address) of the certificate.")
@click.option("--service", metavar="SERVICE.NAMESPACE", callback=_parse_service, help="With --self-signed: the names of this Service.")
@click.option("--host", default="0.0.0.0", show_default=True, help="Address to listen on; :: for IPv6.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8443, show_default=True, help="For reviews, with TLS; 0 for any that is free."
)
@click.option("--plain-port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="For probes and metrics, without TLS.")
@kubevirt_option("--kubevirt")
@kubevirt_gates_option
@click.option("--deny", metavar="ID", type=_FINDING, multiple=True, help="Findings of the lint that deny; may be repeated, or all.")
@click.option("--warn", metavar="ID", type=_FINDING, multiple=True, help="Findings that only warn, unless --deny names them.")
@click.option("--ignore", metavar="ID", type=_FINDING, multiple=True, help="Findings that are not wanted. virt-dra lint --list has all.")
@click.option("--max-body", metavar="BYTES", type=click.IntRange(1024, 64 * 1024 * 1024), default=3 * 1024 * 1024, show_default=True)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 30),
    default=8.0,
    show_default=True,
    help="For one answer; less than the webhook configuration's timeoutSeconds.",
)
@click.option(
    "--announce",
    metavar="SECONDS",
    type=click.FloatRange(0, 300),
    default=10.0,
    show_default=True,
    help="From SIGTERM until no connections are taken: as long as a cluster needs to learn that this replica is not ready.",
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True)
def command(
    paths: tuple[str, ...],
    tls_dir: Path | None,
    self_signed: Path | None,
    dns_names: tuple[str, ...],
    service: tuple[str, str] | None,
    host: str,
    port: int,
    plain_port: int,
    kubevirt: KubeVirtVersion | None,
    gates: dict[str, bool],
    deny: tuple[str, ...],
    warn: tuple[str, ...],
    ignore: tuple[str, ...],
    max_body: int,
    timeout: float,
    announce: float,
    log_level: str,
) -> None:
    """Serve the admission webhooks for VirtualMachineInstances and VirtualMachines.

    An object is judged by KubeVirt's rules, and with -f also by what it names: those are the findings of virt-dra lint, as warnings or
    denials. Without -f they aren't looked for. Give either --tls-dir or --self-signed; the certificate is reloaded when its files change,
    without closing a connection. Any number of replicas may run; they share nothing.
    """
    try:
        from webhooks.server import Limits, WebhookServer
        from webhooks.server_log import json_logging
        from webhooks.tls import CertificateError
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("aiohttp", "cryptography", "prometheus_client"):
            raise
        raise click.ClickException(_NEEDS) from None
    chosen = (frozenset(BY_ID if EVERY in ids else ids) for ids in (deny, warn, ignore))
    knowledge = _knowledge(_objects(paths), kubevirt, gates, Settings.for_admission(*chosen))
    try:
        tls = _tls(tls_dir, self_signed, dns_names, service)
    except CertificateError as error:
        refuse([str(error)], "text")
    server = WebhookServer(lambda: knowledge, tls, limits=Limits(body_bytes=max_body, seconds=timeout))
    json_logging(sys.stderr, logging.getLevelNamesMapping()[log_level.upper()])
    # What is known now stays as long as the process; going through it again and again would make single reviews slow.
    gc.collect()
    gc.freeze()
    asyncio.run(_serve(server, host, port, plain_port, announce))


def _objects(paths: tuple[str, ...]) -> tuple[TypedObject, ...]:
    loaded = read_inputs(paths)
    if loaded.problems:
        refuse([str(problem) for problem in loaded.problems], "text")
    return tuple(sourced.object for sourced in loaded.objects)


def _knowledge(
    objects: tuple[TypedObject, ...], version: KubeVirtVersion | None, choices: dict[str, bool], settings: Settings
) -> Knowledge:
    """Of the objects. Without any, nothing is held against a VM for what it names."""
    world = World.of(objects, version=version, gates=choices)
    return Preflight(world, settings) if objects else KubeVirtOnly(world.configuration.gates)


def _tls(tls_dir: Path | None, self_signed: Path | None, dns_names: tuple[str, ...], service: tuple[str, str] | None) -> ReloadingTls:
    """Raises CertificateError and UsageError."""
    from webhooks.tls import CertificateFolder, ReloadingTls
    from webhooks.tls_authority import service_names
    from webhooks.tls_folder import AuthorityFolder

    names = (*dns_names, *(service_names(*service) if service else ()))
    if (tls_dir is None) is (self_signed is None):
        raise click.UsageError("give either --tls-dir or --self-signed")
    if tls_dir is not None:
        if names:
            raise click.UsageError("--dns-name and --service go with --self-signed")
        return ReloadingTls(CertificateFolder(tls_dir))
    assert self_signed is not None
    if not names:
        raise click.UsageError("--self-signed needs --service or --dns-name")
    return ReloadingTls(AuthorityFolder(self_signed, names, lambda: datetime.now(UTC)))


async def _serve(server: WebhookServer, host: str, port: int, plain_port: int, announce: float) -> None:
    from webhooks.server_log import LOGGER

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        ports = await server.start(host, port, plain_port)
    except OSError as error:
        refuse([f"cannot listen on {host}, ports {port} and {plain_port}: {os.strerror(error.errno) if error.errno else error}"], "text")
    logging.getLogger(LOGGER).info("serving", extra={"fields": {"host": host, "port": ports[0], "plainPort": ports[1]}})
    renewal = asyncio.create_task(server.keep_certificate(_RELOAD_SECONDS))
    await stop.wait()
    await server.stop(announce)
    renewal.cancel()
    with suppress(asyncio.CancelledError):
        await renewal


_RELOAD_SECONDS = 10.0
