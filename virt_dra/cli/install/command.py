"""``virt-dra install``: apply the manifests of this version to a cluster, or print them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from virt_dra.api import names
from virt_dra.api.reading.yaml_writing import write_documents
from virt_dra.api.wire import Json
from virt_dra.cli.shared.cluster_options import ClusterChoice, cluster_options
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.options import parse_namespace
from virt_dra.cli.shared.output import json_text, print_document, refuse
from virt_dra.cluster.port import ApiError
from virt_dra.installation.callers import read_networks, reads_as_certificates
from virt_dra.installation.kustomize import ManifestError, split_image
from virt_dra.installation.plan import (
    BESIDE_KUBEVIRT,
    NAMESPACE,
    STANDALONE,
    SYSTEM_NAMESPACES,
    Choices,
    ObjectKey,
    Overlay,
    packaged,
    planned,
)

if TYPE_CHECKING:
    from virt_dra.installation.apply import ChangeReport

EPILOG = """\b
Examples:
  virt-dra install --dry-run                                beside KubeVirt: print what would be applied; asks no cluster
  virt-dra install --image registry.example.com/virt-dra:0.1.0
  virt-dra install --overlay standalone                     without KubeVirt: VirtualMachines of our own
  virt-dra install --dry-run -o json | kubectl apply --server-side -f -
\b
Run it again to upgrade: it applies what this version of virt-dra has, and removes what an older one had.
Exit codes: 0 applied and running (or printed), 1 applied, but not running when the time was over, 2 refused: bad usage, no cluster, no
right to do it, KubeVirt where none may be or none where one must be.
"""


def _image(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    name, tag = split_image(value)
    if not name or value != value.strip() or any(character.isspace() for character in value) or tag in (":", "@"):
        raise click.BadParameter(f"{value!r}: write an image as in registry.example.com/virt-dra:0.1.0")
    return value


def _arguments(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not value.startswith("--") or value == "--":
            raise click.BadParameter(f"{value!r}: write an option with its value in one, as in {param.opts[0]}=--log-level=debug")
    return values


def _label(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and (wrong := names.label_key(value)):
        raise click.BadParameter(f"{value!r} can't be the key of a label: {'; '.join(wrong)}")
    return value


def parse_our_namespace(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A namespace that may be ours. Raises BadParameter."""
    if value is None:
        return None
    if value in SYSTEM_NAMESPACES:
        raise click.BadParameter(f"{value!r} belongs to the cluster; give virt-dra a namespace of its own")
    return parse_namespace(ctx, param, value)


def _client_ca(ctx: click.Context, param: click.Parameter, value: Path | None) -> bytes:
    try:
        content = value.read_bytes() if value is not None else b""
    except OSError as error:
        raise click.BadParameter(f"{value}: {error.strerror}") from None
    if value is not None and not reads_as_certificates(content):
        raise click.BadParameter("it must hold certificates in PEM, and no private key")
    return content


