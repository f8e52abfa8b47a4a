"""``virt-dra config``: the user's own defaults of options, and where each is from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from virt_dra.cli.program.defaults import GENERAL, OptionDefault, config_file, read_defaults
from virt_dra.cli.shared.aligned import aligned
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.options import output_option
from virt_dra.cli.shared.output import print_output

if TYPE_CHECKING:
    from virt_dra.cli.documents.output_types import ConfigurationJson, OptionDefaultJson

HELP = """Show the defaults of options that are your own, with where each is from.

They are written in a file, $XDG_CONFIG_HOME/virt-dra/config.toml (by default ~/.config/virt-dra/config.toml), and in
variables. What is given on the command line counts more than a variable, a variable more than the file, and a command's
own default more than that of all commands.

\b
  namespace = "team-a"     VIRT_DRA_NAMESPACE=team-a      of every command
  [get]
  output = "wide"          VIRT_DRA_GET_OUTPUT=wide       of virt-dra get

Of every command: address-keys, context, kubeconfig, kubevirt-gates, kubevirt-version, namespace; of one also output.
.virt-dra.toml is another file: it belongs to a folder of manifests and says how virt-dra lint checks them; it counts
more than this one. Programs that run in pods (operator, webhook, ...) take no defaults. """

EPILOG = """\b
Examples:
  virt-dra config
  virt-dra config -o json

\b
Exit codes: 0 shown; 2 the file can't be read or has something else in it.
"""


@click.command(name="config", help=HELP, epilog=EPILOG)
@output_option("text", "json", "yaml")
@click.pass_context
def command(context: click.Context, output: str) -> None:
    group = context.find_root().command
    assert isinstance(group, click.Group)
    file = config_file(os.environ)
    effective: dict[tuple[str, str], OptionDefault] = {}
    for default in read_defaults(tuple(group.list_commands(context)), os.environ):
        effective.setdefault((default.command, default.option), default)
    shown = sorted(effective.values(), key=lambda default: (default.command, default.option))
    if output == "text":
        rows = [(f"{of.command} {of.option}".strip(), _text(of.value), of.source) for of in shown]
        unset = [(option, "-", "-") for option in GENERAL if ("", option) not in effective]
        say("\n".join(aligned(("OPTION", "VALUE", "SOURCE"), sorted((*rows, *unset)))))
        say(f"file: {file}{'' if file.exists() else ' (not there)'}")
        return
    options: list[OptionDefaultJson] = [
        {"command": of.command or None, "option": of.option, "value": of.value, "source": of.source} for of in shown
    ]
    members: ConfigurationJson = {"file": str(file), "options": options}
    print_output("Configuration", members, output)


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ",".join(value)
