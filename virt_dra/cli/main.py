"""``virt-dra``: the group of subcommands. A subcommand's module is imported only when it runs, so that ``--help`` is
instant."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import click

from virt_dra.api.reading.collector import collector_paused
from virt_dra.cli.program.defaults import IN_PODS, default_map, read_defaults
from virt_dra.cli.shared.endings import open_closed_files, orderly, take_every_character
from virt_dra.cli.shared.workflow_log import workflow_output


class HelpSection(StrEnum):
    """What a command is for; ``--help`` lists the commands by it, in this order."""

    CHECK = "Check"
    SIMULATE = "Simulate"
    CLUSTER = "Cluster"
    FILTERS = "Filters (JSON lines)"
    PROGRAM = "This program"


@dataclass(frozen=True)
class _Subcommand:
    section: HelpSection
    module: str
    summary: str


_SUMMARIES: Final[Mapping[HelpSection, Mapping[str, str]]] = {
    HelpSection.CHECK: {
        "lint": "Check VMs and everything they name before anything is created.",
        "explain": "Explain why a VM or claim gets no place, and what would help.",
        "diff": "Show which VMs start or stop fitting between two states of a cluster.",
        "plan": "Show what a change of manifests would do to a cluster.",
        "render-profile": "Write out the devices that VMs ask for by a line of profiles.",
        "allocate": "Allocate devices to claims on nodes, and say why not.",
        "cel": "Evaluate a CEL expression on devices: which match, and why one failed.",
    },
    HelpSection.SIMULATE: {
        "run": "Drive VMs from YAML to libvirt domains on an embedded cluster.",
        "domain-xml": "Make the libvirt domain of a VM, validate it, or compare it with another.",
        "scenario": "Play scenarios of the control loops on an embedded or a real cluster.",
        "simulate": "Compare placement policies on a cluster, a workload or a trace.",
    },
    HelpSection.CLUSTER: {
        "get": "Show VMs, devices, claims, pools or drivers: who has what, what is free.",
        "describe": "Show everything that is known of one VM, device, claim, pool or driver.",
        "release": "Release the devices that a stopped VM keeps.",
        "top": "Watch VMs, devices and what waits in the terminal.",
        "topology": "Show where a cluster's devices are, and who has them.",
        "report": "Write one page about a cluster's devices, its VMs and what waits.",
        "report-server": "Serve that page live, to those who may list what it shows (HTTPS).",
        "install": "Install or upgrade virt-dra on a cluster, or print what would be applied.",
        "doctor": "Examine a cluster and its virt-dra, and say what to do.",
        "uninstall": "Remove virt-dra from a cluster.",
        "operator": "Follow a cluster's VMs: publish their devices, complete their pods.",
        "keeper": "Hold the devices of stopped VMs that keep them, and release them.",
        "node-driver": "Publish a node's devices for VMs and prepare them; --plan shows which.",
        "node-check": "Examine a node: what would stop a VM with devices, and what to do about it.",
        "webhook": "Serve the admission webhooks (HTTPS).",
        "webhook-certificates": "Keep the webhook's certificate and the trust in it up to date.",
        "extender": "Score fitting nodes by a placement policy, for kube-scheduler.",
    },
    HelpSection.FILTERS: {
        "admit": "Check VMIs against the admission rules.",
        "render": "Render the device part of launcher pods.",
        "device-status": "Resolve pod, claim and slice to device addresses.",
    },
    HelpSection.PROGRAM: {
        "completion": "Print the script that makes a shell complete virt-dra.",
        "config": "Show your own defaults of options, and where each is from.",
        "help": "Show the help of a command, as its --help does.",
        "schema": "Print JSON Schemas, of outputs and of KubeVirt's objects.",
        "version": "Show the version.",
    },
}
_MODULES: Final = {
    "uninstall": "install.uninstall",
    "operator": "operator",
    "keeper": "keeper",
    "webhook-certificates": "webhook.certificates",
    "admit": "jsonl.admit",
    "render": "jsonl.render",
    "device-status": "jsonl.device_status",
    "config": "program.config",
    "help": "program.help",
    "schema": "program.schema",
    "version": "program.version",
}
"""Of the commands whose module isn't ``NAME.command``."""
SUBCOMMANDS: Final[Mapping[str, _Subcommand]] = {
    name: _Subcommand(section, _MODULES.get(name, f"{name.replace('-', '_')}.command"), summary)
    for section, summaries in _SUMMARIES.items()
    for name, summary in summaries.items()
}
SHORTER_NAMES: Mapping[str, Sequence[str]] = {
    "kubevirt": ("kubevirt-version",),
    "gates": ("kubevirt-gates", "feature-gates"),
    "features": ("feature-gates",),
    "explain": ("verbose",),
    "field": ("field-selector",),
    "policy": ("node-policy",),
}
"""Common spellings of options, with the names that they stand for; the first that a command has is taken. Help texts
leave them out."""
SUGGESTED: Final = 3
"""The most commands that the error about an unknown one suggests."""


