"""``virt-dra doctor``: checks that a cluster is ready for VMs with devices, and that virt-dra works on it."""

from __future__ import annotations

from importlib.metadata import version

import click

from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.cli.shared.check_report import end_with
from virt_dra.cli.shared.cluster_options import ClusterChoice, NoCluster, cluster_options
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import kubevirt_option, output_option, parse_namespace
from virt_dra.cli.shared.output import refusing
from virt_dra.doctor.checks import examine

EPILOG = """\b
Examples:
  virt-dra doctor                          of the current kubeconfig's cluster
  virt-dra doctor -q                       only what needs doing
  virt-dra doctor -o json | jq -r '.findings[] | select(.level == "error") | .message'

\b
Nothing is written: the request to the webhook is a dry run.

\b
Exit codes: 0 neither warnings nor errors, 1 warnings, 2 errors, bad usage or no connection to the cluster.
"""


@click.command(name="doctor", epilog=EPILOG)
@cluster_options
@click.option("--probe-namespace", metavar="NAME", default="default", show_default=True, callback=parse_namespace,
              help="Namespace of the dry run's VMI.")  # fmt: skip
@kubevirt_option
@shared("--quiet", detail="Only warnings and errors.")
@output_option("text", "json", "yaml")
def command(
    cluster: ClusterChoice, probe_namespace: str, kubevirt: KubeVirtVersion | None, quiet: bool, output: str
) -> None:
    """Examine a cluster: Kubernetes and KubeVirt (versions, gates), drivers and classes, and virt-dra itself.

    Of virt-dra: objects, pods, whether the API server reaches the webhook, certificates, RBAC permissions, leader. Each
    finding has its remedy.
    """
    from virt_dra.doctor.gather import gather

    with refusing(output, NoCluster):
        facts = cluster.ask(lambda connected: gather(connected, probe_namespace))
    end_with(examine(facts, version("virt-dra"), kubevirt), output, quiet=quiet)
