"""``virt-dra keeper``: holds the devices of stopped VMs that keep them, and releases them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from virt_dra.cli.controller_process import ProcessChoice, process_options
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import parse_any_namespace
from virt_dra.controllers.keeping.loop import KeeperSettings

if TYPE_CHECKING:
    from virt_dra.operator.process import OperatorProcess

_NEEDS: Final = "the keeper needs kopf, httptools, the kubernetes package and prometheus-client"

EPILOG = """\b
Examples:
  virt-dra keeper                                   the current kubeconfig's cluster
  virt-dra keeper -n vms --no-election              one namespace, one process
  curl localhost:8080/metrics; curl localhost:8080/readyz; curl localhost:8081/healthz

\b
It logs one JSON object per line to standard error.

\b
Exit codes: 0 stopped by SIGTERM or SIGINT; 1 no connection to the cluster, lost Lease, or internal error; 2 bad usage.
"""


@click.command(name="keeper", epilog=EPILOG)
@process_options("virt-dra-keeper")
@shared("--namespace", detail="Only they are followed.  [default: all]", callback=parse_any_namespace)
@shared("--workers", type=click.IntRange(1, 64), default=4)
@click.option("--remove-ended-pods", is_flag=True,
              help="For Kubernetes 1.34 and 1.35, which leave pods that have ended among the users of a kept "
              "claim.")  # fmt: skip
def command(process: ProcessChoice, namespace: str, workers: int, remove_ended_pods: bool) -> None:
    """Keep the devices of VMs with the annotation virt-dra.io/keep-devices while they are stopped.

    It makes the claims that such a VM's instances use, holds what they are allocated, and releases it when the VM is
    deleted or no longer asks, when its time is over, its node is lost, its device is broken, or somebody asks (the
    annotation virt-dra.io/release-requested of the claim). Any number of replicas may run; one leads. The process keeps
    no state outside the API and may be killed at any time.
    """
    settings = KeeperSettings(
        namespace=namespace, instance=process.identity, workers=workers, removes_ended_pods=remove_ended_pods
    )

    async def run(operator: OperatorProcess) -> None:
        from virt_dra.operator.process import keep  # kopf takes half a second to import

        await keep(operator, settings)

    process.run(_NEEDS, run)
