"""``virt-dra version``: which version this is."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from virt_dra.api.kubevirt_versions import NEWEST
from virt_dra.cli.shared.options import output_option
from virt_dra.cli.shared.output import print_output

if TYPE_CHECKING:
    from virt_dra.cli.documents.output_types import VersionJson

EPILOG = """\b
Examples:
  virt-dra version
  virt-dra version -o json

\b
Exit codes: 0 shown.
"""


@click.command(name="version", epilog=EPILOG)
@output_option("text", "json", "yaml")
def command(output: str) -> None:
    """Show the version, as --version does; -o json and yaml have the newest KubeVirt that it knows, too."""
    own = version("virt-dra")
    if output == "text":
        click.echo(f"virt-dra, version {own}")
        return
    members: VersionJson = {"version": own, "newestKubeVirt": str(NEWEST)}
    print_output("Version", members, output)
