"""``virt-dra report-server``: the report as a live page, for those who may list what it shows."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import click

from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.cli.report.settings import MOST_EXPLAINED, ReportSettings
from virt_dra.cli.shared.cluster_options import ClusterChoice, cluster_options
from virt_dra.cli.shared.extras import required
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import address_keys_option, log_level_option
from virt_dra.cli.shared.output import refusing
from virt_dra.cli.shared.stopping import cannot_listen, stop_signal
from virt_dra.cli.shared.tls_options import TlsOptions, tls_options
from webhooks.server.log import json_logging

if TYPE_CHECKING:
    from virt_dra.report_server.following import FollowSettings
    from webhooks.tls.reloading import ReloadingTls

_NEEDS: Final = "the report server needs aiohttp, httptools, the kubernetes package, cryptography and prometheus-client"
_RELOAD_SECONDS: Final = 10.0

HELP: Final = """Serve the page of virt-dra report live: it follows the cluster, and browsers show what changes.

A viewer signs in with a token of the cluster (kubectl create token NAME) or sends one (Authorization: Bearer). The API
server says whose it is (TokenReview) and whether they may list everything that the page shows, in all namespaces
(SubjectAccessReview); it is asked again each minute. Nothing is written to the cluster.

The page is made in a process of its own, and follows a change within seconds; on large clusters with many waiting VMs
two fifths of a processor are used at most. """

EPILOG: Final = """\b
Examples:
  virt-dra report-server --tls-dir /etc/report/tls           # in a cluster, as in manifests/report: a mounted Secret
  virt-dra report-server --self-signed tls --dns-name localhost --host 127.0.0.1
  curl --cacert tls/current/ca.crt -H "Authorization: Bearer $(kubectl create token viewer)" \\
    https://localhost:8443/report.json
  curl localhost:8080/readyz; curl localhost:8080/metrics

\b
Paths with TLS: GET / (the page), /report.json (as virt-dra report -o json), /events (server-sent events), POST /login
and /logout. Without TLS, on the plain port: GET /healthz, /readyz and /metrics (Prometheus). It logs one JSON object
per line to standard error.

\b
Exit codes: 0 stopped by SIGTERM or SIGINT, 2 bad usage, no cluster, or a port or certificate that can't be used.
"""


@click.command(name="report-server", help=HELP, epilog=EPILOG)
@cluster_options
@address_keys_option
@shared("--most", default=MOST_EXPLAINED)
@tls_options("Browsers must trust current/ca.crt in it.")
@shared("--host", default="0.0.0.0")
@shared("--port", detail="For viewers, with TLS.", default=8443)
@shared("--plain-port", default=8080)
@log_level_option
def command(
    cluster: ClusterChoice, address_keys: tuple[DriverKeys, ...], most: int, tls: TlsOptions, host: str, port: int,
    plain_port: int, log_level: int,
) -> None:  # fmt: skip
    with required(_NEEDS, "cluster,webhook", "aiohttp", "httptools", "kubernetes", "cryptography", "prometheus_client"):
        from webhooks.tls.reloading import CertificateError, ReloadingTls
    from virt_dra.cli.report_server.render import LiveReport
    from virt_dra.report_server.following import FollowSettings

    certificate = tls.files()
    json_logging(sys.stderr, log_level)
    settings = ReportSettings(address_keys=address_keys, most=most)
    following = FollowSettings(LiveReport(settings), cluster.kubeconfig, cluster.context, log_level)
    with refusing("text", CertificateError):
        asyncio.run(_serve(cluster, following, ReloadingTls(certificate), host, port, plain_port))


async def _serve(
    cluster: ClusterChoice, following: FollowSettings, tls: ReloadingTls, host: str, port: int, plain_port: int
) -> None:
    from virt_dra.cli.report.page_forms import LIVE_POLICY, NOTICE
    from virt_dra.model.kinds import READ
    from virt_dra.report_server.gate import Gate
    from virt_dra.report_server.metrics import ReportMetrics
    from virt_dra.report_server.rendering import RenderingProcess
    from virt_dra.report_server.reviews import REVIEW_LIMITS, ClusterReviews
    from virt_dra.report_server.serving import LiveNotice, ReportServer
    from virt_dra.report_server.sessions import Sessions
    from virt_dra.report_server.viewers import resources_of

    log = logging.getLogger("virt_dra.report")
    stop = stop_signal()
    async with AsyncExitStack() as stack:
        connected = await stack.enter_async_context(cluster.connected(REVIEW_LIMITS))
        metrics = ReportMetrics()
        resources = resources_of(READ["report-server"].all)
        gate = Gate(ClusterReviews(connected.transport), resources, time.monotonic, observer=metrics)
        rendering = RenderingProcess(following, metrics)
        server = ReportServer(rendering, gate, Sessions(), LiveNotice(NOTICE, LIVE_POLICY), tls, metrics)
        try:
            ports = await server.start(host, port, plain_port)
        except OSError as error:
            cannot_listen(f"{host}, ports {port} and {plain_port}", error)
        log.info("serving", extra={"fields": {"host": host, "port": ports[0], "plainPort": ports[1]}})
        await stack.enter_async_context(rendering.running())
        group = await stack.enter_async_context(asyncio.TaskGroup())
        renewal = group.create_task(server.keep_certificate(_RELOAD_SECONDS))
        stack.callback(renewal.cancel)
        await stop.wait()
        log.info("shutting down", extra={"fields": {}})
        await server.stop()
