"""``virt-dra webhook-certificates``: renews the webhook's serving certificate; only this process has the key of the
signing authority."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from virt_dra.cli.shared.cluster_options import ClusterChoice, cluster_options
from virt_dra.cli.shared.extras import required
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import log_level_option, parse_namespace, parse_service, seconds_option
from virt_dra.cli.shared.output import refusing
from virt_dra.cli.shared.stopping import stop_signal
from virt_dra.cluster.port import ApiError
from webhooks.server.log import LOGGER, json_logging

if TYPE_CHECKING:
    from virt_dra.installation.webhook_authority import StoredAuthority

DEFAULT_NAMESPACE: Final = "virt-dra"
DEFAULT_AUTHORITY: Final = "virt-dra-webhook-authority"
DEFAULT_SECRET: Final = "virt-dra-webhook-tls"
DEFAULT_SERVICE: Final = "virt-dra-webhook"
DEFAULT_CONFIGURATION: Final = "virt-dra"
"""Names in the manifests."""

_FIRST_SECONDS: Final = 30.0
"""Time for retries of the first attempt: RBAC permissions may be applied a little later than the pod."""
_NEEDS: Final = "this command needs cryptography"

EPILOG = """\b
Examples:
  virt-dra webhook-certificates          in a cluster, as in the manifests
  virt-dra webhook-certificates --once   with an administrator's kubeconfig: make or renew what is due, and exit

\b
The authority's key is in the Secret --authority-secret, which only this process should be able to read. The Secret
--secret has the certificate of virt-dra webhook --live --tls-dir, and is mounted there. The process opens no port, and
logs one JSON object per line to standard error.

\b
Exit codes: 0 stopped by SIGTERM or SIGINT, or success of --once; 2 bad usage, no cluster, missing permission, unusable
Secret.
"""


@click.command(name="webhook-certificates", epilog=EPILOG)
@cluster_options
@shared("--own-namespace", "namespace", "That of the Secrets and the Service; also $POD_NAMESPACE.",
        envvar="POD_NAMESPACE", default=DEFAULT_NAMESPACE, callback=parse_namespace)  # fmt: skip
@click.option("--authority-secret", metavar="NAME", default=DEFAULT_AUTHORITY, show_default=True,
              help="Of the authority and its key.")  # fmt: skip
@click.option("--secret", metavar="NAME", default=DEFAULT_SECRET, show_default=True,
              help="Of the webhook's certificate and its key.")  # fmt: skip
@click.option(
    "--webhook-configuration", metavar="NAME", default=DEFAULT_CONFIGURATION, show_default=True,
    help="The Validating- and MutatingWebhookConfiguration that get the authority as caBundle; empty for none.",
)  # fmt: skip
@shared("--dns-name", "dns_names")
@shared(
    "--service", detail="[default, without --dns-name: virt-dra-webhook in --own-namespace]", callback=parse_service
)
@seconds_option("--every", 10.0, 0.1, 86400, "Time between two checks.")
@shared("--once")
@log_level_option
def command(
    cluster: ClusterChoice, namespace: str, authority_secret: str, secret: str, webhook_configuration: str,
    dns_names: tuple[str, ...], service: tuple[str, str] | None, every: float, once: bool, log_level: int,
) -> None:  # fmt: skip
    """Keep the certificate of virt-dra's webhook without cert-manager: an authority of our own, its certificates, and
    the trust in it.

    Certificates are renewed after two thirds of their lifetime. A new authority is trusted weeks before it signs. Any
    number of these processes may run.
    """
    with required(_NEEDS, "webhook", "cryptography"):
        from webhooks.tls.authority import service_names
    if authority_secret == secret:
        why = "or the webhook would have the authority's key"
        raise click.UsageError(f"--authority-secret and --secret must differ, {why}")
    wanted = service or (None if dns_names else (DEFAULT_SERVICE, namespace))
    names = (*dns_names, *(service_names(*wanted) if wanted else ()))
    json_logging(sys.stderr, log_level)
    with refusing("text", _Refused):
        seconds = None if once else every
        asyncio.run(_run(cluster, authority_secret, secret, namespace, names, webhook_configuration, seconds))


class _Refused(Exception):
    """The reason why there is no certificate."""


async def _run(
    choice: ClusterChoice, authority_secret: str, secret: str, namespace: str, names: Sequence[str], configuration: str,
    every: float | None
) -> None:  # fmt: skip
    """Reconcile until a signal; once if ``every`` is None. Raises :class:`_Refused` if the first attempt fails,
    ClickException."""
    from virt_dra.installation.webhook_authority import StoredAuthority

    log = logging.getLogger(LOGGER)
    async with choice.connected() as cluster:
        authority = StoredAuthority(
            cluster, authority_secret, secret, namespace, names, configuration, cluster.transport.clock, log=log
        )
        stop = stop_signal() if every is not None else asyncio.Event()
        await _first(authority, 0.0 if every is None else _FIRST_SECONDS, stop)
        if every is None:
            return
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(authority.keep(every))
            await stop.wait()
            keeping.cancel()


async def _first(authority: StoredAuthority, seconds: float, stop: asyncio.Event) -> None:
    """Reconcile for the first time, with retries. Raises :class:`_Refused` if that doesn't succeed in time."""
    from virt_dra.installation.webhook_authority import NotReconciled

    until = time.monotonic() + seconds
    while not stop.is_set():
        try:
            await authority.reconcile()
        except ApiError as error:
            if time.monotonic() >= until:
                raise _Refused(f"the webhook's certificate in {authority.namespace}: {error}") from None
            await asyncio.sleep(1.0)
        except (NotReconciled, ValueError) as error:
            raise _Refused(str(error)) from None
        else:
            return
