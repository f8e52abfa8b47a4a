"""``virt-dra webhook``: the admission webhooks as an HTTPS server."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

import click

from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.integration.known_drivers import metadata_writers
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import TypedObject
from virt_dra.cli.shared.cluster_options import ClusterChoice, cluster_options
from virt_dra.cli.shared.options import address_keys_option, kubevirt_gates_option, kubevirt_option, parse_service
from virt_dra.cli.shared.output import refuse
from virt_dra.cluster.files import read_inputs
from webhooks.knowledge import DRIVER_WAIT, Knowledge, KubeVirtOnly, LauncherSettings
from webhooks.lint import BY_ID, LintInputs, LintSettings, Preflight
from webhooks.server.callers import DEFAULT_NAME, LIMIT, REFUSE, TELL, Callers, UnverifiedPolicy

EPILOG = """\b
Examples:
  virt-dra webhook --live --tls-dir /etc/webhook/tls              # in a cluster, as the manifests run it: a mounted Secret
  virt-dra webhook --self-signed /var/lib/webhook --service virt-dra-webhook.virt-dra
  virt-dra webhook --self-signed tls --dns-name localhost --host 127.0.0.1 -f examples/gpu-pci --kubevirt-version 1.8.3
  curl --cacert tls/current/ca.crt -H 'Content-Type: application/json' -d @review.json https://localhost:8443/validate-vmi
