"""``virt-dra install``: applies the manifests of this version to a cluster, or prints them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from virt_dra.api.reading.yaml_writing import write_documents
from virt_dra.api.wire import Json
from virt_dra.cli.install import options
from virt_dra.cli.shared.cluster_options import ClusterChoice, cluster_options
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.option_table import RepeatableOption, shared
from virt_dra.cli.shared.options import wait_timeout_option
from virt_dra.cli.shared.output import json_text, print_output, refuse, refusing
from virt_dra.cluster.port import ApiError
from virt_dra.installation.kustomize import ManifestError
from virt_dra.installation.plan import (
    BESIDE_KUBEVIRT,
    IMAGE,
    LAUNCHER_IMAGE,
    MONITORING,
    NAMESPACE,
    RUNBOOKS,
    STANDALONE,
    WORKLOADS,
    Choices,
    ObjectKey,
    Overlay,
    packaged,
    planned,
)

if TYPE_CHECKING:
    from virt_dra.cli.documents.output_types import InstallationJson
    from virt_dra.installation.apply import ChangeReport

EPILOG = """\b
Examples:
  virt-dra install --image registry.example.com/virt-dra:0.1.0 --dry-run   print only; contacts no cluster
  virt-dra install --image registry.example.com/virt-dra:0.1.0
  virt-dra install --image registry.example.com/virt-dra:0.1.0 --dry-run -o json | kubectl apply --server-side -f -

\b
Without KubeVirt, with VirtualMachines of our own:
  virt-dra install --overlay standalone --image registry.example.com/virt-dra:0.1.0 \\
    --launcher-image registry.example.com/virt-dra-launcher:0.1.0

\b
No image of virt-dra is published: build them of its source (docs/guides/install.md, "Images") and push them where your
nodes can pull them.

\b
Run it again to upgrade: it applies the objects of this version of virt-dra, and removes those that only an older
version had. Options that change objects must be given again.

