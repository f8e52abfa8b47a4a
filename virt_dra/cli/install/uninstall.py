"""``virt-dra uninstall``: remove what ``install`` applied, and what virt-dra wrote since."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from virt_dra.api.integration.paths import DEVICE_STATUS_ANNOTATION
from virt_dra.api.kubevirt_v1 import API_VERSION as KUBEVIRT
from virt_dra.api.wire import Json
from virt_dra.cli.install.command import parse_our_namespace
from virt_dra.cli.shared.cluster_options import ClusterChoice, cluster_options
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.output import print_document, refuse
from virt_dra.cluster.port import ApiError, NotFound
from virt_dra.installation.plan import ObjectKey
from virt_dra.installation.removal import Removal, namespaces_of, removal

if TYPE_CHECKING:
    from virt_dra.installation.apply import ChangeReport, WaitDeadline
    from virt_dra.installation.survey import Objects

LEASE: Final = "virt-dra-operator"

EPILOG = """\b
Examples:
  virt-dra uninstall --dry-run              what would be removed
  virt-dra uninstall                        asks before it removes anything
  virt-dra uninstall --yes --delete-vms     standalone: with every VirtualMachine of the cluster
\b
Kept are running VMs and their pods, and (standalone, without --delete-vms) the definitions of VirtualMachines with all that is stored under
them; without the operator nobody looks after those.
Exit codes: 0 removed, or nothing was there; 1 not all was gone when the time was over; 2 refused: bad usage, no cluster, no right to do it.
"""


@click.command(name="uninstall", epilog=EPILOG)
@click.option("--namespace", callback=parse_our_namespace, help="Of virt-dra itself.  [default: the one it is found in]")
@click.option(
    "--delete-vms", is_flag=True, help="Standalone: also the definitions of VirtualMachines, and so every VM. This can't be undone."
)
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(0, 3600), default=300.0, show_default=True, help="For all waiting.")
@cluster_options
@click.option("-o", "--output", type=click.Choice(["text", "yaml", "json"]), default="text", show_default=True)
def command(
    namespace: str | None,
    delete_vms: bool,
    yes: bool,
    dry_run: bool,
    timeout: float,
    cluster: ClusterChoice,
    output: str,
) -> None:
    """Remove virt-dra from a cluster: its webhooks first, so that nothing is held up, then all else in the opposite order of installing.

    Objects are known by the label app.kubernetes.io/part-of=virt-dra. A namespace that wasn't made by virt-dra stays.
    """
    if not (yes or dry_run) and output != "text":
        raise click.UsageError("-o yaml and json go with --yes or --dry-run")
    try:
        gone = asyncio.run(_uninstall(namespace, delete_vms, yes, dry_run, timeout, cluster, output))
    except ApiError as error:
        refuse([f"{error}; what was removed before is gone, and the same command can be run again"], output)
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
    from virt_dra.installation.apply import ChangeReport, NotReady, WaitDeadline

    def tell(sentence: str) -> None:
        say(sentence, err=output != "text")

    waiting: Sequence[str] = ()
    report = ChangeReport(tell)
    try:
        async with choice.connected() as cluster:
            plan = await _gathered(cluster, namespace, delete_vms, output)
            if not plan.keys and not plan.annotated:
                _conclude(plan, report, waiting, output, "there is nothing of virt-dra on this cluster")
                return True
            for sentence in told(plan):
                tell(sentence)
            if dry_run:
                _conclude(plan, report, waiting, output, "")
                return True
            if not yes:
                click.confirm("Remove all this?", abort=True)
            try:
                await _removed(cluster, plan, report, WaitDeadline(timeout, time.monotonic))
            except NotReady as error:
                waiting = error.waiting
    except click.ClickException as error:
        refuse([error.message], output)
    _conclude(plan, report, waiting, output, "virt-dra is removed" if not waiting else "")
    return not waiting


async def _gathered(cluster: Objects, namespace: str | None, delete_vms: bool, output: str) -> Removal:
    from virt_dra.installation.apply import ours
    from virt_dra.installation.survey import CRD, OURS, VMS

    if namespace is None:
        deployments = await cluster.list_raw("apps/v1", "Deployment", labels=OURS)
        found = namespaces_of(deployments, await cluster.list_raw("v1", "Namespace", labels=OURS))
        if len(found) > 1:
            refuse([f"virt-dra has objects in the namespaces {', '.join(found)}: say which with --namespace"], output)
        namespace = found[0] if found else "virt-dra"
    there = await ours(cluster, namespace)
    definitions = {crd["metadata"]["name"]: crd for crd in there if crd["kind"] == CRD[1]}
    stored: dict[str, tuple[Json, ...]] = {}
    for name, crd in definitions.items():
        version = next(each["name"] for each in crd["spec"]["versions"] if each["storage"])
        stored[name] = await _all(cluster, f"{crd['spec']['group']}/{version}", crd["spec"]["names"]["kind"])
    if VMS[1] not in stored:  # KubeVirt's
        stored[VMS[1]] = await _all(cluster, KUBEVIRT, "VirtualMachineInstance")
    return removal(namespace, there, stored, delete_vms=delete_vms)


async def _all(cluster: Objects, api_version: str, kind: str) -> tuple[Json, ...]:
    try:
        return await cluster.list_raw(api_version, kind)
    except NotFound:
        return ()


def told(plan: Removal) -> list[str]:
    """What will happen, a sentence each."""
    lines = [f"to be removed: {key}" for key in plan.keys]
    lines += [f"to be lost with it: {count} objects of {name}" for name, count in plan.lost.items() if count]
    lines += [f"annotation {DEVICE_STATUS_ANNOTATION} to be removed: {key}" for key in plan.annotated]
    lines += [f"kept, with all that is stored under it: CustomResourceDefinition {name} (see --delete-vms)" for name in plan.kept]
    return lines


async def _removed(cluster: Objects, plan: Removal, report: ChangeReport, deadline: WaitDeadline) -> None:
    """Raises NotReady when not all is gone in time."""
    from virt_dra.installation.apply import API_VERSIONS, remove
    from virt_dra.installation.survey import OURS, found

    kinds = [key.kind for key in plan.keys]
    workload_ends = max((index for index, kind in enumerate(kinds) if kind == "Deployment"), default=-1) + 1
    for key in plan.keys[:workload_ends]:
        await remove(cluster, key, report)

    async def running() -> list[str]:
        pods = await cluster.list_raw("v1", "Pod", plan.namespace, labels=OURS)
        return [f"{ObjectKey.of({'kind': 'Pod', **pod})} still runs" for pod in pods]

    if workload_ends:
        await deadline.until(running, report.tell)
    # Only now, because a running operator would write it again.
    for key in plan.annotated:
        await _without_annotation(cluster, key)
    # A namespace comes after the definitions: it is emptied kind by kind, and a kind that is just vanishing holds that up.
    rest = (*plan.keys[workload_ends:], ObjectKey("Lease", plan.namespace, LEASE))
    for kind_is_namespace in (False, True):
        for key in rest:
            if (key.kind == "Namespace") is kind_is_namespace:
                await remove(cluster, key, report)

        async def there() -> list[str]:
            objects = [(key, await found(cluster, API_VERSIONS[key.kind], key.kind, key.name, key.namespace)) for _, key in report.done]
            return [f"{key} is being removed" for key, obj in objects if obj is not None]

        await deadline.until(there, report.tell)


async def _without_annotation(cluster: Objects, key: ObjectKey) -> None:
    with suppress(NotFound):  # a VM that was stopped meanwhile
        await cluster.patch_raw(
            KUBEVIRT, key.kind, key.name, key.namespace, merge={"metadata": {"annotations": {DEVICE_STATUS_ANNOTATION: None}}}
        )


def _conclude(plan: Removal, report: ChangeReport, waiting: Sequence[str], output: str, sentence: str) -> None:
    if output != "text":
        document: Json = {
            "namespace": plan.namespace,
            "planned": [{"kind": key.kind, "namespace": key.namespace, "name": key.name} for key in plan.keys],
            "removed": [{"kind": key.kind, "namespace": key.namespace, "name": key.name} for _, key in report.done],
            "kept": list(plan.kept),
            "waitingFor": list(waiting),
        }
        print_document(document, output)
        return
    for missing in waiting:
        say(f"error: {missing}", err=True)
    if sentence:
        say(sentence)
