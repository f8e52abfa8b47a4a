"""The options that several commands have: name, value, meaning and group, a row each.

:func:`shared` makes an option of its row. Help texts, completion, manual pages and ``virt-dra help options`` are made
of such options; a test fails for an option that a second command has and this table lacks, or that is made otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce, wraps
from inspect import signature
from pathlib import Path
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


class OptionGroup(StrEnum):
    """What an option is about, in the order of ``virt-dra help options``."""

    INPUT = "Input"
    CLUSTER = "Cluster"
    VERSIONS = "Versions and gates"
    ANSWER = "What is answered, and how"
    LINT = "Findings"
    CHANGES = "Changes"
    SERVER = "Servers"
    CONTROLLER = "Controllers"
    NODE = "Nodes"


@dataclass(frozen=True)
class SharedOption:
    """A row. ``metavar``: what its value is called; "" for a flag. ``meaning`` is what it means in every command: the
    beginning of every help text. ``type``: of the value, unless a command has one of its own."""

    name: str
    group: OptionGroup
    meaning: str
    metavar: str | None = None
    short: str = ""
    repeated: bool = False
    type: Any = None

    @property
    def is_flag(self) -> bool:
        return self.metavar == ""


class RepeatableOption(click.Option):
    """An option that may be given several times, which its help says."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "multiple": True})

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        return (record[0], f"{record[1]}  [may be repeated]") if record is not None else None


class TableOption(click.Option):
    """An option that is made of a row."""


class RepeatableTableOption(RepeatableOption, TableOption):
    """An option that is made of a row, and may be repeated."""


