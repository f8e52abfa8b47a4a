"""``virt-dra release``: asks the keeper to release the devices that a stopped VM keeps."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from virt_dra.api.counting import counted
from virt_dra.api.go_text import visible
from virt_dra.cli.shared.cluster_options import ClusterChoice, NoCluster, cluster_options
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import namespace_option, output_option
from virt_dra.cli.shared.output import print_document, refuse, refusing

if TYPE_CHECKING:
    from virt_dra.api.resource_v1 import ResourceClaim
    from virt_dra.api.wire import Json
    from virt_dra.cli.documents.output_types import ReleasedClaimJson
    from virt_dra.cluster.port import Cluster

HELP = """Release the devices that a stopped VM keeps (annotation virt-dra.io/keep-devices).

The VM's claims are marked, and the keeper releases them, so that others may have the devices: at its next start the VM
gets some as if it had kept none. The claims of a VM that runs aren't marked. Needs the right to list ResourceClaims and
to patch them. """

EPILOG = """\b
Examples:
  virt-dra release vm trainer -n team-a             shows what is released, and asks
  virt-dra release vm trainer -n team-a --yes

\b
Exit codes: 0 asked for, or nothing is kept; 1 the VM runs, or the question was answered with no; 2 bad usage, no
  cluster, missing permission.
"""


@click.command(name="release", help=HELP, epilog=EPILOG)
@click.argument("kind", type=click.Choice(["vm"]))
@click.argument("name")
@namespace_option
@shared("--yes")
@cluster_options
@output_option("text", "json", "yaml")
def command(kind: str, name: str, namespace: str, yes: bool, cluster: ClusterChoice, output: str) -> None:
    if output != "text" and not yes:
        raise click.UsageError("-o json and yaml go with --yes")
    from virt_dra.cluster.port import ApiError

    with refusing(output, ApiError, NoCluster):
        code = cluster.ask(lambda connected: released(connected, namespace, name, yes, output))
    raise SystemExit(code)


async def released(cluster: Cluster, namespace: str, name: str, yes: bool, output: str) -> int:
    """The exit code. Raises ApiError."""
    from virt_dra.api.keeping.claims import RELEASE_ANNOTATION, is_kept, other_consumers, vm_name_of
    from virt_dra.api.resource_v1 import ResourceClaim
    from virt_dra.controllers.writes import PatchAnnotations, write

    claims = [
        claim
        for claim in (await cluster.list(ResourceClaim, namespace)).items
        if is_kept(claim) and vm_name_of(claim) == name and claim.status.allocation is not None
    ]
    in_use = [claim for claim in claims if other_consumers(claim)]
    if output == "text":
        for claim in claims:
            say(_sentence(claim))
        if not claims:
            say(f"VM {visible(namespace)}/{visible(name)} keeps no devices")
        if in_use:
            say("error: the VM runs, or its pod hasn't ended: stop it first", err=True)
        elif claims and not yes:
            click.confirm(f"Release {counted(len(claims), 'claim')}?", abort=True)
    if not in_use:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for claim in claims:
            asked = PatchAnnotations.on(claim, {RELEASE_ANNOTATION: now}, unchanged=True)
            outcome = await write(cluster, [asked], claim)
            if not outcome.done:
                why = outcome.refused[0].message if outcome.refused else "it changed meanwhile; try again"
                refuse([f"ResourceClaim {claim.key}: {why}"], output)
        if claims and output == "text":
            say("asked the keeper to release them; virt-dra get claims shows when it has")
    if output != "text":
        print_document(_document(claims, asked=not in_use), output)
    return 1 if in_use else 0


def _sentence(claim: ResourceClaim) -> str:
    from virt_dra.api.keeping.claims import STOPPED_ANNOTATION

    since = claim.metadata.annotations.get(STOPPED_ANNOTATION)
    return f"{visible(claim.name)}: {_devices(claim)}{f', unused since {visible(since)}' if since else ''}"


def _devices(claim: ResourceClaim) -> str:
    results = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
    return ", ".join(visible(f"{result.device} of {result.driver}/{result.pool}") for result in results)


def _document(claims: list[ResourceClaim], *, asked: bool) -> Json:
    from virt_dra.cli.documents.heads import output_list

    items: list[ReleasedClaimJson] = [
        {"claim": claim.name, "namespace": claim.namespace, "devices": _devices(claim), "asked": asked}
        for claim in claims
    ]
    return output_list("ReleaseList", items)
