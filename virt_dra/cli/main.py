"""``virt-dra``: the group of subcommands. A subcommand's module is imported only when it runs, so that ``--help`` is instant."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from virt_dra.cli.shared.endings import open_closed_files, orderly


@dataclass(frozen=True)
class _Subcommand:
    module: str
    summary: str


SUBCOMMANDS: Mapping[str, _Subcommand] = {
    "run": _Subcommand("run.command", "Drive VMs from YAML to libvirt domains on an embedded cluster."),
    "cel": _Subcommand("cel.command", "Evaluate a CEL expression on devices: which match, and why one failed."),
    "allocate": _Subcommand("allocate.command", "Allocate devices to claims on nodes, and say why not."),
    "scenario": _Subcommand("scenario.command", "Play scenarios of the control loops on an embedded or a real cluster."),
    "simulate": _Subcommand("simulate.command", "Compare placement policies on a cluster, a workload or a trace."),
    "lint": _Subcommand("lint.command", "Check VMs and everything they name before anything is created."),
    "admit": _Subcommand("jsonl.admit", "Check VMIs against the admission rules (JSON lines)."),
    "webhook": _Subcommand("webhook.command", "Serve the admission webhooks (HTTPS)."),
    "webhook-certificates": _Subcommand("webhook.certificates", "Keep the webhook's certificate and the trust in it up to date."),
    "install": _Subcommand("install.command", "Install or upgrade virt-dra on a cluster, or print what would be applied."),
    "doctor": _Subcommand("doctor.command", "Examine a cluster and its virt-dra, and say what to do."),
    "uninstall": _Subcommand("install.uninstall", "Remove virt-dra from a cluster."),
    "operator": _Subcommand("operator", "Follow a cluster's VMs: publish their devices, complete their pods."),
    "render": _Subcommand("jsonl.render", "Render the device part of launcher pods (JSON lines)."),
    "device-status": _Subcommand("jsonl.device_status", "Resolve pod, claim and slice to device addresses (JSON lines)."),
    "domain-xml": _Subcommand("jsonl.domain_xml", "Turn device addresses into libvirt XML (JSON lines)."),
}


class _LazyGroup(click.Group):
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
        command = importlib.import_module(f"virt_dra.cli.{entry.module}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in SUBCOMMANDS.items()])


EPILOG = """\b
Examples:
  virt-dra lint -f examples/gpu-pci                                 what is wrong with a VM and everything it names
  virt-dra run examples/gpu-pci                                     one VM, shown step by step
  virt-dra run examples/vgpu-mdev --out /tmp/out -o json            every object and the domain written, the report as JSON
  virt-dra admit --jsonl < examples/requests/admit.jsonl            admission verdicts, one per line
\b
Every command has its own --help with examples and exit codes. All have these too: 2 the output can't be written, 130 interrupted (Ctrl-C),
141 the reader of the output closed it.
"""


@click.group(
    cls=_LazyGroup, name="virt-dra", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}
)
@click.version_option(package_name="virt-dra", prog_name="virt-dra")
def cli() -> None:
    """Dynamic Resource Allocation for KubeVirt virtual machines: from a VM's YAML to a domain that libvirt accepts."""


def main(loaded: Callable[[], None] = lambda: None) -> None:
    """Runs the command line. ``loaded`` is called once interrupts are handled here (see ``cli.start``)."""
    open_closed_files()
    with orderly():  # what click writes about bad usage
        loaded()
        cli()
