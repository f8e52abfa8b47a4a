"""``virt-dra render-profile``: manifests with the devices that VMs ask for by a line of profiles."""

from __future__ import annotations

import sys

import click

from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.file_input import sourced_of_files
from virt_dra.cli.shared.options import file_inputs, namespace_option, output_option
from virt_dra.cli.shared.output import document_text

EPILOG = """\b
Examples:
  virt-dra render-profile -f examples/profiles > rendered.yaml
  virt-dra render-profile -f examples/profiles -n team-a -o json
  virt-dra render-profile -f examples/profiles | kubectl apply -f -

\b
Exit codes: 0 rendered, 1 a VM or a profile is refused, 2 bad usage or unreadable input.
"""


@click.command(name="render-profile", epilog=EPILOG)
@file_inputs("DeviceProfiles, VMs, and what belongs to them; - is standard input.")
@namespace_option
@output_option("yaml", "json")
def command(paths: tuple[str, ...], namespace: str, output: str) -> None:
    """Write out the devices that VMs ask for by a line of profiles.

    The annotation virt-dra.io/devices of a VM's template (of a VMI: its own, or its instancetype's) names
    DeviceProfiles: "two-h100-and-nic", or "gpu=nvidia-h100 x 2, nic=cx7". The output has all objects of the files but
    the profiles; each VM has the device entries and resourceClaims that its line stands for, and a
    ResourceClaimTemplate for each of its items stands before it. Names are the same each time, so that rendering the
    output once more changes nothing.

    If anything is refused, nothing is written.
    """
    from virt_dra.api.profiles.manifests import rendered
    from virt_dra.cel.validation import COMPILED

    if not paths:
        raise click.UsageError("name the files to read")
    # Errors are lines in every format: whoever reads the output applies it.
    manifests = rendered(sourced_of_files(paths, "text"), namespace, COMPILED)
    if manifests.refused:
        for refused in manifests.refused:
            say(f"error: {refused}", err=True)
        sys.exit(1)
    for profile, of in manifests.unchecked:
        say(f"note: whether namespace {of} may use {profile} isn't checked: no file has the Namespace", err=True)
    if not manifests.asking:
        say("note: no VM asks for a profile (annotation virt-dra.io/devices)", err=True)
    documents = [obj.to_wire() for obj in manifests.objects]
    if output == "json":
        click.echo(document_text({"apiVersion": "v1", "kind": "List", "items": documents}, output), nl=False)
        return
    click.echo("---\n".join(document_text(document, output) for document in documents), nl=False)