class _LazyGroup(click.Group):
    def main(self, *args: Any, **kwargs: Any) -> Any:
        with workflow_output():  # usage errors, too, which click prints here
            return super().main(*args, **kwargs)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with orderly():  # --help and --version write already
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with orderly():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = SUBCOMMANDS.get(cmd_name)
        if entry is None:
            return None
        with collector_paused():  # importing makes many objects and hardly any garbage
            command = importlib.import_module(f"virt_dra.cli.{entry.module}").command
        if ctx.obj is not None:
            ctx.obj()
        assert isinstance(command, click.Command)
        command.context_settings["token_normalize_func"] = _full_name(command)
        if not ctx.resilient_parsing and cmd_name not in IN_PODS:
            defaults = read_defaults(tuple(SUBCOMMANDS), os.environ)
            command.context_settings["default_map"] = default_map(cmd_name, command, defaults)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in SUBCOMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            meant = ", ".join(map(repr, get_close_matches(name.lower(), SUBCOMMANDS, n=SUGGESTED)))
            hint = f" Did you mean {'one of: ' if ',' in meant else ''}{meant}?" if meant else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section in HelpSection:
            with formatter.section(section):
                formatter.write_dl(list(_SUMMARIES[section].items()))


def _full_name(command: click.Command) -> Callable[[str], str]:
    """A function from what is typed for an option, without its dashes, to the name that the command knows it by:
    click's normalization."""
    options = (parameter for parameter in command.params if isinstance(parameter, click.Option))
    names = {name.lstrip("-") for option in options for name in option.opts}
    renamed = {
        short: next(name for name in possible if name in names)
        for short, possible in SHORTER_NAMES.items()
        if short not in names and not names.isdisjoint(possible)
    }
    return lambda name: renamed.get(name, name)


EPILOG = """\b
Examples:
  virt-dra lint -f examples/gpu-pci                         what is wrong with a VM and everything it names
  virt-dra run examples/gpu-pci                             one VM, shown step by step
  virt-dra run examples/vgpu-mdev --out /tmp/out -o json    every object and the domain written, the report as JSON
  virt-dra admit --jsonl < examples/requests/admit.jsonl    admission verdicts, one per line

\b
Every command has its own --help with examples and exit codes. All have these too: 2 the output can't be written, 130
interrupted (Ctrl-C), 141 the reader of the output closed it.
"""


@click.group(
    cls=_LazyGroup,
    name="virt-dra",
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(package_name="virt-dra", prog_name="virt-dra")
def cli() -> None:
    """Dynamic Resource Allocation for KubeVirt virtual machines: from a VM's YAML to a domain that libvirt accepts."""


def main(loaded: Callable[[], None] = lambda: None) -> None:
    """Runs the command line. ``loaded`` is called once interrupts are handled here (see ``cli.start``)."""
    open_closed_files()
    take_every_character()
    with orderly():  # what click writes about bad usage
        loaded()
        name = _plugin_name() if Path(sys.argv[0]).name == "kubectl-virt_dra" else None
        cli(prog_name=name, obj=_exempt_program)


def _exempt_program() -> None:
    """Turns garbage collection on for all but the loaded program, which lives as long as its process: traversing it was
    an eighth of a short command's time."""
    gc.freeze()
    gc.enable()


def _plugin_name() -> str:
    from virt_dra.cli.shared.cluster_options import KUBECTL_PROGRAM  # takes 50 ms, which --help does without

    return KUBECTL_PROGRAM