def _networks(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return read_networks(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(name="install", epilog=EPILOG)
@click.option(
    "--overlay",
    type=click.Choice([BESIDE_KUBEVIRT, STANDALONE]),
    default=BESIDE_KUBEVIRT,
    show_default=True,
    help="With the KubeVirt that is there, or with VirtualMachines of our own where there is none.",
)
@click.option(
    "--namespace", default=NAMESPACE, show_default=True, callback=parse_our_namespace, help="Of virt-dra itself; made if it is missing."
)
@click.option("--image", metavar="IMAGE", callback=_image, help="Of operator and webhook.  [default: virt-dra with this version's tag]")
@click.option("--launcher-image", metavar="IMAGE", callback=_image, help="Of launcher pods (standalone).")
@click.option(
    "--operator-argument",
    "operator_arguments",
    metavar="ARGUMENT",
    multiple=True,
    callback=_arguments,
    help="Of virt-dra operator, in addition; may be repeated. Give it again when you upgrade.",
)
@click.option(
    "--webhook-argument",
    "webhook_arguments",
    metavar="ARGUMENT",
    multiple=True,
    callback=_arguments,
    help="Of virt-dra webhook, in addition, such as --writes-metadata=gpu.nvidia.com; may be repeated. Give it again when you upgrade.",
)
@click.option(
    "--vm-namespace-label",
    metavar="KEY",
    callback=_label,
    help="Standalone: VMs run only in namespaces with this label. Give it again when you upgrade.  [default: all but the cluster's]",
)
@click.option("--cert-manager", is_flag=True, help="The webhook's certificate from cert-manager instead of an authority of its own.")
@click.option(
    "--client-ca",
    metavar="FILE",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    callback=_client_ca,
    help="Authorities (PEM) of the certificate that API servers present to webhooks: the webhook then answers nobody else, and tells what "
    "it finds in the cluster. Give it again when you upgrade.",
)
@click.option(
    "--api-server-cidr",
    "api_server_networks",
    metavar="CIDR",
    multiple=True,
    callback=_networks,
    help="Networks from which API servers reach pods; reviews come from nowhere else. May be repeated; give it again when you upgrade.",
)
@click.option("--dry-run", is_flag=True, help="Print the objects that would be applied, in their order, and do nothing.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Until the Deployments run.")
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(0, 3600), default=300.0, show_default=True, help="For all waiting.")
@cluster_options
@click.option("-o", "--output", type=click.Choice(["text", "yaml", "json"]), help="[default: text; with --dry-run yaml]")
def command(
    overlay: str,
    namespace: str,
    image: str | None,
    launcher_image: str | None,
    operator_arguments: tuple[str, ...],
    webhook_arguments: tuple[str, ...],
    vm_namespace_label: str | None,
    cert_manager: bool,
    client_ca: bytes,
    api_server_networks: tuple[str, ...],
    dry_run: bool,
    wait: bool,
    timeout: float,
    cluster: ClusterChoice,
    output: str | None,
) -> None:
    """Install or upgrade virt-dra: definitions, rights, operator and webhook.

    Objects are applied server-side, as the manager virt-dra-install. Nothing that isn't virt-dra's is changed: an object that has one of
    its names but not its label is a reason to refuse. A namespace that exists already is used as it is.
    """
    if vm_namespace_label is not None and overlay != STANDALONE:
        raise click.UsageError(f"--vm-namespace-label goes with --overlay {STANDALONE}: beside KubeVirt it is KubeVirt that creates pods")
    choices = Choices(
        cast("Overlay", overlay),
        namespace,
        image,
        launcher_image,
        cert_manager,
        operator_arguments,
        webhook_arguments,
        client_ca,
        api_server_networks,
        vm_namespace_label,
    )
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
        refuse([f"{error}; what was applied before stays, and the same command can be run again"], chosen)
    if not ready:
        raise SystemExit(1)


def written(objects: Sequence[Json], output: str) -> str:
    """The objects as text that ``kubectl apply -f`` takes: documents of YAML, or a List in JSON."""
    if output == "json":
        return json_text({"apiVersion": "v1", "kind": "List", "items": list(objects)}, indent=2) + "\n"
    return write_documents(objects)


async def _install(objects: Sequence[Json], choices: Choices, wait: bool, timeout: float, choice: ClusterChoice, output: str) -> bool:
    """Whether everything runs, or needn't."""
    from virt_dra.installation.apply import ChangeReport, NotReady, WaitDeadline, install, wait_for_deployments
    from virt_dra.installation.survey import refusals, survey

    def tell(sentence: str) -> None:
        say(sentence, err=output != "text")

    report = ChangeReport(tell)
    waiting: Sequence[str] = ()
    try:
        async with choice.connected() as cluster:
            seen = await survey(cluster, objects)
            if refused := refusals(seen, choices):
                refuse(refused, output)
            deadline = WaitDeadline(timeout, time.monotonic)
            try:
                await install(cluster, objects, seen, choices, report, deadline)
                if wait:
                    deployments = [key for key in map(ObjectKey.of, objects) if key.kind == "Deployment"]
                    await wait_for_deployments(cluster, deployments, deadline, tell)
            except NotReady as error:
                waiting = error.waiting
    except click.ClickException as error:
        refuse([error.message], output)
    _conclude(choices, report, waiting, waited=wait, output=output)
    return not waiting


def _conclude(choices: Choices, report: ChangeReport, waiting: Sequence[str], *, waited: bool, output: str) -> None:
    if output != "text":
        done = [{"kind": key.kind, "namespace": key.namespace, "name": key.name, "result": deed} for deed, key in report.done]
        print_document({"overlay": choices.overlay, "namespace": choices.namespace, "objects": done, "waitingFor": list(waiting)}, output)
        return
    for sentence in waiting:
        say(f"error: {sentence}", err=True)
    if waiting:
        say("error: applied, but it doesn't run yet; virt-dra doctor says more", err=True)
    else:
        say(f"virt-dra ({choices.overlay}) is installed in the namespace {choices.namespace}{' and runs' if waited else ''}")