_FOLDER: Final = click.Path(file_okay=False, path_type=Path)
_PORT: Final = click.IntRange(0, 65535)
_IN, _CLUSTER, _VERSIONS, _ANSWER, _LINT, _CHANGES, _SERVER, _CONTROLLER, _NODE = OptionGroup
_ROWS: Final = (
    SharedOption("--filename", _IN, "Objects from files.", "FILE|DIR|URL", "-f", repeated=True),
    SharedOption("--jsonl", _IN, "Read a JSON request per line, write a JSON answer per line.", ""),
    SharedOption(
        "--address-keys", _IN,
        "Attributes that are addresses, besides the well-known ones: a YAML or JSON list of "
        "{driver, pci: [keys], mdev: [keys]}.",
        "FILE",
    ),
    SharedOption("--live", _CLUSTER, "Use a cluster, with your own rights.", ""),
    SharedOption(
        "--kubeconfig", _CLUSTER,
        "Kubeconfig of the cluster.  [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]",
        "FILE", type=click.Path(dir_okay=False),
    ),
    SharedOption("--context", _CLUSTER, "Context of the kubeconfig.  [default: the current one]", "NAME"),
    SharedOption("--namespace", _CLUSTER, "Namespace of VMs and claims.", "NAMESPACE", "-n"),
    SharedOption("--all-namespaces", _CLUSTER, "VMs and claims of all namespaces.", "", "-A"),
    SharedOption("--own-namespace", _CLUSTER, "Namespace of virt-dra itself.", "NAMESPACE"),
    SharedOption("--kubevirt-version", _VERSIONS, "Behave as this KubeVirt, e.g. 1.8.0 or main.", "VERSION"),
    SharedOption(
        "--kubevirt-gates", _VERSIONS,
        "Feature gates that differ from the KubeVirt object's, or from the version's defaults.",
        "GATE=BOOL,...", repeated=True,
    ),
    SharedOption(
        "--feature-gates", _VERSIONS, "Kubernetes' feature gates that differ from those of a plain 1.37.",
        "GATE=BOOL,...", repeated=True,
    ),
    SharedOption("--node", _ANSWER, "One node.", "NODE"),
    SharedOption("--claim", _ANSWER, "One claim.", "[NAMESPACE/]NAME"),
    SharedOption("--vmi", _ANSWER, "One VM or VMI.", "[NAMESPACE/]NAME"),
    SharedOption("--policy", _ANSWER, "Placement policy.", "NAME"),
    SharedOption("--seed", _ANSWER, "What is random is made of it: the same seed gives the same output.", "NUMBER"),
    SharedOption("--timeout", _ANSWER, "Limit of time.", "SECONDS"),
    SharedOption(
        "--most", _ANSWER, "How many waiting VMs are explained.", "NUMBER", type=click.IntRange(0, 10_000)
    ),
    SharedOption("--output", _ANSWER, "Format of the output.", None, "-o"),
    SharedOption("--out", _ANSWER, "Where to write.", "FILE", type=click.Path(dir_okay=False, path_type=Path)),
    SharedOption("--quiet", _ANSWER, "Show less.", "", "-q"),
    SharedOption("--verbose", _ANSWER, "Show more.", "", "-v"),
    SharedOption("--once", _ANSWER, "Do it once, and exit.", ""),
    SharedOption("--ignore", _LINT, "Findings to leave out; overrides --deny and --warn.", "ID,...", repeated=True),
    SharedOption("--deny", _LINT, "Findings to report as denials; `all` means every finding.", "ID,...", repeated=True),
    SharedOption("--warn", _LINT, "Findings to report as warnings, unless --deny names them.", "ID,...", repeated=True),
    SharedOption("--dry-run", _CHANGES, "Show what would change, and change nothing.", ""),
    SharedOption("--yes", _CHANGES, "Don't ask.", "", "-y"),
    SharedOption("--host", _SERVER, "Address to listen on; :: for IPv6.", "ADDRESS"),
    SharedOption("--port", _SERVER, "Port to listen on; 0 for any free port.", "PORT", type=_PORT),
    SharedOption("--plain-host", _SERVER, "Address for probes and metrics.", "ADDRESS"),
    SharedOption("--plain-port", _SERVER, "Port of probes and metrics, without TLS.", "PORT", type=_PORT),
    SharedOption(
        "--tls-dir", _SERVER, "Folder with tls.crt and tls.key that something else renews.", "DIR", type=_FOLDER
    ),
    SharedOption(
        "--self-signed", _SERVER, "Folder for an authority of our own and its certificate, made and renewed here.",
        "DIR", type=_FOLDER,
    ),
    SharedOption("--dns-name", _SERVER, "Name or address of the certificate.", "NAME", repeated=True),
    SharedOption("--service", _SERVER, "The Service whose names the certificate has.", "SERVICE.NAMESPACE"),
    SharedOption(
        "--client-ca", _SERVER, "Authorities (PEM) of callers' certificates; other callers get no answer.", "FILE",
        type=click.Path(dir_okay=False, path_type=Path),
    ),
    SharedOption("--log-level", _SERVER, "The least that is logged.", None),
    SharedOption("--lease", _CONTROLLER, "Name of the Lease for leader election.", "NAME"),
    SharedOption(
        "--lease-seconds", _CONTROLLER, "Time after which a leader that hasn't renewed the Lease is replaced.",
        "SECONDS", type=click.IntRange(3, 3600),
    ),
    SharedOption("--no-election", _CONTROLLER, "Lead without a Lease: no other process of it may run.", ""),
    SharedOption(
        "--identity", _CONTROLLER,
        "Name of this process in Lease and Events.  [default: $POD_NAME, else host and id]", "NAME",
    ),
    SharedOption("--health-port", _CONTROLLER, "Port of /healthz.", "PORT", type=click.IntRange(1, 65535)),
    SharedOption("--workers", _CONTROLLER, "VMs that are reconciled at the same time.", "NUMBER"),
    SharedOption("--launcher-image", _CONTROLLER, "Image of launcher pods of the mode standalone.", "IMAGE"),
    SharedOption("--node-policy", _NODE, "VirtDraNodePolicies from a file.", "FILE"),
    SharedOption("--label", _NODE, "A label of the node.", "KEY=VALUE", repeated=True),
    SharedOption("--host-root", _NODE, "Where the node's /sys, /proc and /dev are.", "FOLDER"),
)  # fmt: skip
OPTIONS: Final[Mapping[str, SharedOption]] = {row.name: row for row in _ROWS}


def shared(name: str, parameter: str | None = None, detail: str = "", **own: Any) -> Callable[[F], F]:
    """The option of a row. ``parameter``: the command's name for the value, if it isn't the option's; ``detail``: what
    the help text says of this command, after the meaning; ``own``: what else click needs, such as a default or
    callback."""
    row = OPTIONS[name]
    shape: dict[str, Any] = {"is_flag": True} if row.is_flag else {"metavar": row.metavar, "type": row.type}
    if own.get("default") not in (None, "") and not row.is_flag:
        shape["show_default"] = True
    cls = RepeatableTableOption if own.pop("multiple", row.repeated) else TableOption
    names = [part for part in (row.short, name, parameter) if part]
    return click.option(*names, cls=cls, help=f"{row.meaning} {detail}".strip(), **{**shape, **own})


def gathered(
    parameter: str, made: Callable[..., object], *options: Callable[[Callable[..., R]], Callable[..., R]]
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Adds the options; the command gets what ``made`` makes of their values, which are its parameters, as
    ``parameter``."""
    names = tuple(signature(made).parameters)

    def add(command: Callable[..., R]) -> Callable[..., R]:
        @wraps(command)
        def with_made(*args: Any, **kwargs: Any) -> R:
            values = {name: kwargs.pop(name) for name in names}
            return command(*args, **{parameter: made(**values)}, **kwargs)

        return reduce(lambda made, option: option(made), reversed(options), with_made)

    return add
