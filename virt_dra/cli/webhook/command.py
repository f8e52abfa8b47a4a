"""``virt-dra webhook``: the admission webhooks as an HTTPS server."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.cli.shared.cluster_options import ClusterChoice, cluster_options
from virt_dra.cli.shared.extras import required
from virt_dra.cli.shared.file_input import objects_of_files
from virt_dra.cli.shared.lint_options import severity_options
from virt_dra.cli.shared.option_table import RepeatableOption, shared
from virt_dra.cli.shared.options import (
    address_keys_option,
    kubevirt_gates_option,
    kubevirt_option,
    log_level_option,
    seconds_option,
)
from virt_dra.cli.shared.tls_options import TlsOptions, tls_options
from webhooks.knowledge import DRIVER_WAIT, KubeVirtOnly, LauncherSettings
from webhooks.lint import LintInputs, LintSettings, Preflight
from webhooks.server.callers import DEFAULT_NAME, LIMIT, REFUSE, TELL, Callers, UnverifiedPolicy

EPILOG = """\b
Examples:
  virt-dra webhook --live --tls-dir /etc/webhook/tls              # in a cluster, as in the manifests: a mounted Secret
  virt-dra webhook --self-signed /var/lib/webhook --service virt-dra-webhook.virt-dra
  virt-dra webhook --self-signed tls --dns-name localhost --host 127.0.0.1 -f examples/gpu-pci --kubevirt-version 1.8.3
  curl --cacert tls/current/ca.crt -H 'Content-Type: application/json' -d @review.json https://localhost:8443/validate-vmi

\b
Paths with TLS: POST /validate-vmi, /validate-vm, /mutate-vmi and /mutate-launcher-pod (AdmissionReview v1), GET
/healthz and /readyz. Without TLS, on the plain port: GET /healthz, /readyz and /metrics (Prometheus). It logs one JSON
object per line to standard error.

\b
SIGTERM: /readyz fails at once; after --announce seconds no new connections are accepted; started requests are still
answered.

\b
Exit codes: 0 stopped by SIGTERM or SIGINT, 2 bad usage, unreadable input, or a port or certificate that can't be used.
"""

_NEEDS = "this command needs aiohttp, cryptography and prometheus-client"


@click.command(name="webhook", epilog=EPILOG)
@shared("--filename", "paths", metavar="FILE|DIR",
        detail="Templates, claims, DeviceClasses, ResourceSlices, KubeVirt, VMIs; read once at the start.")  # fmt: skip
@shared("--live", detail="Watched instead of files; ready once all its objects have been read.")
@cluster_options
@tls_options("The file current/ca.crt in it is the caBundle.")
@shared("--client-ca", detail="Those of API servers; reloaded on changes.")
@click.option("--client-name", "client_names", metavar="NAME", cls=RepeatableOption,
              help="Common name or DNS name of these certificates.  [default: kube-apiserver]")  # fmt: skip
@click.option(
    "--unverified-callers", type=click.Choice([REFUSE, LIMIT, TELL]),
    help="Answer reviews of callers without a verified certificate: not at all, by the content of the review alone, or "
    "by everything known of the cluster.  [default: refuse with --client-ca, else limit with --live, tell with -f]",
)  # fmt: skip
@shared("--host", default="0.0.0.0")
@shared("--port", detail="For reviews, with TLS.", default=8443)
@shared("--plain-port", default=8080)
@kubevirt_option
@kubevirt_gates_option
@address_keys_option
@severity_options(LintSettings.for_admission)
@click.option("--wait-image", metavar="IMAGE", default="", help="Image of path device-plugin's init container, with "
              "/bin/sh and sleep.  [default: that of the container compute]")  # fmt: skip
@seconds_option(
    "--driver-wait", DRIVER_WAIT.total_seconds(), 0, 3600,
    "With --live: how long a launcher pod is refused while no device or selector shows which driver will serve a "
    "request.",
)  # fmt: skip
@click.option("--max-body", metavar="BYTES", type=click.IntRange(1024, 64 * 1024 * 1024), default=3 * 1024 * 1024,
              show_default=True, help="The largest request that is read.")  # fmt: skip
@shared("--timeout", detail="For one answer; less than the webhook configuration's timeoutSeconds.", default=8.0,
        type=click.FloatRange(0.1, 30))  # fmt: skip
@seconds_option(
    "--announce", 10.0, 0, 300,
    "Time from SIGTERM until no connections are accepted, in which a cluster notices that this replica isn't ready.",
)  # fmt: skip
@log_level_option
def command(
    paths: tuple[str, ...], live: bool, cluster: ClusterChoice, tls: TlsOptions, client_ca: Path | None,
    client_names: tuple[str, ...], unverified_callers: UnverifiedPolicy | None, host: str, port: int, plain_port: int,
    kubevirt: KubeVirtVersion | None, gates: dict[str, bool], address_keys: tuple[DriverKeys, ...], lint: LintSettings,
    wait_image: str, driver_wait: float, max_body: int, timeout: float, announce: float,
    log_level: int,
) -> None:  # fmt: skip
    """Serve the admission webhooks for VirtualMachineInstances, VirtualMachines and launcher pods.

    An object is validated by KubeVirt's rules, and with --live or -f also against everything it names: these are the
    findings of virt-dra lint, as warnings or denials. New VMIs get the devices that they ask for by a line of profiles,
    launcher pods what their devices' integration path needs.

    The certificate comes from --tls-dir, or from an authority of our own in a folder (--self-signed); it is reloaded on
    changes, and connections stay open. Any number of replicas may run.

    Anybody who can connect can send reviews. With --client-ca only API servers are answered; otherwise, with --live,
    answers depend only on the review itself and KubeVirt's release, without the lint's findings on the objects that a
    VM names: see docs/guides/callers.md.
    """
    with required(_NEEDS, "webhook", "aiohttp", "cryptography", "prometheus_client"):
        from virt_dra.cli.webhook.serving import Serving
        from virt_dra.live.world import LiveSettings
        from webhooks.server.app import ServerLimits
    if live and paths:
        raise click.UsageError("give either --live or -f")
    cluster.check(live=live)
    if client_ca is None and (client_names or unverified_callers == REFUSE):
        raise click.UsageError("--client-name and --unverified-callers=refuse need --client-ca")
    unverified = unverified_callers or (REFUSE if client_ca is not None else LIMIT if live else TELL)
    callers = Callers(unverified, frozenset(client_names or (DEFAULT_NAME,)))
    limits = ServerLimits(body_bytes=max_body, seconds=timeout)
    serving = Serving(tls, client_ca, callers, limits, host, port, plain_port, announce, log_level)
    launcher = LauncherSettings(wait_image, timedelta(seconds=driver_wait))
    if live:
        serving.by_cluster(cluster, LiveSettings(lint, launcher, kubevirt, gates, address_keys))
    else:
        objects = objects_of_files(paths, "text")
        world = LintInputs.from_objects(objects, version=kubevirt, gates=gates, address_keys=address_keys)
        # Without objects, references of a VM can't be checked.
        kubevirt_only = KubeVirtOnly(world.configuration.gates, launcher, lint.ignore)
        serving.by(Preflight(world, lint, launcher) if objects else kubevirt_only)