\b
Paths with TLS: POST /validate-vmi, /validate-vm and /mutate-launcher-pod (AdmissionReview v1), GET /healthz and /readyz. Without TLS, on
the plain port: GET /healthz, /readyz and /metrics (Prometheus). The log is JSON on standard error, one object a line.
\b
SIGTERM: /readyz fails at once; after --announce seconds no new connections are taken; requests that have begun are answered.
Exit codes: 0 stopped by SIGTERM or SIGINT, 2 bad usage, unreadable input, or a port or certificate that can't be used.
"""

EVERY = "all"
_FINDING = click.Choice([*BY_ID, EVERY])
_NEEDS = "this command needs aiohttp, cryptography and prometheus-client; install them with: pip install 'virt-dra[webhook]'"


@click.command(name="webhook", epilog=EPILOG)
@click.option(
    "-f",
    "--file",
    "paths",
    metavar="FILE|DIR",
    multiple=True,
    help="Objects of the cluster: templates, claims, DeviceClasses, ResourceSlices, KubeVirt, VMIs; read once, when it starts.",
)
@click.option("--live", is_flag=True, help="Follow a cluster instead: ready once all of it has been read. See --kubeconfig.")
@cluster_options
@click.option(
    "--tls-dir", type=click.Path(file_okay=False, path_type=Path), help="Folder with tls.crt and tls.key that something else renews."
)
@click.option(
    "--self-signed",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for an authority of our own and its certificate, made and renewed here; current/ca.crt in it is the caBundle.",
)
@click.option("--dns-name", "dns_names", multiple=True, help="With --self-signed: a name (or IP address) of the certificate.")
@click.option(
    "--service",
    metavar="SERVICE.NAMESPACE",
    callback=parse_service,
    help="With --self-signed: the names of this Service.",
)
@click.option(
    "--client-ca",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Authorities (PEM) of the certificates that API servers present; other callers get no answer. Reloaded when it changes.",
)
@click.option(
    "--client-name",
    "client_names",
    metavar="NAME",
    multiple=True,
    help="Common name or DNS name of these certificates; may be repeated.  [default: kube-apiserver]",
)
@click.option(
    "--unverified-callers",
    type=click.Choice([REFUSE, LIMIT, TELL]),
    help="Answer reviews of callers without a verified certificate: not at all, by what the review itself carries, or by everything "
    "that is known.  [default: refuse with --client-ca, else limit with --live, tell with -f]",
)
@click.option("--host", default="0.0.0.0", show_default=True, help="Address to listen on; :: for IPv6.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8443, show_default=True, help="For reviews, with TLS; 0 for any that is free."
)
@click.option("--plain-port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="For probes and metrics, without TLS.")
@kubevirt_option
@kubevirt_gates_option
@address_keys_option
@click.option("--deny", metavar="ID", type=_FINDING, multiple=True, help="Findings of the lint that deny; may be repeated, or all.")
@click.option("--warn", metavar="ID", type=_FINDING, multiple=True, help="Findings that only warn, unless --deny names them.")
@click.option("--ignore", metavar="ID", type=_FINDING, multiple=True, help="Findings that are not wanted. virt-dra lint --list has all.")
@click.option(
    "--writes-metadata", metavar="DRIVER", multiple=True, help="A driver that was told to write KEP-5304 metadata files (path native)."
)
@click.option("--writes-no-metadata", metavar="DRIVER", multiple=True, help="One that was told not to (path metadata-shim).")
@click.option(
    "--wait-image",
    metavar="IMAGE",
    default="",
    help="Of the init container of path device-plugin, with /bin/sh and sleep.  [default: that of the container compute]",
)
@click.option(
    "--driver-wait",
    metavar="SECONDS",
    type=click.FloatRange(0, 3600),
    default=DRIVER_WAIT.total_seconds(),
    show_default=True,
    help="With --live: how long a launcher pod is refused while no device and no selector says which driver will serve a request.",
)
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
    live: bool,
    cluster: ClusterChoice,
    tls_dir: Path | None,
    self_signed: Path | None,
    dns_names: tuple[str, ...],
    service: tuple[str, str] | None,
    client_ca: Path | None,
    client_names: tuple[str, ...],
    unverified_callers: UnverifiedPolicy | None,
    host: str,
    port: int,
    plain_port: int,
    kubevirt: KubeVirtVersion | None,
    gates: dict[str, bool],
    address_keys: tuple[DriverKeys, ...],
    deny: tuple[str, ...],
    warn: tuple[str, ...],
    ignore: tuple[str, ...],
    writes_metadata: tuple[str, ...],
    writes_no_metadata: tuple[str, ...],
    wait_image: str,
    driver_wait: float,
    max_body: int,
    timeout: float,
    announce: float,
    log_level: str,
) -> None:
    """Serve the admission webhooks for VirtualMachineInstances, VirtualMachines and launcher pods.

    An object is judged by KubeVirt's rules, and with --live or -f also by what it names: those are the findings of virt-dra lint, as
    warnings or denials. Launcher pods get what their devices' integration path needs.

    The certificate comes from --tls-dir, or from an authority of our own in a folder (--self-signed); it is reloaded when it changes,
    without closing a connection. Any number of replicas may run.

    Anybody who can connect can ask. With --client-ca only API servers are answered; else, with --live, answers depend on nothing but the
    review itself and KubeVirt's release, so that the lint's findings on what a VM names are missing: see docs/guides/callers.md.
    """
    try:
        from virt_dra.cli.webhook.serving import CallerChoice, Listening, TlsOptions, serve_known, serve_live
        from virt_dra.live.world import LiveSettings
        from webhooks.server.app import ServerLimits
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("aiohttp", "cryptography", "prometheus_client"):
            raise
        raise click.ClickException(_NEEDS) from None
    tls = TlsOptions(tls_dir, self_signed, dns_names, service)
    if live and paths:
        raise click.UsageError("give either --live or -f")
    if not live and cluster.given:
        raise click.UsageError("--kubeconfig and --context go with --live")
    if client_ca is None and (client_names or unverified_callers == REFUSE):
        raise click.UsageError("--client-name and --unverified-callers=refuse need --client-ca")
    unverified = unverified_callers or (REFUSE if client_ca is not None else LIMIT if live else TELL)
    callers = CallerChoice(client_ca, Callers(unverified, frozenset(client_names) or frozenset({DEFAULT_NAME})))
    lint = LintSettings.for_admission(*(frozenset(BY_ID if EVERY in ids else ids) for ids in (deny, warn, ignore)))
    launcher = LauncherSettings(metadata_writers(writes_metadata, writes_no_metadata), wait_image, timedelta(seconds=driver_wait))
    limits, listening = ServerLimits(body_bytes=max_body, seconds=timeout), Listening(host, port, plain_port, announce)
    level = logging.getLevelNamesMapping()[log_level.upper()]
    if live:
        serve_live(cluster, LiveSettings(lint, launcher, kubevirt, gates, address_keys), tls, limits, listening, level, callers)
    else:
        serve_known(_knowledge(_objects(paths), kubevirt, gates, address_keys, lint, launcher), tls, limits, listening, level, callers)


def _objects(paths: tuple[str, ...]) -> tuple[TypedObject, ...]:
    loaded = read_inputs(paths)
    if loaded.problems:
        refuse([str(problem) for problem in loaded.problems], "text")
    return tuple(sourced.object for sourced in loaded.objects)


def _knowledge(
    objects: tuple[TypedObject, ...],
    version: KubeVirtVersion | None,
    choices: dict[str, bool],
    keys: tuple[DriverKeys, ...],
    settings: LintSettings,
    launcher: LauncherSettings,
) -> Knowledge:
    """Of the objects. Without any, nothing is held against a VM for what it names."""
    world = LintInputs.of(objects, version=version, gates=choices, address_keys=keys)
    return Preflight(world, settings, launcher) if objects else KubeVirtOnly(world.configuration.gates, launcher, settings.ignore)
