"""``virt-dra extender``: scores the nodes that fit a VM by a placement policy, for kube-scheduler."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from virt_dra.allocator import Features
from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.api.integration.paths import POLICY_ANNOTATION
from virt_dra.cli.shared.cluster_options import ClusterChoice, cluster_options
from virt_dra.cli.shared.extras import required
from virt_dra.cli.shared.gate_options import gates_option
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import log_level_option
from virt_dra.cli.shared.output import print_document, refuse
from virt_dra.cli.shared.policy_options import known_policies
from virt_dra.cli.shared.stopping import cannot_listen, stop_signal
from virt_dra.cli.shared.suggestions import suggesting
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.extender.configuration import scheduler_configuration
from virt_dra.scheduling.policies.catalog import POLICIES
from webhooks.server.log import json_logging

if TYPE_CHECKING:
    from virt_dra.extender.advising_process import AdvisorSettings
    from virt_dra.extender.server import ExtenderPorts
    from webhooks.tls.reloading import ReloadingTls

_NEEDS: Final = "the extender needs aiohttp, httptools, the kubernetes package, cryptography and prometheus-client"
_RELOAD_SECONDS: Final = 10.0
log = logging.getLogger("virt_dra.extender")

HELP: Final = f"""Score the nodes that fit a pod with claims by a placement policy, for kube-scheduler.

It serves the protocol of scheduler extenders (prioritize, and filter for those who want it) and follows the cluster.
kube-scheduler stays the one that allocates devices: the policy changes which of the fitting nodes it takes, and without
an answer it goes on as before.

A pod's annotation {POLICY_ANNOTATION} (KubeVirt copies it from the VM's template) names its policy, or that of its
namespace, else --policy. docs/guides/extender.md says how to make kube-scheduler ask; --print-configuration prints the
lines for it.

\b
Policies:
""" + "".join(f"  {name:<20} {text}\n" for name, text in POLICIES.items())

EPILOG: Final = """\b
Examples:
  virt-dra extender --policy least-fragmentation              beside kube-scheduler, on the same machine
  virt-dra extender --print-configuration http://127.0.0.1:8766 > scheduler-configuration.yaml
  kube-scheduler --config scheduler-configuration.yaml
  virt-dra extender --host 0.0.0.0 --tls-dir /etc/extender/tls --client-ca /etc/extender/clients.crt
  curl localhost:8767/metrics; curl localhost:8767/readyz

\b
Paths: POST /filter and /prioritize; on the plain port GET /healthz, /readyz and /metrics (Prometheus). It logs one JSON
object per line to standard error.

\b
Exit codes: 0 stopped by SIGTERM or SIGINT, 2 bad usage, no cluster, or a port or certificate that can't be used.
"""


def _policy(ctx: click.Context, param: click.Parameter, value: str) -> str:
    return known_policies([value])[0]


@click.command(name="extender", help=HELP, epilog=EPILOG)
@shared("--policy", detail="For pods that name none, in namespaces that name none.", default="least-fragmentation",
        callback=_policy, shell_complete=suggesting(POLICIES))  # fmt: skip
@cluster_options
@gates_option("As kube-scheduler has them.")
@shared("--host", default="127.0.0.1")
@shared("--port", detail="For kube-scheduler.", default=8766)
@shared("--plain-host", default="127.0.0.1")
@shared("--plain-port", default=8767)
@shared("--tls-dir", detail="Without it, HTTP is served.")
@shared("--client-ca", detail="With --tls-dir.")
@shared("--timeout", detail="For one answer; afterwards it has no preference.", default=1.0,
        type=click.FloatRange(0.05, 30))  # fmt: skip
@click.option("--print-configuration", metavar="URL",
              help="Print the KubeSchedulerConfiguration that asks an extender at URL, and exit.")  # fmt: skip
@log_level_option
def command(
    policy: str, cluster: ClusterChoice, feature_gates: FeatureGates | None, host: str, port: int, plain_host: str,
    plain_port: int, tls_dir: Path | None, client_ca: Path | None, timeout: float, print_configuration: str | None,
    log_level: int,
) -> None:  # fmt: skip
    if print_configuration is not None:
        client = {"caFile": "/etc/kubernetes/extender-ca.crt"} if print_configuration.startswith("https:") else None
        print_document(scheduler_configuration(print_configuration, seconds=timeout, client=client), "yaml")
        return
    if client_ca is not None and tls_dir is None:
        raise click.UsageError("--client-ca goes with --tls-dir")
    with required(_NEEDS, "cluster,webhook", "aiohttp", "httptools", "kubernetes", "cryptography", "prometheus_client"):
        from virt_dra.extender.advising_process import AdvisorSettings
        from virt_dra.extender.server import ExtenderPorts
        from webhooks.tls.reloading import CertificateError, CertificateFolder, ReloadingTls
    json_logging(sys.stderr, log_level)
    settings = AdvisorSettings(policy, Features.from_gates(feature_gates or PLAIN), timeout)
    try:
        tls = None if tls_dir is None else ReloadingTls(CertificateFolder(tls_dir), client_ca)
        ports = ExtenderPorts(host, port, plain_host, plain_port)
        asyncio.run(_serve(cluster, settings, ports, tls, verified=client_ca is not None))
    except CertificateError as error:
        refuse([str(error)], "text")
    except OSError as error:
        cannot_listen(f"{host}, port {port}, and {plain_host}, port {plain_port}", error)


async def _serve(
    cluster: ClusterChoice, settings: AdvisorSettings, ports: ExtenderPorts, tls: ReloadingTls | None, *, verified: bool
) -> None:
    from virt_dra.extender.following import FollowedCluster
    from virt_dra.extender.metrics import ExtenderMetrics
    from virt_dra.extender.server import ExtenderServer

    stop = stop_signal()
    async with AsyncExitStack() as stack:
        connected = await stack.enter_async_context(cluster.connected(ClientLimits()))
        metrics = ExtenderMetrics()
        followed = FollowedCluster(connected, settings, metrics)
        server = ExtenderServer(followed, metrics, tls, verified=verified)
        port, plain_port = await stack.enter_async_context(server.serving(ports))
        fields = {"host": ports.host, "port": port, "plainPort": plain_port, "policy": settings.policy}
        log.info("serving", extra={"fields": fields})
        await stack.enter_async_context(followed.following())
        if tls is not None:
            group = await stack.enter_async_context(asyncio.TaskGroup())
            renewal = group.create_task(_keep_certificate(tls))
            stack.callback(renewal.cancel)
        await stop.wait()


async def _keep_certificate(tls: ReloadingTls) -> None:
    from webhooks.tls.reloading import CertificateError

    while True:
        await asyncio.sleep(_RELOAD_SECONDS)
        try:
            await asyncio.to_thread(tls.reload)
        except CertificateError as error:
            fields = {"reason": str(error)}
            log.error("certificate not reloaded, the one in service stays", extra={"fields": fields})
