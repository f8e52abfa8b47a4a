"""``virt-dra uninstall``: removes what ``install`` applied, and what virt-dra has written since."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from virt_dra.cli.install.options import emitter, parse_our_namespace
from virt_dra.cli.shared.cluster_options import ClusterChoice, cluster_options
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import output_option, wait_timeout_option
from virt_dra.cli.shared.output import print_output, refuse, refusing
from virt_dra.cluster.port import ApiError

if TYPE_CHECKING:
    from virt_dra.cli.documents.output_types import RemovalJson
    from virt_dra.installation.apply import ChangeReport
    from virt_dra.installation.removal import Removal

EPILOG = """\b
Examples:
  virt-dra uninstall --dry-run              what would be removed
  virt-dra uninstall                        asks before it removes anything
  virt-dra uninstall --yes --delete-vms     standalone: with every VirtualMachine of the cluster

\b
Running VMs and their pods are kept, and (standalone, without --delete-vms) the CRDs of VirtualMachines with all their
objects; without the operator nothing reconciles them.

\b
Exit codes: 0 removed, or nothing to remove; 1 time ran out; 2 refused: bad usage, no cluster, missing permission.
"""


@click.command(name="uninstall", epilog=EPILOG)
@shared("--own-namespace", "namespace", "[default: the one it is found in]", callback=parse_our_namespace)
@click.option(
    "--delete-vms", is_flag=True, help="Standalone: also the CRDs of VirtualMachines, and with them every VM, for good."
)
@shared("--yes")
@shared("--dry-run")
@wait_timeout_option
@cluster_options
@output_option("text", "yaml", "json")
def command(
    namespace: str | None,
    delete_vms: bool,
    yes: bool,
    dry_run: bool,
    timeout: float,
    cluster: ClusterChoice,
    output: str,
) -> None:
    """Remove virt-dra from a cluster: its webhooks first, so that no request is blocked, then everything else in
    reverse order of installation.

    Objects are found by the label app.kubernetes.io/part-of=virt-dra. A namespace that virt-dra didn't create stays.
    """
    if not (yes or dry_run) and output != "text":
        raise click.UsageError("-o yaml and json go with --yes or --dry-run")
    try:
        gone = asyncio.run(_uninstall(namespace, delete_vms, yes, dry_run, timeout, cluster, output))
    except ApiError as error:
        refuse([f"{error}; what has been removed is gone, and the same command can be run again"], output)
    if not gone:
        raise SystemExit(1)


async def _uninstall(
    namespace: str | None,
    delete_vms: bool,
    yes: bool,
    dry_run: bool,
    timeout: float,
    choice: ClusterChoice,
    output: str,
) -> bool:
    """True unless time ran out."""
    from virt_dra.installation.apply import ChangeReport, NotReady, WaitDeadline
    from virt_dra.installation.remove import SeveralNamespaces, apply_removal, planned_removal

    waiting: Sequence[str] = ()
    report = ChangeReport(emitter(output))
    with refusing(output, SeveralNamespaces, click.ClickException):
        async with choice.connected() as cluster:
            plan = await planned_removal(cluster, namespace, delete_vms=delete_vms)
            if not plan.keys and not plan.annotated:
                _conclude(plan, report, waiting, output, "virt-dra isn't installed on this cluster")
                return True
            for sentence in plan.sentences():
                report.emit(sentence)
            if dry_run:
                _conclude(plan, report, waiting, output, "")
                return True
            if not yes:
                click.confirm("Remove all this?", abort=True)
            try:
                await apply_removal(cluster, plan, report, WaitDeadline(timeout, time.monotonic))
            except NotReady as error:
                waiting = error.waiting
    _conclude(plan, report, waiting, output, "virt-dra is removed" if not waiting else "")
    return not waiting


def _conclude(plan: Removal, report: ChangeReport, waiting: Sequence[str], output: str, sentence: str) -> None:
    if output != "text":
        members: RemovalJson = {
            "namespace": plan.namespace,
            "planned": [key.to_json() for key in plan.keys],
            "removed": [key.to_json() for _, key in report.done],
            "kept": list(plan.kept),
            "waitingFor": list(waiting),
        }
        print_output("Removal", members, output)
        return
    for missing in waiting:
        say(f"error: {missing}", err=True)
    if sentence:
        say(sentence)