\b
Exit codes: 0 applied and running (or printed), 1 applied, but not running in time, 2 refused: bad usage, no cluster,
missing permission, KubeVirt where none may be or none where one must be.
"""


@click.command(name="install", epilog=EPILOG)
@click.option("--overlay", type=click.Choice([BESIDE_KUBEVIRT, STANDALONE]), default=BESIDE_KUBEVIRT, show_default=True,
              help="With the cluster's KubeVirt, or, without one, with VirtualMachines of our own.")  # fmt: skip
@shared("--own-namespace", "namespace", "Created if it is missing.", default=NAMESPACE,
        callback=options.parse_our_namespace)  # fmt: skip
@click.option("--image", metavar="IMAGE", callback=options.parse_image,
              help="Image of all pods of virt-dra itself.  [default: virt-dra with this "
"version's tag, which nobody publishes]")  # fmt: skip
@shared("--launcher-image", detail="[default: virt-dra-launcher, as for --image]", callback=options.parse_image)
@click.option("--operator-argument", "operator_arguments", metavar="ARGUMENT", cls=RepeatableOption,
              callback=options.parse_arguments, help="A further argument of virt-dra operator.")  # fmt: skip
@click.option("--webhook-argument", "webhook_arguments", metavar="ARGUMENT", cls=RepeatableOption,
              callback=options.parse_arguments,
              help="A further argument of virt-dra webhook, such as --log-level=debug.")  # fmt: skip
@click.option("--vm-namespace-label", metavar="KEY", callback=options.parse_label,
              help="Standalone: VMs run only in namespaces with this label. "
" [default: all but the cluster's]")  # fmt: skip
@click.option("--launcher-pull-secret", "launcher_pull_secrets", metavar="NAME", cls=RepeatableOption,
              callback=options.parse_secrets,
              help="Standalone: a Secret for pulling images that ServiceAccounts give to launcher pods.")  # fmt: skip
@click.option("--launcher-priority", metavar="NUMBER", type=int, default=0, show_default=True,
              help="Standalone: the value of the cluster's default PriorityClass, which launcher pods "
"get.")  # fmt: skip
@options.part_options
@click.option("--runbooks-url", metavar="URL", callback=options.parse_runbooks_url,
              help="With --monitoring: where the files of docs/runbooks are served, for the alerts' "
"runbook_url.")  # fmt: skip
@click.option(
    "--cert-manager",
    is_flag=True,
    help="The webhook's certificate from cert-manager instead of an authority of its own.",
)
@shared(
    "--client-ca",
    detail="Those of API servers; the webhook then uses everything it knows of the cluster.",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    callback=options.parse_client_ca,
)
@click.option(
    "--api-server-cidr", "api_server_networks", metavar="CIDR", cls=RepeatableOption, callback=options.parse_networks,
    help="Networks from which API servers connect to pods; reviews are accepted only from there.",
)  # fmt: skip
@shared("--dry-run", detail="The objects that would be applied, in order.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until all pods run.")
@wait_timeout_option
@cluster_options
@shared("--output", detail="[default: text; with --dry-run yaml]", type=click.Choice(["text", "yaml", "json"]))
def command(
    overlay: str, namespace: str, image: str | None, launcher_image: str | None, operator_arguments: tuple[str, ...],
    webhook_arguments: tuple[str, ...], vm_namespace_label: str | None, launcher_pull_secrets: tuple[str, ...],
    launcher_priority: int, runbooks_url: str | None, cert_manager: bool, client_ca: bytes,
    api_server_networks: tuple[str, ...], dry_run: bool, wait: bool, timeout: float, cluster: ClusterChoice,
    parts: frozenset[str], output: str | None,
) -> None:  # fmt: skip
    """Install or upgrade virt-dra: CRDs, RBAC permissions, operator and webhook.

    Objects are applied server-side, by the field manager virt-dra-install. Foreign objects are never changed: an object
    with one of virt-dra's names but without its label is an error. An existing namespace is used as it is.
    """
    limits = {
        "--vm-namespace-label": vm_namespace_label is not None,
        "--launcher-pull-secret": launcher_pull_secrets,
        "--launcher-priority": launcher_priority,
    }
    for option in (option for option, given in limits.items() if given and overlay != STANDALONE):
        raise click.UsageError(f"{option} goes with --overlay {STANDALONE}: beside KubeVirt, KubeVirt creates the pods")
    if runbooks_url and MONITORING not in parts:
        raise click.UsageError("--runbooks-url goes with --monitoring")
    choices = Choices(
        cast("Overlay", overlay), namespace, image, launcher_image, cert_manager, operator_arguments, webhook_arguments,
        client_ca, api_server_networks, vm_namespace_label, launcher_pull_secrets, launcher_priority, parts,
        runbooks_url or RUNBOOKS,
    )  # fmt: skip
    if unnamed := unpublished_images(overlay, image, launcher_image):
        say(f"warning: {unnamed}", err=True)
    try:
        objects = planned(choices, packaged())
    except ManifestError as error:
        refuse([f"the manifests of this installation of virt-dra are broken: {error}"], output or "text")
    if dry_run:
        if output == "text":
            raise click.UsageError("--dry-run prints yaml or json")
        click.echo(written(objects, output or "yaml"), nl=False)
        return
    chosen = output or "text"
    try:
        ready = asyncio.run(_install(objects, choices, wait, timeout, cluster, chosen))
    except ApiError as error:
        refuse([f"{error}; objects that were applied stay, and the same command can be run again"], chosen)
    if not ready:
        raise SystemExit(1)


def unpublished_images(overlay: str, image: str | None, launcher_image: str | None) -> str:
    """A note on default images, which no registry has; "" if all images are given."""
    own = {"--image": IMAGE} if image is None else {}
    launchers = {"--launcher-image": LAUNCHER_IMAGE} if overlay == STANDALONE and launcher_image is None else {}
    missing = {option: f"{name}:{version('virt-dra')}" for option, name in (own | launchers).items()}
    if not missing:
        return ""
    return (
        f"no image of virt-dra is published: the pods start only on nodes that have {' and '.join(missing.values())} "
        "already. Build what the Containerfile of its source says, push it where your nodes can pull it "
        f'(docs/guides/install.md, "Images"), and name it with {" and ".join(missing)}'
    )


def written(objects: Sequence[Json], output: str) -> str:
    """The objects as text that ``kubectl apply -f`` takes: documents of YAML, or a List in JSON."""
    if output == "json":
        return json_text({"apiVersion": "v1", "kind": "List", "items": list(objects)}, indent=2) + "\n"
    return write_documents(objects)


async def _install(
    objects: Sequence[Json], choices: Choices, wait: bool, timeout: float, choice: ClusterChoice, output: str
) -> bool:
    """True if everything runs, or isn't waited for."""
    from virt_dra.installation.apply import ChangeReport, NotReady, WaitDeadline, install, wait_for_workloads
    from virt_dra.installation.refusals import refusals
    from virt_dra.installation.survey import survey

    report = ChangeReport(options.emitter(output))
    waiting: Sequence[str] = ()
    with refusing(output, click.ClickException):
        async with choice.connected() as cluster:
            seen = await survey(cluster, objects)
            if refused := refusals(seen, choices):
                refuse(refused, output)
            deadline = WaitDeadline(timeout, time.monotonic)
            try:
                await install(cluster, objects, seen, choices, report, deadline)
                if wait:
                    workloads = [key for key in map(ObjectKey.from_object, objects) if key.kind in WORKLOADS]
                    await wait_for_workloads(cluster, workloads, deadline, report.emit)
            except NotReady as error:
                waiting = error.waiting
    _conclude(choices, report, waiting, waited=wait, output=output)
    return not waiting


def _conclude(choices: Choices, report: ChangeReport, waiting: Sequence[str], *, waited: bool, output: str) -> None:
    if output != "text":
        members: InstallationJson = {
            "overlay": choices.overlay,
            "namespace": choices.namespace,
            "objects": [{**key.to_json(), "result": result} for result, key in report.done],
            "waitingFor": list(waiting),
        }
        print_output("Installation", members, output)
        return
    for sentence in waiting:
        say(f"error: {sentence}", err=True)
    if waiting:
        say("error: applied, but not running yet; run virt-dra doctor for details", err=True)
    else:
        runs = " and runs" if waited else ""
        say(f"virt-dra ({choices.overlay}) is installed in the namespace {choices.namespace}{runs}")
